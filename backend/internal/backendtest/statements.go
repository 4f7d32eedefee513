package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// Statements holds the number of statements that the common operations take,
// without those that frame a transaction.
func Statements(f *Fixture, count *Counter, frame []string, want map[string]int) {
	d := f.Open()

	// measure counts the statements of the last of three runs: by then they are
	// prepared.
	measure := func(name string, before func(), work func(backend.Tx) error) {
		f.Helper()
		for range 3 {
			if before != nil {
				before()
			}
			count.Take()
			f.Do(work)
		}
		var got []string
		for _, s := range count.Take() {
			if !slices.Contains(frame, s) {
				got = append(got, s)
			}
		}
		if len(got) != want[name] {
			f.Errorf("%s: %d statements, want %d:\n%s", name, len(got), want[name], strings.Join(got, "\n--\n"))
		}
	}
	send := func(n int) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			var batch []backend.Outgoing
			for i := range n {
				batch = append(batch, Message(d.A.Handle, fmt.Sprint(i)))
			}
			_, err := tx.Send(f.Ctx, f.Version, batch)
			return err
		}
	}
	post := func(n int, p backend.Posting) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			var batch []backend.Posting
			for i := range n {
				x := p
				if x.Key != "" {
					x.Key = fmt.Sprint(p.Key, i%10)
				}
				batch = append(batch, f.Posting(x))
			}
			_, err := tx.Post(f.Ctx, f.Version, batch)
			return err
		}
	}
	measure("send one", nil, send(1))
	measure("send a hundred", nil, send(100))
	measure("post one", nil, post(1, backend.Posting{}))
	measure("post a hundred", nil, post(100, backend.Posting{}))
	f.Drain(f.QP)
	f.Do(post(10, backend.Posting{Key: "k"}))
	measure("post one with a key", nil, post(1, backend.Posting{Key: "k"}))
	measure("post a hundred with ten keys", nil, post(100, backend.Posting{Key: "k"}))
	fresh := func(n int) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			var batch []backend.Posting
			for range n {
				batch = append(batch, f.Posting(backend.Posting{Key: backend.NewID().String()}))
			}
			_, err := tx.Post(f.Ctx, f.Version, batch)
			return err
		}
	}
	measure("post one with a new key", nil, fresh(1))
	measure("post a hundred with new keys", nil, fresh(100))
	f.Drain(f.QP)
	f.Drain(f.QB)

	var claim backend.Claim
	claiming := func(queue int64, groups int, lease time.Duration) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			r := f.Request(queue)
			r.Lease, r.MaxGroups, r.Alone = lease, groups, true // as Broker.Receive claims
			c, err := tx.Claim(f.Ctx, r)
			if len(c.Holds) == 0 {
				f.Error("nothing was claimed")
			}
			claim = c
			return err
		}
	}
	settle := func(tx backend.Tx) error {
		var all []backend.Outcome
		for _, h := range claim.Holds {
			all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
		}
		_, err := tx.Settle(f.Ctx, all)
		return err
	}
	both := func(work func(backend.Tx) error) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			if err := work(tx); err != nil {
				return err
			}
			return settle(tx)
		}
	}
	sendTen := func() { f.Do(send(10)) }
	postTen := func() { f.Do(post(10, backend.Posting{})) }
	keyedTen := func() { f.Do(post(10, backend.Posting{Key: "k"})) }
	measure("claim and settle a group, in one transaction", sendTen, both(claiming(f.QB, 1, 0)))
	measure("claim and settle ten keys, in one transaction", keyedTen, both(claiming(f.QP, 10, 0)))
	measure("claim and settle ten posts, in one transaction", postTen, both(claiming(f.QP, 10, 0)))
	f.Drain(f.QB)
	// What is held by lease is not free for the next run, which has another key.
	n := 0
	measure("claim a key by lease", func() {
		n++
		f.Post(backend.Posting{Key: fmt.Sprint("lease", n)})
	}, claiming(f.QP, 1, time.Minute))
	measure("claim ten posts by lease", postTen, claiming(f.QP, 10, time.Minute))
	measure("settle ten posts held by lease", func() {
		postTen()
		f.Do(claiming(f.QP, 10, time.Minute))
	}, func(tx backend.Tx) error {
		if err := tx.Reclaim(f.Ctx, claim.Holds); err != nil {
			return err
		}
		return settle(tx)
	})
	var ends []backend.TaskEnd
	measure("end a hundred tasks", func() { ends = f.Tasks(100, 0) }, func(tx backend.Tx) error {
		lost, err := tx.FinishTasks(f.Ctx, ends)
		if len(lost) > 0 {
			f.Errorf("%d tasks were lost", len(lost))
		}
		return err
	})
	nothing := func(tx backend.Tx) error {
		r := f.Request(f.QA)
		r.Alone = true
		c, err := tx.Claim(f.Ctx, r)
		if len(c.Holds) > 0 {
			f.Error("something was claimed")
		}
		return err
	}
	measure("claim nothing", nil, nothing)
	measure("claim nothing where posts have been", func() {
		f.Post(backend.Posting{Queue: f.QA})
		f.Ack(f.Claim(f.Request(f.QA)).Holds[0])
	}, nothing)
}
