package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "G01", Name: "the next receiver gets another group or nothing", Run: checkGrpNext},
		Check{ID: "G02", Name: "a held group asked for by name", Run: checkGrpByName},
		Check{ID: "G03", Name: "each side has a group of its own", Run: checkGrpSides},
		Check{ID: "G04", Name: "a message sent to a held group is received afterwards", Run: checkGrpSent},
		Check{ID: "G05", Name: "GetGroup takes the group for its transaction", Run: checkGrpGet},
		Check{ID: "G06", Name: "a transaction that receives twice holds both groups", Run: checkGrpTwice},
	)
}

func checkGrpNext(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		w.Dialog("a0", "a1")
		w.Dialog("b0")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		var next *parley.Delivery
		invPrompt(e, "receive the next group, one being "+invHoldName(hold), func(ctx context.Context) (err error) {
			next, err = other.B.Receive(ctx, w.SQ, &parley.ReceiveOptions{Hold: hold})
			return err
		})
		defer next.Close()
		if got := Bodies(next.Messages); !slices.Equal(got, []string{"b0"}) {
			e.Errorf("with a0 %s, another receiver gets %q, want b0", invHoldName(hold), got)
		}
		third := invOther(w)
		invPrompt(e, "receive, all groups being "+invHoldName(hold), func(ctx context.Context) error {
			d, err := third.B.Receive(ctx, w.SQ, nil)
			if errors.Is(err, parley.ErrNoMessage) {
				return nil
			}
			if err == nil {
				err = fmt.Errorf("received %s", describe(d.Messages))
			}
			return err
		})
		e.Must(d.Ack(e.Ctx))
		if got := third.Take(w.SQ, nil); !slices.Equal(got, []string{"a1"}) {
			e.Errorf("after the first was acknowledged received %q, want a1", got)
		}
		e.Must(next.Ack(e.Ctx))
	}
}

func checkGrpByName(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		what := "a group " + invHoldName(hold)
		h := w.Dialog("m0", "m1")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		for _, o := range []parley.ReceiveOptions{{Group: d.Group}, {Conversation: invPeer(w, h)}} {
			invPrompt(e, "ask for "+what+" without a wait", func(ctx context.Context) error {
				if d, err := other.B.Receive(ctx, w.SQ, &o); !errors.Is(err, parley.ErrNoMessage) {
					return fmt.Errorf("returned %v (%v), want ErrNoMessage", d, err)
				}
				return nil
			})

			o.Wait = 200 * time.Millisecond
			start := time.Now()
			invPrompt(e, "ask for "+what+" with a wait of 200 ms", func(ctx context.Context) error {
				if d, err := other.B.Receive(ctx, w.SQ, &o); !errors.Is(err, parley.ErrNoMessage) {
					return fmt.Errorf("returned %v (%v), want ErrNoMessage", d, err)
				}
				return nil
			})
			if took := time.Since(start); took < 180*time.Millisecond {
				e.Errorf("a receive of %s with a wait of 200 ms returned nothing after %v", what, took)
			}
		}

		time.AfterFunc(100*time.Millisecond, func() {
			if err := d.Ack(e.Ctx); err != nil {
				e.Errorf("acknowledge: %v", err)
			}
		})
		rest := other.TryReceive(w.SQ, &parley.ReceiveOptions{Group: d.Group}, 15*time.Second)
		if rest == nil {
			e.Fatalf("%s was acknowledged after 100 ms, and a receive of it with a wait of 15 s gets nothing", what)
		}
		if got := Bodies(rest.Messages); !slices.Equal(got, []string{"m1"}) {
			e.Errorf("after the acknowledgement of m0 received %q, want m1", got)
		}
		e.Must(rest.Ack(e.Ctx))
	}
	// A group that is not there has no message; a handle that is not is a mistake.
	w.Nothing(w.SQ, &parley.ReceiveOptions{Group: parley.NewID()})
	_, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Conversation: parley.NewID()})
	e.Is(err, parley.ErrNoConversation)
}

func checkGrpSides(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		what := "with the other side's group " + invHoldName(hold)
		h := w.Dialog("ask")
		peer := invPeer(w, h)
		w.Send(peer, w.Tell, "tell")

		target := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		initiator := other.TryReceive(w.CQ, &parley.ReceiveOptions{Hold: hold}, 0)
		if initiator == nil {
			e.Fatalf("%s the initiator receives nothing", what)
		}
		if got := Bodies(initiator.Messages); !slices.Equal(got, []string{"tell"}) {
			e.Errorf("%s the initiator receives %q, want tell", what, got)
		}
		if target.Group == initiator.Group {
			e.Errorf("both sides are in group %s", target.Group)
		}
		e.Must(initiator.Ack(e.Ctx))
		invPrompt(e, "timer, move and end of the initiator "+what, func(ctx context.Context) error {
			return other.B.InTx(ctx, func(tx *parley.Tx) error {
				c := tx.Conversation(h)
				return errors.Join(c.SetTimer(ctx, time.Hour), c.Move(ctx, parley.NewID()), c.End(ctx))
			})
		})
		e.Must(target.Ack(e.Ctx))
		d := w.Receive(w.SQ, nil)
		if got := grpTypes(d.Messages); !slices.Equal(got, []string{parley.EndDialog}) {
			e.Errorf("then the target receives %q, want EndDialog", got)
		}
		e.Must(d.Messages[0].End(e.Ctx))
		e.Must(d.Ack(e.Ctx))
	}
}

func checkGrpSent(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		h := d.Messages[0].Conversation
		if kind == "conversation" {
			h = invPeer(other, h)
		}
		invPrompt(e, "send to a "+what, func(ctx context.Context) error {
			if kind == "key" {
				_, err := other.B.Post(ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("m2")}, parley.Key("k"))
				return err
			}
			return other.B.InTx(ctx, func(tx *parley.Tx) error {
				return tx.Conversation(h).Send(ctx, w.Ask, []byte("m2"))
			})
		})
		other.Nothing(w.SQ, nil)
		e.Must(d.Ack(e.Ctx))
		if got := other.Take(w.SQ, nil); !slices.Equal(got, []string{"m1", "m2"}) {
			e.Errorf("%s: sent while it was held: received %q, want m1 and m2", what, got)
		}
	})
}

// checkGrpGet works inside one transaction, so that it asks stores with a single
// writer as well.
func checkGrpGet(e *Env) {
	w := invWorld(e)
	w.Tx(func(tx *parley.Tx) error {
		if g, err := tx.GetGroup(e.Ctx, w.SQ, nil); !errors.Is(err, parley.ErrNoMessage) {
			e.Errorf("GetGroup of an empty queue returns %s (%v), want ErrNoMessage", g, err)
		}
		return nil
	})
	first, second := invPeer(w, w.Dialog("a0", "a1")), invPeer(w, w.Dialog("b0"))
	other := invOther(w)
	w.Tx(func(tx *parley.Tx) error {
		g, err := tx.GetGroup(e.Ctx, w.SQ, nil)
		if err != nil {
			return err
		}
		if g != first {
			e.Errorf("GetGroup returns %s, want the group of the oldest message, %s", g, first)
		}
		var got []string
		for range 2 {
			if e.HoldsInTransaction() {
				other.Nothing(w.SQ, &parley.ReceiveOptions{Group: g})
			}
			ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g, MaxMessages: 1})
			if err != nil {
				return fmt.Errorf("receive from the group taken: %w", err)
			}
			got = append(got, Bodies(ms)...)
		}
		if !slices.Equal(got, []string{"a0", "a1"}) {
			e.Errorf("from the group taken received %q, want a0 and a1", got)
		}
		if _, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g}); !errors.Is(err, parley.ErrNoMessage) {
			e.Errorf("the emptied group brings %v, want ErrNoMessage", err)
		}
		if e.HoldsInTransaction() {
			w.Send(invPeer(w, first), w.Ask, "a2") // by another transaction
			other.Nothing(w.SQ, &parley.ReceiveOptions{Group: g})
			d := other.Receive(w.SQ, nil)
			if d.Group != second {
				e.Errorf("with %s taken another receiver gets %s, want %s", g, d.Group, second)
			}
			e.Must(d.Rollback(e.Ctx))
		}
		return nil
	})
	if e.HoldsInTransaction() {
		if got := w.Take(w.SQ, &parley.ReceiveOptions{Group: first}); !slices.Equal(got, []string{"a2"}) {
			e.Errorf("sent while the group was taken: received %q, want a2", got)
		}
	}
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"b0"}) {
		e.Errorf("the other group brings %q, want b0", got)
	}
	w.Nothing(w.SQ, nil)

	// By name, and what is held by lease is not to be had.
	w.Dialog("c0")
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
	other.Tx(func(tx *parley.Tx) error {
		for _, o := range []*parley.ReceiveOptions{nil, {Group: d.Group}} {
			if g, err := tx.GetGroup(e.Ctx, w.SQ, o); !errors.Is(err, parley.ErrNoMessage) {
				e.Errorf("GetGroup while the group is leased returns %s (%v), want ErrNoMessage", g, err)
			}
		}
		return nil
	})
	e.Must(d.Rollback(e.Ctx))
	other.Tx(func(tx *parley.Tx) error {
		g, err := tx.GetGroup(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: d.Group})
		if err == nil && g != d.Group {
			e.Errorf("GetGroup by name returns %s, want %s", g, d.Group)
		}
		return err
	})
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"c0"}) {
		e.Errorf("GetGroup took something: then received %q, want c0", got)
	}
}

func checkGrpTwice(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	undo := errors.New("undo")
	for _, end := range []error{undo, nil} {
		if end != nil {
			w.Dialog("a0", "a1")
			w.Dialog("b0", "b1")
			w.Dialog("c0")
		}
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			one, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 2})
			if err != nil {
				return err
			}
			two, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
			if err != nil {
				return err
			}
			if got := append(Bodies(one), Bodies(two)...); !slices.Equal(got, []string{"a0", "a1", "b0"}) {
				e.Errorf("a transaction that receives twice gets %q, want a0, a1 and b0", got)
			}
			if e.HoldsInTransaction() {
				for _, ms := range [][]*parley.Message{one, two} {
					other.Nothing(w.SQ, &parley.ReceiveOptions{Group: ms[0].Group})
				}
				d := other.Receive(w.SQ, nil)
				if got := Bodies(d.Messages); !slices.Equal(got, []string{"c0"}) {
					e.Errorf("with a and b held another receiver gets %q, want c0", got)
				}
				e.Must(d.Rollback(e.Ctx))
			}
			// The group that it holds stays eligible.
			more, err := tx.Receive(e.Ctx, w.SQ, nil)
			if err != nil {
				return err
			}
			if got := Bodies(more); !slices.Equal(got, []string{"b1"}) {
				e.Errorf("the third receive of the transaction gets %q, want b1", got)
			}
			return end
		})
		if !errors.Is(err, end) {
			e.Fatalf("transaction: %v", err)
		}
		if end != nil {
			continue
		}
		if got := Bodies(other.Drain(w.SQ)); !slices.Equal(got, []string{"c0"}) {
			e.Errorf("after the commit received %q, want c0", got)
		}
	}
}
