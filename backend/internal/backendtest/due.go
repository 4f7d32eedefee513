package backendtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// falling is a kind of row that falls due. fall makes a row that is due in a moment. lock has a
// transaction lock it.
type falling struct {
	name string
	job  backend.Job
	fall func(f *Fixture) (id backend.ID)
	lock func(f *Fixture, tx backend.Tx, id backend.ID) error
	in   func(f *Fixture) (queue int64)
}

const inAMoment = time.Microsecond

var fallings = []falling{
	{"delayed posts", backend.JobDelayed,
		func(f *Fixture) backend.ID { return f.Post(backend.Posting{Delay: inAMoment}) },
		func(f *Fixture, tx backend.Tx, id backend.ID) error { return tx.Cancel(f.Ctx, f.QP, id) },
		func(f *Fixture) int64 { return f.QP }},
	{"timers", backend.JobTimers,
		func(f *Fixture) backend.ID {
			d := f.Open()
			f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, inAMoment) })
			return d.A.Handle
		},
		func(f *Fixture, tx backend.Tx, id backend.ID) error { return tx.SetTimer(f.Ctx, id, time.Hour) },
		func(f *Fixture) int64 { return f.QA }},
	{"deferred groups", backend.JobDeferred,
		func(f *Fixture) backend.ID {
			d := f.Open()
			f.Send(d.A.Handle, "1")
			f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QB)), Defer: inAMoment})
			return d.B.Group
		},
		func(f *Fixture, tx backend.Tx, id backend.ID) error { return tx.LockGroup(f.Ctx, id) },
		func(f *Fixture) int64 { return f.QB }},
	{"deferred posts", backend.JobDeferred,
		func(f *Fixture) backend.ID {
			id := f.Post(backend.Posting{})
			f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QP)), Defer: inAMoment})
			return id
		},
		func(f *Fixture, tx backend.Tx, id backend.ID) error { return tx.Unpark(f.Ctx, id) },
		func(f *Fixture) int64 { return f.QP }},
}

// lockedDueRows: what is due and locked hides nothing that is free, and is looked at
// ever more rarely.
func lockedDueRows(t *testing.T, fresh func(*testing.T) *interleaving) {
	const all, limit = 23, 5
	for _, x := range fallings {
		t.Run(x.name, func(t *testing.T) {
			f := fresh(t)
			var due []backend.ID
			for range all {
				due = append(due, x.fall(f.Fixture))
			}
			time.Sleep(2 * time.Millisecond)
			holder := f.Begin()
			for _, id := range due[:all-1] {
				f.OK(x.lock(f.Fixture, holder, id))
			}
			maintain := func() (done backend.Maintained) {
				f.soon("maintain", func(ctx context.Context) (err error) {
					done, err = f.Backend.Maintain(ctx, x.job, limit)
					return err
				})
				return done
			}
			done := maintain()
			f.Equal("moved", done.Moved, 1)
			f.Equal("queues with new messages", done.Queues, []int64{x.in(f.Fixture)})
			first, second := maintain(), maintain()
			if second.Next <= first.Next {
				t.Errorf("what is locked is looked at in %v and then in %v", first.Next, second.Next)
			}
			f.Equal("queues with new messages while all is locked", first.Queues, []int64(nil))
			f.OK(holder.Rollback(f.Ctx))
			for moved := 1; moved < all; moved += done.Moved {
				if done = maintain(); done.Moved == 0 {
					t.Fatalf("%d of %d became messages", moved, all)
				}
			}
		})
	}
}

// Due runs tests of what falls due, and of the slow walks, on tables that SQL has filled.
func Due(t *testing.T, site func(t *testing.T) Site) {
	for name, test := range map[string]func(*Fixture, Site){
		"queues take turns, and a disabled queue costs no batch": dueInQueues,
		"a queue that is disabled takes nothing from then on":    dueWhenDisabled,
		"timers of older programs":                               timersOfOlderPrograms,
		"dead keys behind many that live":                        deadKeys,
		"one process walks at a time":                            walkInTurn,
	} {
		t.Run(name, func(t *testing.T) {
			s := site(t)
			b := s.Open(t)
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(New(t, b), s)
		})
	}
}

func dueInQueues(f *Fixture, s Site) {
	for range 40 {
		f.Post(backend.Posting{Queue: f.QA, Delay: inAMoment})
		f.Post(backend.Posting{Queue: f.QP, Delay: inAMoment})
	}
	f.Post(backend.Posting{Queue: f.QB, Delay: inAMoment})
	s.Exec(f.T, fmt.Sprintf("UPDATE parley_queue SET enabled = 0 WHERE queue_id = %d", f.QA))
	time.Sleep(2 * time.Millisecond)
	done, err := f.Backend.Maintain(f.Ctx, backend.JobDelayed, 20)
	f.OK(err)
	f.Equal("moved", done.Moved, 20)
	f.Equal("posts of the short queue", len(f.Drain(f.QB)), 1)
	f.Equal("posts of the long queue", len(f.Drain(f.QP)), 19)
	f.MaintainUntil(backend.JobDelayed, 21)
	_, next := f.Maintain(backend.JobDelayed)
	f.Equal("what waits for a disabled queue is due in", next, time.Duration(0))
}

func dueWhenDisabled(f *Fixture, s Site) {
	for range 40 {
		f.Post(backend.Posting{Delay: inAMoment})
	}
	time.Sleep(2 * time.Millisecond)
	done, err := f.Backend.Maintain(f.Ctx, backend.JobDelayed, 20)
	f.OK(err)
	f.Equal("moved", done.Moved, 20)
	s.Exec(f.T, "UPDATE parley_queue SET enabled = 0")
	n, _ := f.Maintain(backend.JobDelayed)
	f.Equal("moved into a queue that is disabled", n, 0)
	s.Exec(f.T, "UPDATE parley_queue SET enabled = 1")
	f.MaintainUntil(backend.JobDelayed, 20)
}

// timersOfOlderPrograms: a timer whose queue is not known fires, and not while its queue
// is disabled.
func timersOfOlderPrograms(f *Fixture, s Site) {
	d := f.Open()
	f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, inAMoment) })
	s.Exec(f.T, "UPDATE parley_timer SET queue_id = 0 WHERE queue_id > 0")
	s.Exec(f.T, "UPDATE parley_queue SET enabled = 0")
	for range 3 {
		n, _ := f.Maintain(backend.JobTimers)
		f.Equal("timers that fired in a disabled queue", n, 0)
	}
	s.Exec(f.T, "UPDATE parley_queue SET enabled = 1")
	f.MaintainUntil(backend.JobTimers, 1)
	f.Equal("received", f.Drain(f.QA), []string{"<DialogTimer>"})

	f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, inAMoment) })
	s.Exec(f.T, "UPDATE parley_timer SET queue_id = 0 WHERE queue_id > 0")
	f.MaintainUntil(backend.JobTimers, 1)
	f.Equal("received", f.Drain(f.QA), []string{"<DialogTimer>"})
}

// walked fills a store with live groups and a few dead keys among them. It returns how
// many pages a slow walk through them has, and a count of the dead ones that are left.
func walked(f *Fixture, s Site) (pages int, dead func() int) {
	for i := range 8 {
		f.Post(backend.Posting{Key: fmt.Sprint("dead ", i)})
	}
	f.Drain(f.QP)
	f.Post(backend.Posting{Key: "live"})
	const doublings = 12
	for range doublings {
		s.Exec(f.T, fmt.Sprintf(`
			INSERT INTO parley_grp (group_id, queue_id, service, name)
			SELECT %s, queue_id, service, name FROM parley_grp WHERE name = 'live'`, s.RandomID))
	}
	s.Exec(f.T, fmt.Sprintf(`
		INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched)
		SELECT group_id, 3, group_id, queue_id, 5, 1, 0, 0, 9000000000000000
		  FROM parley_grp
		 WHERE name = 'live' AND group_id NOT IN (SELECT stream_id FROM parley_stream WHERE queue_id = %d)`, f.QP))
	s.Exec(f.T, `
		UPDATE parley_stream SET touched = 0
		 WHERE stream_id IN (SELECT stream_id FROM parley_key WHERE name <> 'live' AND queue_id > 0)`)
	return 1<<doublings/1000 + 1, func() (n int) {
		f.OK(s.DB.QueryRow("SELECT count(*) FROM " + s.Schema + "parley_grp WHERE name <> 'live' AND queue_id > 0").Scan(&n))
		return n
	}
}

// deadKeys: within a pass a page follows another without a minute between them, and not
// at once.
func deadKeys(f *Fixture, s Site) {
	pages, dead := walked(f, s)
	f.Equal("dead keys", dead(), 8)
	for call := 1; dead() > 0; call++ {
		_, next := f.Maintain(backend.JobGroups)
		if call > pages {
			f.Fatalf("%d dead keys are left after %d calls", dead(), call)
		}
		if dead() > 0 && (next < 400*time.Millisecond || next > 30*time.Second) {
			f.Fatalf("the walk goes on in %v, with %d dead keys ahead", next, dead())
		}
	}
}

// walkInTurn: two processes share a pass; only one of them goes on soon, until its turn
// is over.
func walkInTurn(f *Fixture, s Site) {
	pages, dead := walked(f, s)
	one, two := f.Backend, backend.Backend(s.Open(f.T))
	maintain := func(b backend.Backend) bool {
		done, err := b.Maintain(f.Ctx, backend.JobGroups, 100)
		f.OK(err)
		return done.Next > 0
	}
	f.Equal("the first goes on", maintain(one), true)
	f.Equal("and so does the second", maintain(two), false)
	s.Exec(f.T, "UPDATE parley_walk SET until = 0")
	f.Equal("the second goes on in its turn", maintain(two), true)
	f.Equal("and so does the first", maintain(one), false)
	for range pages - 4 {
		maintain(two)
	}
	f.Equal("dead keys after a pass of both", dead(), 0)
}
