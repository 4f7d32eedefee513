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
		scripted("I5", "verbs on a held group fail in time and leave the transaction usable", `
			broker other wait 150ms
			each hold: every hold
				begin d "m0"
				let p d.peer
				receive SQ $hold as r
				begin free "free"
				let f free.peer
				group g
				each n, verb: 1, end p | 2, end p with 1 "x" | 3, cleanup p | 4, move p to g | 5, move f to r.group |
					6, begin x from Server to Client related p | 7, begin x from Server to Client group r.group
					transaction t on other
					clock c
					t: $verb -> Busy
					within c 5150ms
					if many writers:
						passed c 75ms
					t: once "$n $hold" new
					t: send free "$n"
					commit t
					once "$n $hold" old
				other: unpark r.group -> Busy
				ack r
				receive SQ as r -> "free", "1", "2", "3", "4", "5", "6", "7"
				ack r
				each side: p | f // none of the verbs has done anything
					equal $side.state CO
					equal $side.group $side
				nothing SQ
				nothing CQ
		`, alone),
		scripted("I5", "a verb that waits for a group gets it when it is given back", `
			needs many writers
			broker other wait 20s
			each hold: every hold
				begin d "m0"
				let p d.peer
				receive SQ $hold as r
				start ends other: end p
				waits ends
				ack r
				join ends within 20s
		`, alone),
		check{ID: "I5", Name: "a move during a send fails in time", Run: checkInvMoveBusy},
		check{ID: "I5", Name: "groups taken in opposite orders do not deadlock", Run: checkInvOppositeGroups},
		check{ID: "I5", Name: "streams written in opposite orders do not deadlock", Run: checkInvOppositeSenders},
	)
}

func checkInvMoveBusy(e *env) {
	if !e.ManyWriters() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	s := invUnder(w)
	st := s.dialog()
	sender := s.opened(st, "m1")
	mover := invOther(w, &parley.Options{GroupWait: 150 * time.Millisecond, NoMaintenance: true})
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

func checkInvOppositeGroups(e *env) {
	if !e.ManyWriters() {
		e.Skipf("the store has a single writer")
	}
	w := invWorld(e)
	conv := []parley.ID{dlgPeer(w, w.Dialog("a")), dlgPeer(w, w.Dialog("b"))}
	w.Drain(w.SQ)
	errs := make([]error, 2)
	meet := invMeet(e.Ctx, 2)
	var wg sync.WaitGroup
	for i := range errs {
		b := invOther(w, &parley.Options{GroupWait: time.Duration(200+300*i) * time.Millisecond, NoMaintenance: true}).B
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
			e.Errorf("transaction %d failed with %v, want a retryable error", i, err)
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

func checkInvOppositeSenders(e *env) {
	if !e.ManyWriters() {
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
			e.Errorf("sender %d failed with %v, want a retryable error", i, err)
		}
		e.Must(send(e.Ctx, w.B, i, func() {}))
	}
	got := bodiesOf(w.Drain(w.SQ))
	slices.Sort(got)
	if want := []string{"0 first", "0 second", "1 first", "1 second"}; !slices.Equal(got, want) {
		e.Errorf("received %q, want %q: the transaction that gave way was run again", got, want)
	}
}
