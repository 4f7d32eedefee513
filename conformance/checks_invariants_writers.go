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
		scripted("I2", "a sender does not wait for a receiver", `
			broker sender
			each hold: every hold
				begin d "m0"
				receive SQ $hold as r
				if holds in transactions: // and has written in its transaction
					r: once "used $hold" new
				clock c
				each n: 1 | 2 | 3
					sender: send d "m$n"
				within c 5s
				ack r
				receive SQ as r -> "m1", "m2", "m3"
				ack r

				sender: post SQ key "k $hold" type Any "k0"
				receive SQ $hold as r
				clock c
				sender: post SQ key "k $hold" type Any "k1"
				within c 5s
				ack r
				receive SQ as r -> "k1"
				ack r
		`, alone),
		check{ID: "I2", Name: "a receiver does not wait for a sender", Run: checkInvReceiverFree},
		check{ID: "I2", Name: "writers of different streams do not wait for each other", Run: checkInvWritersFree},
		scripted("I2", "a receiver that replies does not wait for the other side", `
			needs many writers
			broker server
			broker client
			each hold: every hold // each side holds its own group, and replies in its transaction
				begin d "ask 0"
				send d.peer "tell 0"
				server: receive SQ $hold as asked
				client: receive CQ $hold as told
				clock c
				reply asked Tell "tell 1"
				reply told Ask "ask 1"
				ack asked
				ack told
				within c 5s
				receive SQ as r -> "ask 1"
				ack r
				receive CQ as r -> "tell 1"
				ack r
		`, alone),
	)
}

func checkInvReceiverFree(e *env) {
	if !e.ManyWriters() {
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
			invPrompt(e, "jobs: "+what, func(ctx context.Context) error {
				_, err := s.be.Maintain(ctx, backend.JobMarkers, 100)
				return err
			})
			unparker := s.begin()
			invPrompt(e, "unpark: "+what, func(ctx context.Context) error { return unparker.Unpark(ctx, group) })
			s.commit(unparker)
			s.found(hold, what+", unparked").want(what, "m0").ack()
			s.nothing(backend.ClaimRequest{}, what+", all that is committed acknowledged")

			s.commit(sender)
			s.maintain(backend.JobDeferred)
			s.found(hold, what+", then committed").want(what, "m1").ack()
		}
	}
}

func checkInvWritersFree(e *env) {
	if !e.ManyWriters() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	s := invUnder(w)

	// Two conversations of one group at either end, two keys, and a post.
	group := parley.NewID()
	var out, in [2]parley.ID
	for i := range out {
		out[i] = w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "first")
		in[i] = dlgPeer(w, out[i])
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

	// A transaction that begins conversations waits for no other one either.
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
