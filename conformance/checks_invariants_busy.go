package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "I5", Name: "verbs on a held group fail in time and leave the transaction usable", Run: checkInvBusy},
		Check{ID: "I5", Name: "a verb that waits for a group gets it when it is given back", Run: checkInvBusyUntil},
		Check{ID: "I5", Name: "a move during a send fails in time", Run: checkInvMoveBusy},
		Check{ID: "I5", Name: "groups taken in opposite orders do not deadlock", Run: checkInvOppositeGroups},
		Check{ID: "I5", Name: "streams written in opposite orders do not deadlock", Run: checkInvOppositeSenders},
	)
}

func checkInvBusy(e *Env) {
	w := invWorld(e)
	const wait = 150 * time.Millisecond
	other := invOther(w, &parley.Options{GroupWait: wait, NoDuties: true})
	for _, hold := range e.Holds() {
		h := w.Dialog("m0")
		peer := invPeer(w, h)
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		free := w.Dialog("free")
		freePeer := invPeer(w, free)
		verbs := []struct {
			name string
			do   func(tx *parley.Tx) error
		}{
			{"End", func(tx *parley.Tx) error { return tx.Conversation(peer).End(e.Ctx) }},
			{"EndWithError", func(tx *parley.Tx) error { return tx.Conversation(peer).EndWithError(e.Ctx, 1, "x") }},
			{"Cleanup", func(tx *parley.Tx) error { return tx.Conversation(peer).Cleanup(e.Ctx) }},
			{"Move out of it", func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, parley.NewID()) }},
			{"Move into it", func(tx *parley.Tx) error { return tx.Conversation(freePeer).Move(e.Ctx, d.Group) }},
			{"Begin related to its conversation", func(tx *parley.Tx) error {
				_, err := tx.Begin(e.Ctx, w.Server, w.Client, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: peer})
				return err
			}},
			{"Begin in it", func(tx *parley.Tx) error {
				_, err := tx.Begin(e.Ctx, w.Server, w.Client, &parley.DialogOptions{Contract: w.Contract, RelatedGroup: d.Group})
				return err
			}},
		}
		for _, v := range verbs {
			what := v.name + " on a group " + invHoldName(hold)
			key := e.Name(what)
			err := other.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				start := time.Now()
				err := v.do(tx)
				took := time.Since(start)
				if !invBusy(e, err) {
					e.Errorf("%s returns %v, want ErrGroupBusy", what, err)
				}
				if took > wait+invPatience || e.HoldsInTransaction() && took < wait/2 {
					e.Errorf("%s fails after %v, with a wait of %v", what, took, wait)
				}
				if _, err := tx.Once(e.Ctx, key); err != nil {
					return err
				}
				return tx.Conversation(free).Send(e.Ctx, w.Ask, []byte(v.name))
			})
			if err != nil {
				e.Fatalf("%s: the transaction cannot be used afterwards: %v", what, err)
			}
			if !invWrote(other, key) {
				e.Errorf("%s: what was written afterwards is gone", what)
			}
		}
		if err := other.B.Admin().Unpark(e.Ctx, d.Group); !invBusy(e, err) {
			e.Errorf("Unpark of a group %s returns %v, want ErrGroupBusy", invHoldName(hold), err)
		}
		e.Must(d.Ack(e.Ctx))
		want := []string{"free"}
		for _, v := range verbs {
			want = append(want, v.name)
		}
		if got := w.Take(w.SQ, nil); !slices.Equal(got, want) {
			e.Errorf("%s: the other conversation brought %q, want %q", invHoldName(hold), got, want)
		}
		// None of the verbs has done anything.
		w.Tx(func(tx *parley.Tx) error {
			for _, conv := range []parley.ID{peer, freePeer} {
				ep, err := tx.Conversation(conv).Status(e.Ctx)
				if err != nil {
					return err
				}
				if ep.State != parley.Conversing || ep.Group != conv {
					e.Errorf("%s: a verb that failed left state %s and group %s, want %s and %s", invHoldName(hold), ep.State, ep.Group, parley.Conversing, conv)
				}
			}
			return nil
		})
		w.Nothing(w.SQ, nil)
		w.Nothing(w.CQ, nil)
	}
}

func checkInvBusyUntil(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	other := invOther(w, &parley.Options{GroupWait: 20 * time.Second, NoDuties: true})
	for _, hold := range e.Holds() {
		peer := invPeer(w, w.Dialog("m0"))
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		acked := make(chan error, 1)
		err := other.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			time.AfterFunc(100*time.Millisecond, func() { acked <- d.Ack(e.Ctx) })
			return tx.Conversation(peer).End(e.Ctx)
		})
		e.Must(<-acked)
		if err != nil {
			e.Fatalf("End, with the group %s given back after 100 ms: %v", invHoldName(hold), err)
		}
	}
}

func checkInvMoveBusy(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	s := invUnder(w)
	st := s.dialog()
	sender := s.opened(st, "m1")
	mover := invOther(w, &parley.Options{GroupWait: 150 * time.Millisecond, NoDuties: true})
	to := parley.NewID()
	invPrompt(e, "move of a conversation that its peer writes to", func(ctx context.Context) error {
		return mover.B.InTx(ctx, func(tx *parley.Tx) error {
			if err := tx.Conversation(st.peer).Move(ctx, to); !errors.Is(err, parley.ErrGroupBusy) {
				e.Errorf("Move while the peer is sending returns %v, want ErrGroupBusy", err)
			}
			// The groups were given back: the receiver is not shut out.
			s.sent(s.key("other"), "x")
			s.found(e.Holds()[0], "another group").ack()
			_, err := tx.Once(ctx, e.Name("after"))
			return err
		})
	})
	if !invWrote(w, e.Name("after")) {
		e.Errorf("what was written after the failed move is gone")
	}
	s.commit(sender)
	h := s.found(e.Holds()[0], "message sent during a failed move").want("message", "m1")
	if h.Group != st.peer {
		e.Errorf("the failed move left the conversation in group %s", h.Group)
	}
	h.ack()
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(st.peer).Move(e.Ctx, to) })
	s.sent(st, "m2")
	if h := s.found(e.Holds()[0], "message after the move").want("message", "m2"); h.Group != to {
		e.Errorf("after the move the message came in group %s, want %s", h.Group, to)
	}
}

// invMeet lets n transactions take their first locks before any takes its
// second.
func invMeet(ctx context.Context, n int) func() {
	var mu sync.Mutex
	met := make(chan struct{})
	return func() {
		mu.Lock()
		if n--; n == 0 {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met:
		case <-ctx.Done():
		}
	}
}

func checkInvOppositeGroups(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	conv := []parley.ID{invPeer(w, w.Dialog("a")), invPeer(w, w.Dialog("b"))}
	w.Drain(w.SQ)
	errs := make([]error, 2)
	meet := invMeet(e.Ctx, 2)
	var wg sync.WaitGroup
	for i := range errs {
		b := invOther(w, &parley.Options{GroupWait: time.Duration(200+300*i) * time.Millisecond, NoDuties: true}).B
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(e.Ctx, 30*time.Second)
			defer cancel()
			errs[i] = b.InTx(ctx, func(tx *parley.Tx) error {
				err := tx.Conversation(conv[i]).End(ctx)
				meet()
				if err != nil {
					return err
				}
				return tx.Conversation(conv[1-i]).End(ctx)
			})
		})
	}
	wg.Wait()
	if errs[0] == nil && errs[1] == nil {
		e.Fatalf("both transactions ended both conversations")
	}
	for i, err := range errs {
		if err != nil && !parley.IsRetryable(err) {
			e.Errorf("transaction %d failed with %v, want one that is retryable", i, err)
		}
	}
	if errs[0] != nil && errs[1] != nil { // alone it works
		w.Tx(func(tx *parley.Tx) error {
			return errors.Join(tx.Conversation(conv[0]).End(e.Ctx), tx.Conversation(conv[1]).End(e.Ctx))
		})
	}
	if got := w.Drain(w.CQ); len(got) != 2 || got[0].Type != parley.EndDialog || got[1].Type != parley.EndDialog {
		e.Errorf("the other sides received %s, want two EndDialog", describe(got))
	}
}

func checkInvOppositeSenders(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	conv := []parley.ID{w.Dialog("a"), w.Dialog("b")}
	w.Drain(w.SQ)
	errs := make([]error, 2)
	meet := invMeet(e.Ctx, 2)
	send := func(ctx context.Context, b *parley.Broker, i int, between func()) error {
		return b.InTx(ctx, func(tx *parley.Tx) error {
			err := tx.Conversation(conv[i]).Send(ctx, w.Ask, fmt.Appendf(nil, "%d first", i))
			between()
			if err != nil {
				return err
			}
			return tx.Conversation(conv[1-i]).Send(ctx, w.Ask, fmt.Appendf(nil, "%d second", i))
		})
	}
	var wg sync.WaitGroup
	for i := range errs {
		b := invOther(w).B
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(e.Ctx, 55*time.Second)
			defer cancel()
			errs[i] = send(ctx, b, i, meet)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !parley.IsRetryable(err) {
			e.Errorf("sender %d failed with %v, want one that is retryable", i, err)
		}
		e.Must(send(e.Ctx, w.B, i, func() {}))
	}
	got := Bodies(w.Drain(w.SQ))
	slices.Sort(got)
	if want := []string{"0 first", "0 second", "1 first", "1 second"}; !slices.Equal(got, want) {
		e.Errorf("received %q, want %q: the transaction that gave way was run again", got, want)
	}
}
