package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "V01", Name: "messages are found", Run: checkFind},
		check{ID: "V02", Name: "promotions are listed", Run: checkPromotions},
		check{ID: "V03", Name: "what jobs have left undone", Run: checkOverdue},
	)
}

// idle is a World on which no maintenance job is done unless a check does it.
func (e *env) idle() *world { return e.WorldOn(e.Broker(&parley.Options{NoMaintenance: true})) }

func checkFind(e *env) {
	w := e.idle()
	find := func(message, want parley.ID, err error) {
		got, e := w.B.Backend().Find(w.Ctx, message)
		if got != want || !errors.Is(e, err) {
			w.Errorf("message %v is found at %v, %v; want %v, %v", message, got, e, want, err)
		}
	}
	h := w.Dialog("dialog")
	w.posts(nil, "post")
	w.posts([]string{"k"}, "key")
	for range 3 {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
		m := d.Messages[0]
		find(m.ID, m.Group, nil)
		e.Must(d.Ack(w.Ctx))
		find(m.ID, parley.ID{}, parley.ErrNotPending)
	}
	message := parley.NewID()
	tx, err := w.B.Backend().Begin(w.Ctx)
	e.Must(err)
	_, err = tx.Withhold(w.Ctx, []backend.Outgoing{{From: h, ID: message, Kind: backend.KindUser, Type: w.Any}}, "for the check")
	e.Must(err)
	e.Must(tx.Commit(w.Ctx))
	find(message, h, nil)
	find(parley.NewID(), parley.ID{}, parley.ErrNotPending)
}

func checkPromotions(e *env) {
	w := e.idle()
	listed := func(group parley.ID) *backend.PromotionStatus {
		list, err := w.B.Backend().Promotions(w.Ctx, backend.ID{}, backend.CountLimit)
		e.Must(err)
		for _, p := range list {
			if p.Group == group {
				return &p
			}
		}
		return nil
	}
	want := func(what string, group parley.ID, want backend.PromotionStatus) {
		p := listed(group)
		if p == nil {
			w.Fatalf("Promotions does not list the promotion of %s", what)
		}
		of := "the promotion of " + what + ", as Promotions lists it"
		w.same(of, "Queue", p.Queue, want.Queue)
		w.same(of, "Level", p.Level, want.Level)
		w.same(of, "Sticky", p.Sticky, want.Sticky)
		w.same(of, "Ended", p.Ended, want.Ended)
	}
	queue := w.queueStatus(w.SQ).ID
	h := w.Dialog("1")
	d := w.Receive(w.SQ, nil)
	group, theirs := d.Group, d.Messages[0].Conversation
	e.Must(d.Ack(w.Ctx))
	e.Must(w.B.Promote(w.Ctx, group, parley.PromoteLevel(7), parley.Sticky())) // of no message
	want("a group without messages, sticky at level 7,", group, backend.PromotionStatus{Queue: queue, Level: 7, Sticky: true})
	e.Must(w.B.Promote(w.Ctx, group))
	want("the same group, replaced by a plain one,", group, backend.PromotionStatus{Queue: queue, Level: parley.DefaultLevel})
	for _, side := range []parley.ID{theirs, h} {
		w.Tx(func(tx *parley.Tx) error { return tx.Conversation(side).End(w.Ctx) })
		want("a group all of whose sides have ended", group, backend.PromotionStatus{Queue: queue, Level: parley.DefaultLevel, Ended: true})
	}
	w.posts(nil, "post")
	id := w.group(func(parley.GroupStatus) bool { return true }).Group
	e.Must(w.B.Promote(w.Ctx, id))
	want("a post without key", id, backend.PromotionStatus{Queue: queue, Level: parley.DefaultLevel})
	e.Must(w.B.Demote(w.Ctx, id))
	if p := listed(id); p != nil {
		w.Errorf("Promotions still lists a promotion that Demote has removed: %+v", p)
	}
}

func checkOverdue(e *env) {
	w := e.idle()
	be := w.B.Backend()
	const ms = time.Millisecond
	for _, x := range []struct {
		job backend.Job
		do  func()
	}{
		{backend.JobDelayed, func() {
			_, err := w.B.Post(w.Ctx, w.SQ, parley.Payload{Type: w.Any}, parley.After(ms))
			e.Must(err)
		}},
		{backend.JobTimers, func() {
			h := w.Dialog()
			w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(w.Ctx, ms) })
		}},
		{backend.JobLifetimes, func() { w.DialogWith(&parley.DialogOptions{Lifetime: ms}) }},
		{backend.JobDeferred, func() {
			w.posts([]string{"k"}, "keyed")
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
			e.Must(d.Defer(w.Ctx, ms))
		}},
	} {
		undone := func() time.Duration {
			overdue, err := be.Overdue(w.Ctx)
			e.Must(err)
			return overdue[x.job]
		}
		maintain := func() bool {
			_, err := be.Maintain(w.Ctx, x.job, 1000)
			e.Must(err)
			return undone() == 0
		}
		if !e.Soon(10*time.Second, maintain) { // what others may have left behind
			e.Fatalf("job %v is not done with: its first has been due for %v", x.job, undone())
		}
		before := time.Now()
		x.do()
		time.Sleep(300 * ms)
		got, most := undone(), time.Since(before)
		if got < 200*ms || got > most+100*ms {
			e.Errorf("what job %v has to do has been due for %v, want 300ms to %v", x.job, got, most)
		}
		if !e.Soon(10*time.Second, maintain) {
			e.Errorf("when job %v was done, its first had been due for %v", x.job, undone())
		}
		w.Drain(w.SQ)
		w.Drain(w.CQ)
	}
	if _, err := be.Overdue(cancelled(w.Ctx)); !errors.Is(err, context.Canceled) {
		e.Errorf("under a cancelled context: %v", err)
	}
}

func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
