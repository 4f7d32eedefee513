package conformance

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "B08", Name: "receiving from a disabled queue", Run: checkDisabledQueue},
		Check{ID: "B08", Name: "receivers that wait", Run: checkDisabledWaiting},
		Check{ID: "B08", Name: "in hand and in flight", Run: checkDisabledInHand},
	)
}

func checkDisabledQueue(e *Env) {
	w := e.World()
	h := w.Dialog("0", "1")
	_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("post")})
	e.Must(err)
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ)) // again is no error
	server := dlgPeer(w, h)
	for _, b := range []*parley.Broker{w.B, e.Broker(nil)} {
		for _, o := range []parley.ReceiveOptions{{}, {Wait: 5 * time.Second}, {Group: server}, {Conversation: server},
			{Choose: func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return server, true }}, {Release: parley.BeforeWork}} {
			for _, hold := range e.Holds() {
				o.Hold = hold
				_, err := b.Receive(e.Ctx, w.SQ, &o)
				dlgNames(e, "receive", err, parley.ErrQueueDisabled, w.SQ)
			}
		}
		e.Must(b.InTx(e.Ctx, func(tx *parley.Tx) error {
			_, err := tx.Receive(e.Ctx, w.SQ, nil)
			dlgNames(e, "receive in a transaction", err, parley.ErrQueueDisabled, w.SQ)
			_, err = tx.GetGroup(e.Ctx, w.SQ, nil)
			dlgNames(e, "get a group", err, parley.ErrQueueDisabled, w.SQ)
			_, err = tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("never")})
			dlgNames(e, "post", err, parley.ErrQueueDisabled, w.SQ)
			_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{}, {Options: []parley.PostOption{parley.Key("k")}}, {Options: []parley.PostOption{parley.After(time.Hour)}}})
			dlgNames(e, "post a batch", err, parley.ErrQueueDisabled, w.SQ)
			return nil
		}))
	}
	w.Send(h, w.Ask, "2")
	dlgDepth(w, w.SQ, 3)
	// The other queue is not touched by it.
	w.Send(server, w.Tell, "answer")
	dlgBodies(w, w.CQ, nil, "answer")

	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	var got []string
	for _, m := range dlgTake(w, w.SQ, 4, nil) {
		got = append(got, string(m.Body))
	}
	if i := slices.Index(got, "post"); i >= 0 {
		got = slices.Delete(got, i, i+1)
	}
	dlgSame(e, "received after the queue was enabled", got, []string{"0", "1", "2"})
	dlgQuiet(w, w.SQ)
}

func checkDisabledWaiting(e *Env) {
	// The receivers of the broker that disables are told; they would look again
	// only in a minute. Those of others look often.
	w := e.WorldOn(e.Broker(&parley.Options{Poll: time.Minute}))
	other := e.Broker(&parley.Options{Poll: 20 * time.Millisecond})
	var waits []func() error
	for _, b := range []*parley.Broker{w.B, other} {
		for _, hold := range e.Holds() {
			waits = append(waits, dlgGo(e, "a receiver that waits", func() error {
				_, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: -1, Hold: hold})
				return err
			}))
		}
		if e.HoldsInTransaction() {
			waits = append(waits, dlgGo(e, "a transaction that waits", func() error {
				return b.InTx(e.Ctx, func(tx *parley.Tx) error {
					_, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: -1})
					return err
				})
			}))
		}
	}
	time.Sleep(50 * time.Millisecond) // they wait by now; if not, they are refused at once
	start := time.Now()
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	for _, wait := range waits {
		dlgNames(e, "a receiver that waits", wait(), parley.ErrQueueDisabled, w.SQ)
	}
	if took := time.Since(start); took > 5*time.Second {
		e.Errorf("the last receiver heard of it after %v", took)
	}
	w.Dialog("0")
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	// Whichever of the two delivers it, the other one hears of it in a minute at
	// the latest, or at its next look.
	w.B = other
	dlgBodies(w, w.SQ, nil, "0")
}

func checkDisabledInHand(e *Env) {
	w := e.World()
	for _, hold := range e.Holds() {
		// What is in hand may be settled either way.
		w.Dialog("ack")
		w.Dialog("roll back")
		first := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		second := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
		e.Must(first.Ack(e.Ctx))
		e.Must(second.Rollback(e.Ctx))
		_, err := w.B.Receive(e.Ctx, w.SQ, nil)
		e.Is(err, parley.ErrQueueDisabled)
		e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
		dlgBodies(w, w.SQ, nil, "roll back")
	}
	w.Nothing(w.SQ, nil)

	if !e.HoldsInTransaction() {
		return
	}
	// What is on its way when the queue is disabled is not lost.
	h := w.Dialog("0")
	other := e.Broker(nil)
	var wait func() error
	e.Must(other.InTx(e.Ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("1")); err != nil {
			return err
		}
		wait = dlgGo(e, "disable while a sender is at work", func() error { return w.B.Admin().DisableQueue(e.Ctx, w.SQ) })
		time.Sleep(20 * time.Millisecond)
		return nil
	}))
	e.Must(wait())
	w.Send(h, w.Ask, "2")
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	dlgBodies(w, w.SQ, nil, "0", "1", "2")
	dlgQuiet(w, w.SQ)
}
