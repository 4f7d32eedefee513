package memstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Rules that no other test comes across.

func TestNames(t *testing.T) {
	b := newBench(t, "")
	b.do(func(tx *Tx) {
		_, err := tx.PutCatalog(ctx, &backend.Catalog{
			Queues:     []backend.Queue{{Name: "A"}, {Name: "b", Retention: true}},
			Priorities: []backend.PriorityRule{{Name: "all", Level: 9}},
		})
		b.must(err)
		c, err := tx.Catalog(ctx, true)
		b.must(err)
		if len(c.Queues) != 4 || c.Queues[1].ID != queueB || !c.Queues[1].Retention || c.Version != b.version+1 {
			t.Errorf("catalog %+v", c)
		}
	})
}

func TestRulesDoNotReachBack(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(3)
	b.do(func(tx *Tx) {
		_, err := tx.PutCatalog(ctx, &backend.Catalog{Priorities: []backend.PriorityRule{{Name: "all", Level: 9}}})
		b.must(err)
		e, err := tx.Endpoint(ctx, from)
		b.must(err)
		if e.Priority != 3 || e.FarHandle != to {
			t.Errorf("endpoint %+v", e)
		}
		b.want(tx.BeginDialog(ctx, b.version, backend.NewDialog{}), backend.ErrStaleCatalog)
		_, err = tx.Accept(ctx, b.version, from, backend.Endpoint{})
		b.want(err, backend.ErrStaleCatalog)
	})
}

func TestBatchIsAllOrNothing(t *testing.T) {
	b := newBench(t, "")
	from, _ := b.dialog(5)
	b.do(func(tx *Tx) {
		_, err := tx.Send(ctx, b.version, []backend.Outgoing{
			{ID: backend.NewID(), From: from, Kind: backend.KindUser},
			{ID: backend.NewID(), From: backend.NewID(), Kind: backend.KindUser},
		})
		var r *backend.Refused
		if !errors.As(err, &r) || len(r.Refusals) != 1 || r.Refusals[1] != backend.RefusedUnknown {
			t.Errorf("send: %v", err)
		}
	})
	b.equal(b.receive(queueB))
}

func TestBodies(t *testing.T) {
	b := newBench(t, "")
	from, _ := b.dialog(5)
	b.do(func(tx *Tx) {
		_, err := tx.Send(ctx, b.version, []backend.Outgoing{
			{ID: backend.NewID(), From: from, Kind: backend.KindUser, Body: nil},
			{ID: backend.NewID(), From: from, Kind: backend.KindUser, Body: []byte{}},
		})
		b.must(err)
	})
	b.do(func(tx *Tx) {
		m := b.claim(tx, b.request(queueB)).Holds[0].Messages
		if m[0].Body != nil || m[1].Body == nil || len(m[1].Body) != 0 {
			t.Errorf("bodies %#v and %#v", m[0].Body, m[1].Body)
		}
	})
}

func TestSettleKeepsTheGroup(t *testing.T) {
	b := newBench(t, "")
	from, _ := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, from, "1", "2") })
	r := b.request(queueB)
	r.MaxMessages = 1
	tx := b.begin()
	c := b.claim(tx, r)
	b.equal(bodies(c), "1")
	_, err := tx.Settle(ctx, done(c.Holds[0]))
	b.must(err)
	b.do(func(tx *Tx) {
		if c := b.claim(tx, r); len(c.Holds) > 0 || !c.Contended {
			t.Errorf("claimed %q before the commit", bodies(c))
		}
	})
	b.must(tx.Rollback(ctx))
	b.equal(b.receive(queueB), "1", "2")
}

func TestRankOfMembers(t *testing.T) {
	b := newBench(t, "")
	group, target := b.dialog(3) // of the initiator, priority 3
	silent := backend.NewID()
	b.do(func(tx *Tx) { // and one of 9, in the same group
		d := backend.NewDialog{Endpoint: backend.Endpoint{
			Handle: silent, FarHandle: backend.NewID(), Conversation: backend.NewID(), Initiator: true,
			Service: "A", FarService: "B", Queue: queueA, Group: group, Priority: 9,
		}}
		b.want(tx.BeginDialog(ctx, b.version, d), backend.ErrGroupBusy)
		b.must(tx.LockGroup(ctx, group))
		b.must(tx.BeginDialog(ctx, b.version, d))
		d.NewGroup = true
		b.want(tx.BeginDialog(ctx, b.version, d), backend.ErrGroupBusy)
	})
	_, other := b.dialog(5)
	b.do(func(tx *Tx) { b.send(tx, target, "3") })
	b.do(func(tx *Tx) { b.send(tx, other, "5") })
	b.equal(b.receive(queueA), "5")
	b.do(func(tx *Tx) { b.must(tx.Notice(ctx, backend.Notice{To: silent, Kind: backend.KindTimer})) })
	b.equal(b.receive(queueA), "DialogTimer", "3") // conversations by priority
}

func TestPromotedWhileHeld(t *testing.T) {
	b := newBench(t, "")
	b.do(func(tx *Tx) { b.post(tx, "first", "1"); b.post(tx, "k", "2", "3") })
	r := b.request(queueP)
	r.Group, r.MaxMessages = keyID(queueP, "k"), 1
	tx := b.begin()
	c := b.claim(tx, r)
	b.do(func(tx *Tx) { b.must(tx.Promote(ctx, backend.Promotion{Group: r.Group})) })
	_, err := tx.Settle(ctx, done(c.Holds[0]))
	b.must(err)
	b.must(tx.Commit(ctx))
	b.equal(b.receive(queueP), "3")
}

func TestTimers(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	set := func(handle backend.ID, after time.Duration) {
		b.do(func(tx *Tx) { b.must(tx.SetTimer(ctx, handle, after)) })
	}
	lost := b.begin()
	b.must(lost.SetTimer(ctx, from, time.Second))
	b.must(lost.Rollback(ctx))
	set(from, time.Minute)
	set(from, time.Hour)
	set(to, time.Second)
	set(to, 0)
	b.clock.add(2 * time.Minute)
	if n := b.maintain(backend.JobTimers); n != 0 {
		t.Errorf("%d timers fired early", n)
	}
	b.clock.add(time.Hour)
	if n := b.maintain(backend.JobTimers) + b.maintain(backend.JobTimers); n != 1 {
		t.Errorf("%d timers fired", n)
	}
	b.equal(b.receive(queueA), "DialogTimer")

	set(from, time.Minute)
	b.do(func(tx *Tx) { b.send(tx, from, "1") })
	b.end(from, backend.EndPlain)
	if n := len(b.store.timers.versions); n != 0 {
		t.Errorf("%d timers are left", n)
	}
}

func TestErrorDropsWithheld(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) {
		b.send(tx, from, "delivered")
		_, err := tx.Withhold(ctx, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser}}, "why")
		b.must(err)
	})
	list, err := b.h.Withheld(ctx, backend.ID{}, 10)
	b.must(err)
	if len(list) != 1 || list[0].Count != 1 || list[0].Status != "why" {
		t.Errorf("withheld %+v", list)
	}
	b.end(from, backend.EndError)
	if list, _ := b.h.Withheld(ctx, backend.ID{}, 10); len(list) != 0 {
		t.Errorf("withheld %+v", list)
	}
	b.equal(b.receive(queueB), "Error", "delivered")
	b.end(to, backend.EndPlain)
}

func TestDiscard(t *testing.T) {
	b := newBench(t, "")
	from, _ := b.dialog(5)
	b.do(func(tx *Tx) {
		_, err := tx.Withhold(ctx, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser}}, "why")
		b.must(err)
	})
	sender := b.begin()
	b.must(sender.takeGuard(from))
	b.do(func(tx *Tx) {
		_, err := tx.Discard(ctx, from, "gone")
		b.want(err, backend.ErrStreamBusy)
		_, err = tx.Deliver(ctx, from)
		b.want(err, backend.ErrStreamBusy)
	})
	b.must(sender.Rollback(ctx))
	b.do(func(tx *Tx) {
		n, err := tx.Discard(ctx, from, "gone")
		b.must(err)
		if n != 1 {
			t.Errorf("%d discarded", n)
		}
	})
	if dead, _ := b.h.DeadLetters(ctx, backend.DeadQuery{Limit: 1, Bodies: true}); len(dead) != 1 || dead[0].Reason != "gone" {
		t.Errorf("dead letters %+v", dead)
	}
}

// TestLateMessage: what arrives at a side that has ended is discarded.
func TestLateMessage(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	sender := b.begin()
	b.send(sender, from, "late")
	b.end(to, backend.EndPlain)
	b.must(sender.Commit(ctx))
	b.do(func(tx *Tx) {
		if c := b.claim(tx, b.request(queueB)); len(c.Holds) > 0 || c.Discarded != 1 {
			t.Errorf("claimed %+v", c)
		}
	})
	b.equal(b.receive(queueA), "EndDialog")
	b.end(from, backend.EndPlain)
	if list, _ := b.h.Conversations(ctx, backend.ConversationQuery{}); len(list) != 0 {
		t.Errorf("conversations %+v", list)
	}
}

func TestRetention(t *testing.T) {
	b := newBench(t, "")
	from, to := b.dialog(5)
	b.do(func(tx *Tx) {
		b.send(tx, from, "not kept")
		_, err := tx.Send(ctx, b.version, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser, Type: "T", Body: []byte("kept"), Retain: true}})
		b.must(err)
	})
	b.do(func(tx *Tx) {
		c := b.claim(tx, b.request(queueB))
		_, err := tx.Settle(ctx, []backend.Outcome{{Hold: c.Holds[0], Done: c.Holds[0].Messages, Retain: true}})
		b.must(err)
	})
	kept := func(handle backend.ID, sent bool, want ...string) {
		t.Helper()
		list, err := b.h.Retained(ctx, handle)
		b.must(err)
		var got []string
		for _, m := range list {
			got = append(got, string(m.Message.Body))
			if m.Sent != sent {
				t.Errorf("sent: %v", m.Sent)
			}
		}
		b.equal(got, want...)
	}
	kept(from, true, "kept")
	kept(to, false, "not kept", "kept")
	b.equal(b.receive(queueB))
	b.end(to, backend.EndPlain)
	kept(to, false)
	kept(from, true, "kept")
}

func TestListen(t *testing.T) {
	b := newBench(t, "")
	until, stop := context.WithCancel(ctx)
	woken := make(chan int64, 10)
	ended := make(chan error)
	go func() { ended <- b.h.Listen(until, func(queue int64) { woken <- queue }) }()
	other := b.store.Open()
	slow.Eventually(t, 20*time.Second, "it is woken", func() (any, bool) { // it may not listen yet
		if len(woken) < 2 {
			b.must(other.Notify(ctx, []int64{queueB}))
		}
		return len(woken), len(woken) >= 2
	})
	stop()
	b.want(<-ended, context.Canceled)
	if len(woken) < 2 || <-woken != 0 || <-woken != queueB {
		t.Error("not woken")
	}
}
