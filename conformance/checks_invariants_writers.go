package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "I2", Name: "a sender does not wait for a receiver", Run: checkInvSenderFree},
		Check{ID: "I2", Name: "a receiver does not wait for a sender", Run: checkInvReceiverFree},
		Check{ID: "I2", Name: "writers of different streams do not wait for each other", Run: checkInvWritersFree},
		Check{ID: "I2", Name: "a receiver that replies does not wait for the other side", Run: checkInvBothSidesFree},
	)
}

func checkInvSenderFree(e *Env) {
	w := invWorld(e)
	sender := invOther(w)
	for _, hold := range e.Holds() {
		what := " to a group " + invHoldName(hold)
		h := w.Dialog("m0")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		if hold == parley.HoldTransaction { // and has written in its transaction
			tx, err := d.Tx(e.Ctx)
			e.Must(err)
			_, err = tx.Once(e.Ctx, e.Name("used"+what))
			e.Must(err)
		}
		for i := range 3 {
			invPrompt(e, "send"+what, func(ctx context.Context) error {
				return sender.B.InTx(ctx, func(tx *parley.Tx) error {
					return tx.Conversation(h).Send(ctx, w.Ask, fmt.Appendf(nil, "m%d", i+1))
				})
			})
		}
		e.Must(d.Ack(e.Ctx))
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"m1", "m2", "m3"}) {
			e.Fatalf("received %q of what was sent%s", got, what)
		}

		key := parley.Key("k" + what)
		post := func(ctx context.Context, body string) error {
			_, err := sender.B.Post(ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, key)
			return err
		}
		e.Must(post(e.Ctx, "k0"))
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		invPrompt(e, "post with the key of a group"+what, func(ctx context.Context) error { return post(ctx, "k1") })
		e.Must(d.Ack(e.Ctx))
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"k1"}) {
			e.Fatalf("received %q of what was posted%s", got, what)
		}
	}
}

func checkInvReceiverFree(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for i, st := range s.streams() {
			what := fmt.Sprintf("%s, %s, with its sender open", st.kind, invHoldName(hold))
			s.sent(st, "m0")
			sender := s.opened(st, "m1")
			other := s.key(fmt.Sprintf("other %d %d", hold, i))
			s.sent(other, "x")

			// Both groups can be claimed, given back, deferred and settled.
			h := s.found(hold, what).want(what, "m0")
			x := s.found(hold, what).want(what, "x")
			s.nothing(backend.ClaimRequest{}, what+", both groups in hand")
			h.back()
			h = s.found(hold, what).want(what, "m0")
			x.ack()
			promoter := s.begin()
			invPrompt(e, "promote: "+what, func(ctx context.Context) error {
				return promoter.Promote(ctx, backend.Promotion{Group: h.Group, Level: 1})
			})
			s.commit(promoter)
			group := h.Group
			h.settle(backend.Outcome{Defer: time.Hour})
			s.nothing(backend.ClaimRequest{}, what+", deferred")
			invPrompt(e, "duties: "+what, func(ctx context.Context) error {
				_, _, err := s.be.Tend(ctx, backend.DutyMarkers, 100)
				return err
			})
			unparker := s.begin()
			invPrompt(e, "unpark: "+what, func(ctx context.Context) error { return unparker.Unpark(ctx, group) })
			s.commit(unparker)
			s.found(hold, what+", unparked").want(what, "m0").ack()
			s.nothing(backend.ClaimRequest{}, what+", all that is committed acknowledged")

			s.commit(sender)
			s.tend(backend.DutyDeferred)
			s.found(hold, what+", then committed").want(what, "m1").ack()
		}
	}
}

func checkInvWritersFree(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	s := invUnder(w)

	// Two conversations of one group at either end, two keys, and a post.
	group := parley.NewID()
	var out, in [2]parley.ID
	for i := range out {
		out[i] = w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "first")
		in[i] = invPeer(w, out[i])
	}
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(in[1]).Move(e.Ctx, in[0]) })
	w.Drain(w.SQ)
	stream := func(h parley.ID) *invStream {
		return &invStream{kind: "conversation", send: func(ctx context.Context, tx backend.Tx, body string) error {
			_, err := tx.Send(ctx, s.version, []backend.Outgoing{{ID: backend.NewID(), From: h, Type: w.Any, Kind: backend.KindUser, Body: []byte(body)}})
			return err
		}}
	}
	all := []*invStream{stream(out[0]), stream(out[1]), stream(in[0]), stream(in[1]), s.key("a"), s.key("b"), s.key(""), s.key("")}
	var open []backend.Tx
	for _, st := range all {
		open = append(open, s.opened(st, "x"))
	}
	for _, tx := range slices.Backward(open) {
		s.commit(tx)
	}
	if n := len(w.Drain(w.SQ)); n != 6 {
		e.Errorf("%d messages arrived at the target's queue, want 6", n)
	}
	if n := len(w.Drain(w.CQ)); n != 2 {
		e.Errorf("%d messages arrived at the initiator's queue, want 2", n)
	}

	// Beginning conversations waits for nobody either.
	invPrompt(e, "begin two conversations at once", func(ctx context.Context) error {
		return w.B.InTx(ctx, func(a *parley.Tx) error {
			ca, err := a.Begin(ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			if err := ca.Send(ctx, w.Ask, []byte("a")); err != nil {
				return err
			}
			return invOther(w).B.InTx(ctx, func(b *parley.Tx) error {
				cb, err := b.Begin(ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
				if err != nil {
					return err
				}
				return cb.Send(ctx, w.Ask, []byte("b"))
			})
		})
	})
	if n := len(w.Drain(w.SQ)); n != 2 {
		e.Errorf("%d first messages arrived, want 2", n)
	}
}

// checkInvBothSidesFree: each side holds its own group, replies in its
// transaction, and neither waits for the other.
func checkInvBothSidesFree(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	h := w.Dialog("ask 0")
	peer := invPeer(w, h)
	w.Send(peer, w.Tell, "tell 0")
	server, client := invOther(w), invOther(w)
	ds := server.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldTransaction})
	dc := client.Receive(w.CQ, &parley.ReceiveOptions{Hold: parley.HoldTransaction})
	invPrompt(e, "reply of the target while the initiator's group is held", func(ctx context.Context) error {
		return ds.Messages[0].Reply(ctx, w.Tell, []byte("tell 1"))
	})
	invPrompt(e, "send of the initiator while the target's group is held", func(ctx context.Context) error {
		return dc.Messages[0].Reply(ctx, w.Ask, []byte("ask 1"))
	})
	invPrompt(e, "acknowledge", ds.Ack)
	invPrompt(e, "acknowledge", dc.Ack)
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"ask 1"}) {
		e.Errorf("the target received %q, want ask 1", got)
	}
	if got := w.Take(w.CQ, nil); !slices.Equal(got, []string{"tell 1"}) {
		e.Errorf("the initiator received %q, want tell 1", got)
	}
}
