package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Statements holds the number of statements that the common operations take,
// without those that frame a transaction.
func Statements(f *Fixture, count *Counter, frame []string, want map[string]int) {
	s := &statements{Fixture: f, count: count, frame: frame, want: want, d: f.Open()}
	s.sends()
	s.claims()
	s.leases()
	s.others()
}

type statements struct {
	*Fixture
	count *Counter
	frame []string
	want  map[string]int
	d     Dialog
	claim backend.Claim // the last one
}

// measure counts the statements of the last of three runs: by then they are
// prepared.
func (s *statements) measure(name string, before func(), work func(backend.Tx) error) {
	s.Helper()
	for range 3 {
		if before != nil {
			before()
		}
		s.count.Take()
		s.Do(work)
	}
	var got []string
	for _, text := range s.count.Take() {
		if !slices.Contains(s.frame, text) {
			got = append(got, text)
		}
	}
	if len(got) != s.want[name] {
		s.Errorf("%s: %d statements, want %d:\n%s", name, len(got), s.want[name], strings.Join(got, "\n--\n"))
	}
}

func (s *statements) send(n int) func(backend.Tx) error {
	return func(tx backend.Tx) error {
		var batch []backend.Outgoing
		for i := range n {
			batch = append(batch, Message(s.d.A.Handle, fmt.Sprint(i)))
		}
		_, err := tx.Send(s.Ctx, s.Version, batch)
		return err
	}
}

// post posts n at once, with the keys that key makes.
func (s *statements) post(n int, key func(i int) string) func(backend.Tx) error {
	return func(tx backend.Tx) error {
		var batch []backend.Posting
		for i := range n {
			batch = append(batch, s.Posting(backend.Posting{Key: key(i)}))
		}
		_, err := tx.Post(s.Ctx, s.Version, batch)
		return err
	}
}

func noKey(int) string      { return "" }
func oneOfTen(i int) string { return fmt.Sprint("k", i%10) }
func newKey(int) string     { return backend.NewID().String() }

func (s *statements) sends() {
	s.measure("send one", nil, s.send(1))
	s.measure("send a hundred", nil, s.send(100))
	s.measure("post one", nil, s.post(1, noKey))
	s.measure("post a hundred", nil, s.post(100, noKey))
	s.Drain(s.QP)
	s.Do(s.post(10, oneOfTen))
	s.measure("post one with a key", nil, s.post(1, oneOfTen))
	s.measure("post a hundred with ten keys", nil, s.post(100, oneOfTen))
	s.measure("post one with a new key", nil, s.post(1, newKey))
	s.measure("post a hundred with new keys", nil, s.post(100, newKey))
	s.Drain(s.QP)
	s.Drain(s.QB)
}

// take claims, and keeps what it got.
func (s *statements) take(queue int64, groups int, lease time.Duration) func(backend.Tx) error {
	return func(tx backend.Tx) (err error) {
		r := s.Request(queue)
		r.Lease, r.MaxGroups, r.Alone = lease, groups, true // as Broker.Receive claims
		s.claim, err = tx.Claim(s.Ctx, r)
		if len(s.claim.Holds) == 0 {
			s.Error("nothing was claimed")
		}
		return err
	}
}

// settled settles after work.
func (s *statements) settled(work func(backend.Tx) error) func(backend.Tx) error {
	return func(tx backend.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		var all []backend.Outcome
		for _, h := range s.claim.Holds {
			all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
		}
		_, err := tx.Settle(s.Ctx, all)
		return err
	}
}

func (s *statements) claims() {
	s.measure("claim and settle a group, in one transaction", func() { s.Do(s.send(10)) }, s.settled(s.take(s.QB, 1, 0)))
	s.measure("claim and settle ten keys, in one transaction", func() { s.Do(s.post(10, oneOfTen)) }, s.settled(s.take(s.QP, 10, 0)))
	s.measure("claim and settle ten posts, in one transaction", func() { s.Do(s.post(10, noKey)) }, s.settled(s.take(s.QP, 10, 0)))
	s.Drain(s.QB)
}

func (s *statements) leases() {
	// What is held by lease is not free for the next run, which has another key.
	n := 0
	s.measure("claim a key by lease", func() {
		n++
		s.Post(backend.Posting{Key: fmt.Sprint("lease", n)})
	}, s.take(s.QP, 1, time.Minute))
	postTen := func() { s.Do(s.post(10, noKey)) }
	s.measure("claim ten posts by lease", postTen, s.take(s.QP, 10, time.Minute))
	s.measure("settle ten posts held by lease", func() {
		postTen()
		s.Do(s.take(s.QP, 10, time.Minute))
	}, s.settled(func(tx backend.Tx) error { return tx.Reclaim(s.Ctx, s.claim.Holds) }))
	var held []*backend.Hold
	s.measure("settle a key and a post that failed", func() {
		n++
		s.Drain(s.QP)
		s.Post(backend.Posting{Key: fmt.Sprint("failed", n)})
		held = []*backend.Hold{s.One(s.Request(s.QP))}
		s.Post(backend.Posting{})
		held = append(held, s.One(s.Request(s.QP)))
	}, func(tx backend.Tx) error {
		err := tx.Reclaim(s.Ctx, held)
		var failed []backend.Outcome
		for _, h := range held {
			m := h.Messages[0]
			failed = append(failed, backend.Outcome{Hold: h, Defer: time.Hour, Failure: &backend.Failure{
				Message: m, Attempts: 1, Error: "failed", Errors: backend.AddAttempt(m.Errors, 1, "failed")}})
		}
		if err == nil {
			_, err = tx.Settle(s.Ctx, failed)
		}
		return err
	})
}

func (s *statements) others() {
	var ends []backend.TaskEnd
	s.measure("end a hundred tasks", func() { ends = s.Tasks(100, 0) }, func(tx backend.Tx) error {
		lost, err := tx.FinishTasks(s.Ctx, ends)
		if len(lost) > 0 {
			s.Errorf("%d tasks were lost", len(lost))
		}
		return err
	})
	s.joins("a hundred delayed posts become due")
	nothing := func(tx backend.Tx) error {
		r := s.Request(s.QA)
		r.Alone = true
		c, err := tx.Claim(s.Ctx, r)
		if len(c.Holds) > 0 {
			s.Error("something was claimed")
		}
		return err
	}
	s.measure("claim nothing", nil, nothing)
	s.measure("claim nothing where posts have been", func() {
		s.Post(backend.Posting{Queue: s.QA})
		s.Ack(s.Claim(s.Request(s.QA)).Holds[0])
	}, nothing)
	for name, delay := range map[string]time.Duration{"cancel a hundred posts": 0, "cancel a hundred delayed posts": time.Hour} {
		var ids []backend.ID
		s.measure(name, func() {
			ids = nil
			s.Do(func(tx backend.Tx) error {
				var batch []backend.Posting
				for range 100 {
					p := s.Posting(backend.Posting{Delay: delay})
					batch, ids = append(batch, p), append(ids, p.ID)
				}
				_, err := tx.Post(s.Ctx, s.Version, batch)
				return err
			})
		}, func(tx backend.Tx) error {
			removed, err := tx.CancelFree(s.Ctx, s.QP, ids)
			s.Equal(name, len(removed), len(ids))
			return err
		})
	}
	s.Do(s.post(100, func(i int) string { return fmt.Sprint("listed ", i) }))
	s.measure("list a hundred keys and posts", nil, func(backend.Tx) error {
		list, err := s.Backend.Groups(s.Ctx, backend.GroupQuery{Queue: s.QP, Limit: 100})
		s.Equal("groups", len(list), 100)
		return err
	})
}

// joins counts the statements by which a hundred delayed posts join their queue.
func (s *statements) joins(name string) {
	s.Helper()
	const due = 100
	s.Do(func(tx backend.Tx) error {
		var batch []backend.Posting
		for range due {
			batch = append(batch, s.Posting(backend.Posting{Delay: time.Microsecond}))
		}
		_, err := tx.Post(s.Ctx, s.Version, batch)
		return err
	})
	s.count.Take()
	moved := 0
	slow.Eventually(s.T, 10*time.Second, "delayed posts join their queue", func() (any, bool) {
		done, err := s.Backend.Maintain(s.Ctx, backend.JobDelayed, due)
		s.OK(err)
		moved += done.Moved
		return moved, moved >= due
	})
	n := 0
	for _, text := range s.count.Take() {
		if !slices.Contains(s.frame, text) {
			n++
		}
	}
	if most := s.want[name]; n > most {
		s.Errorf("%s: %d statements, want at most %d", name, n, most)
	}
	s.Drain(s.QP)
}
