package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "A27", Name: "what is due behind rows that are locked", Run: checkDueBehindLocked},
		check{ID: "A28", Name: "what is due behind posts of a disabled queue", Run: checkDueBehindDisabled},
		check{ID: "V04", Name: "a job names its queues", Run: checkDueQueues},
		check{ID: "A29", Name: "dead groups among live ones", Run: checkDeadGroups},
	)
}

// dueAtOnce is how many rows fall due, and dueBatch how many a maintenance job is asked to move.
const (
	dueAtOnce = 12
	dueBatch  = 5
	dueSoon   = time.Millisecond
)

// checkDueBehindLocked has all rows but the last locked, and all but the posts of the
// last key kept waiting by its writer.
func checkDueBehindLocked(e *env) {
	if !e.ManyWriters() {
		e.Skipf("the store has one writer at a time, beside which nothing is locked")
	}
	s := invUnder(invWorld(e))
	for _, x := range []struct {
		what string
		job  backend.Job
		fall func(i int) parley.ID
		lock func(tx backend.Tx, id parley.ID) error
	}{
		{"posts", backend.JobDelayed,
			func(int) parley.ID { return s.post(s.SQ, "delayed", parley.After(dueSoon)) },
			func(tx backend.Tx, id parley.ID) error { return tx.Cancel(e.Ctx, s.sq, id) }},
		{"posts with keys", backend.JobDelayed,
			func(i int) parley.ID {
				key := parley.Key(fmt.Sprint("busy ", i == dueAtOnce-1))
				if i == 0 || i == dueAtOnce-1 {
					s.post(s.SQ, "makes the key", key)
				}
				return s.post(s.SQ, "delayed", key, parley.After(dueSoon))
			},
			func(tx backend.Tx, _ parley.ID) error { return s.key("busy false").send(e.Ctx, tx, "keeps the key") }},
		{"timers", backend.JobTimers,
			func(int) parley.ID {
				h := s.Dialog()
				s.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(e.Ctx, dueSoon) })
				return h
			},
			func(tx backend.Tx, h parley.ID) error { return tx.SetTimer(e.Ctx, h, time.Hour) }},
	} {
		var ids []parley.ID
		for i := range dueAtOnce {
			ids = append(ids, x.fall(i))
		}
		time.Sleep(20 * time.Millisecond)
		tx := s.begin()
		for _, id := range ids[:dueAtOnce-1] {
			e.Must(x.lock(tx, id))
		}
		free, rest := ids[dueAtOnce-1:], ids[:dueAtOnce-1]
		if !s.fell(s.sq, x.job, free) {
			e.Errorf("%s: what is not locked waits for what is", x.what)
		}
		s.rollback(tx)
		if !s.fell(s.sq, x.job, rest) {
			e.Errorf("%s: what is not locked any more still waits", x.what)
		}
	}
}

// fell does a maintenance job, a few rows at a time, until these delayed posts and timers have become
// messages. It reports whether that was soon.
func (s *invBelow) fell(queue int64, job backend.Job, ids []parley.ID) bool {
	waits := func(id parley.ID) bool {
		if job == backend.JobDelayed {
			st, err := s.be.PostStatus(s.Ctx, queue, id)
			s.Must(err)
			return st.State == "delayed"
		}
		list, err := s.be.Conversations(s.Ctx, backend.ConversationQuery{Handle: id, Limit: 2})
		s.Must(err)
		return !slices.ContainsFunc(list, func(c backend.ConversationStatus) bool { return c.Handle == id && c.Waiting > 0 })
	}
	return s.Soon(5*time.Second, func() bool {
		_, err := s.be.Maintain(s.Ctx, job, dueBatch)
		s.Must(err)
		for len(ids) > 0 && !waits(ids[0]) {
			ids = ids[1:]
		}
		return len(ids) == 0
	})
}

// checkDueQueues: a job that says where it made messages receivable says it rightly.
func checkDueQueues(e *env) {
	s := invUnder(e.idle())
	names := map[int64]string{s.cq: s.CQ, s.sq: s.SQ}
	for _, x := range []struct {
		what  string
		job   backend.Job
		queue int64
		fall  func()
	}{
		{"delayed post", backend.JobDelayed, s.cq, func() { s.post(s.CQ, "delayed", parley.After(dueSoon)) }},
		{"delayed post with a key", backend.JobDelayed, s.sq,
			func() { s.post(s.SQ, "delayed", parley.Key("k"), parley.After(dueSoon)) }},
		{"timer", backend.JobTimers, s.cq, func() {
			h := s.Dialog()
			s.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(e.Ctx, dueSoon) })
		}},
		{"deferred post", backend.JobDeferred, s.cq, func() {
			s.post(s.CQ, "deferred")
			e.Must(s.Receive(s.CQ, nil).Defer(e.Ctx, dueSoon))
		}},
		{"deferred group", backend.JobDeferred, s.sq, func() {
			s.Dialog("deferred")
			e.Must(s.Receive(s.SQ, nil).Defer(e.Ctx, dueSoon))
		}},
	} {
		s.Drain(s.CQ)
		s.Drain(s.SQ)
		x.fall()
		moved, named := 0, []string{}
		s.Soon(5*time.Second, func() bool {
			done, err := s.be.Maintain(e.Ctx, x.job, dueBatch)
			e.Must(err)
			moved += done.Moved
			for _, q := range done.Queues {
				named = append(named, names[q])
			}
			return moved > 0
		})
		if moved == 0 || len(named) > 0 && !slices.Equal(named, []string{names[x.queue]}) {
			e.Errorf("a %s for queue %q: the job moves %d items, and names the queues %q", x.what, names[x.queue], moved, named)
		}
	}
}

func checkDueBehindDisabled(e *env) {
	s := invUnder(invWorld(e))
	var disabled []parley.ID
	for range dueAtOnce {
		disabled = append(disabled, s.post(s.CQ, "delayed", parley.After(dueSoon)))
	}
	e.Must(s.B.Admin().DisableQueue(e.Ctx, s.CQ))
	time.Sleep(5 * time.Millisecond)
	id := s.post(s.SQ, "delayed", parley.After(dueSoon))
	if !s.fell(s.sq, backend.JobDelayed, []parley.ID{id}) {
		e.Errorf("a post that is due waits for those of a disabled queue")
	}
	e.Must(s.B.Admin().EnableQueue(e.Ctx, s.CQ))
	if !s.fell(s.cq, backend.JobDelayed, disabled) {
		e.Errorf("posts that are due wait though their queue has been enabled again")
	}
}

// checkDeadGroups leaves groups without conversations among those of posts that wait.
func checkDeadGroups(e *env) {
	const live, dead = 60, 20
	s := invUnder(invWorld(e))
	var groups []parley.ID
	for i := range live {
		s.post(s.SQ, "waits", parley.Key(fmt.Sprint("live ", i)))
		if i%(live/dead) != 0 {
			continue
		}
		h := s.Dialog()
		s.Tx(func(tx *parley.Tx) error {
			st, err := tx.Conversation(h).Status(e.Ctx)
			groups = append(groups, st.Group)
			return err
		})
		s.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).End(e.Ctx) })
	}
	there := func(id parley.ID) bool {
		tx := s.begin()
		defer tx.Rollback(e.Ctx)
		err := tx.LockGroup(e.Ctx, id)
		if err != nil && !errors.Is(err, backend.ErrNoGroup) && !invBusy(e, err) {
			e.Errorf("lock a group: %v", err)
		}
		return !errors.Is(err, backend.ErrNoGroup)
	}
	left := groups
	gone := e.Soon(5*time.Second, func() bool {
		for _, job := range []backend.Job{backend.JobClosed, backend.JobGroups} {
			_, err := s.be.Maintain(e.Ctx, job, dueBatch)
			e.Must(err)
		}
		for len(left) > 0 && !there(left[0]) {
			left = left[1:]
		}
		return len(left) == 0
	})
	if !gone {
		e.Errorf("of %d groups without conversations %d are there for ever", len(groups), len(left))
	}
	if got := len(s.Drain(s.SQ)); got != live {
		e.Errorf("received %d posts of groups in use, want %d", got, live)
	}
}
