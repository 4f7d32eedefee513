package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(
		check{ID: "RB", Name: "a sender in flight while a receiver empties the stream", Run: checkRuleFinish},
		check{ID: "RB", Name: "a sender in flight while a group is parked or deferred, and unparked", Run: checkRuleUnpark, Limit: 2 * time.Minute},
		check{ID: "RB", Name: "a sender in flight while the conversation is moved", Run: checkRuleMove},
		check{ID: "RB", Name: "a move out of a parked group", Run: checkRuleMoveParked},
		check{ID: "RB", Name: "a sender in flight while a side ends", Run: checkRuleEnd},
		check{ID: "RB", Name: "a stream has one writer at a time", Run: checkRuleOneWriter},
		check{ID: "RB", Name: "left-over entries of the order are removed and nothing else", Run: checkRuleLeftOvers},
	)
}

// invFlights has f called for each kind of stream, each way of holding and each
// end of a sender's transaction.
func (s *invBelow) flights(f func(st *invStream, hold parley.Hold, end, what string)) {
	if !s.ManyWriters() {
		s.Skipf("the store has a single writer")
	}
	for _, hold := range s.Holds() {
		for _, end := range []string{"commit", "rollback"} {
			for _, st := range s.streams() {
				f(st, hold, end, fmt.Sprintf("%s %s, sender's %s", st.kind, invHoldName(hold), end))
			}
		}
	}
}

// after checks what must be there when the sender of "m1" has ended: the
// messages before, and its own if it committed. The later send comes last, since
// it would heal a loss.
func (s *invBelow) after(st *invStream, hold parley.Hold, end, what string, before ...string) {
	want := before
	if end == "commit" {
		want = append(slices.Clone(before), "m1")
	}
	if len(want) > 0 {
		s.found(hold, what).want(what, want...).ack()
	}
	s.nothing(backend.ClaimRequest{}, what+", all acknowledged")
	s.sent(st, "m2")
	s.found(hold, what+", then another send").want(what, "m2").ack()
}

func checkRuleFinish(e *env) {
	s := invUnder(invWorld(e))
	s.flights(func(st *invStream, hold parley.Hold, end, what string) {
		// The receiver has claimed before the sender sends.
		s.sent(st, "m0")
		h := s.found(hold, what).want(what, "m0")
		sender := s.opened(st, "m1")
		h.ack()
		s.nothing(backend.ClaimRequest{}, what+": sent but not committed")
		s.ends(sender, end)
		s.after(st, hold, end, what)

		// It claims while the sender is open.
		s.sent(st, "m0")
		sender = s.opened(st, "m1")
		h = s.found(hold, what+", sent before the claim").want(what, "m0")
		h.ack()
		s.nothing(backend.ClaimRequest{}, what+": sent but not committed")
		s.maintain(backend.JobMarkers) // the entry looks left over, and is not
		s.ends(sender, end)
		s.after(st, hold, end, what+", sent before the claim")

		// The sender ends while the receiver holds.
		s.sent(st, "m0")
		sender = s.opened(st, "m1")
		h = s.found(hold, what+", ended before the settle").want(what, "m0")
		s.ends(sender, end)
		h.ack()
		s.after(st, hold, end, what+", ended before the settle")

		// The stream is empty, a receiver looks, and a maintenance job cleans up.
		sender = s.opened(st, "m1")
		s.nothing(backend.ClaimRequest{}, what+": the first message, not committed")
		s.maintain(backend.JobMarkers)
		s.ends(sender, end)
		s.after(st, hold, end, what+", from an empty stream")

		// The receiver gives back what it had.
		s.sent(st, "m0")
		h = s.found(hold, what+", given back").want(what, "m0")
		sender = s.opened(st, "m1")
		h.back()
		s.ends(sender, end)
		s.after(st, hold, end, what+", given back", "m0")
	})
}

func checkRuleUnpark(e *env) {
	s := invUnder(invWorld(e))
	hide := map[string]backend.Outcome{"parked": {Park: "a check"}, "deferred": {Defer: time.Hour}}
	n := 0
	s.flights(func(st *invStream, hold parley.Hold, end, what string) {
		for _, emptied := range []bool{false, true} { // all acknowledged and then hidden
			for _, opened := range []string{"before the claim", "before the clean-up", "after the clean-up"} {
				n++
				how := []string{"parked", "deferred"}[n%2]
				if n%6 == 0 {
					n++ // so that each case meets both
				}
				what := fmt.Sprintf("%s, %s, sent %s, emptied %t", what, how, opened, emptied)
				s.sent(st, "m0")
				var sender backend.Tx
				open := func(when string) {
					if when == opened {
						sender = s.opened(st, "m1")
					}
				}
				open("before the claim")
				h := s.found(hold, what).want(what, "m0")
				o := hide[how]
				var left []string
				if emptied {
					o.Done = h.Messages
				} else {
					left = []string{"m0"}
				}
				h.settle(o)
				open("before the clean-up")
				s.nothing(backend.ClaimRequest{}, what)
				s.maintain(backend.JobMarkers) // takes the hidden group out of the order
				open("after the clean-up")

				unparker := s.begin()
				invPrompt(e, what+": unpark", func(ctx context.Context) error { return unparker.Unpark(ctx, h.Group) })
				s.commit(unparker)
				s.ends(sender, end)
				s.maintain(backend.JobDeferred) // looks again at what the unpark had to leave
				s.after(st, hold, end, what, left...)
			}
		}
	})
}

func checkRuleMove(e *env) {
	s := invUnder(invWorld(e))
	s.flights(func(st *invStream, hold parley.Hold, end, what string) {
		if st.handle.IsZero() {
			return
		}
		s.sent(st, "m0")
		sender := s.opened(st, "m1")
		to := parley.NewID()
		mover := s.begin()
		e.Must(mover.LockGroup(e.Ctx, st.peer))
		ctx, cancel := context.WithTimeout(e.Ctx, invPatience)
		err := mover.Move(ctx, st.peer, to, true)
		cancel()
		if !errors.Is(err, backend.ErrStreamBusy) {
			e.Fatalf("%s: Move while the peer is writing returns %v, want ErrStreamBusy", what, err)
		}
		s.rollback(mover)
		s.ends(sender, end)
		want := []string{"m0"}
		if end == "commit" {
			want = append(want, "m1")
		}
		h := s.found(hold, what+", after a move that failed").want(what, want...)
		if h.Group != st.peer {
			e.Errorf("%s: after a move that failed the messages come in group %s, want %s", what, h.Group, st.peer)
		}
		h.back()

		mover = s.begin()
		e.Must(mover.LockGroup(e.Ctx, st.peer))
		e.Must(mover.Move(e.Ctx, st.peer, to, true))
		s.commit(mover)
		h = s.found(hold, what+", after the move").want(what, want...)
		if h.Group != to {
			e.Errorf("%s: after the move the messages come in group %s, want %s", what, h.Group, to)
		}
		h.ack()

		// A sender that begins while the mover is open waits for it or not, but
		// its message comes in the new group.
		back := s.begin()
		e.Must(back.LockGroup(e.Ctx, to))
		e.Must(back.Move(e.Ctx, st.peer, parley.NewID(), true))
		sent := make(chan error, 1)
		tx := s.begin()
		go func() {
			err := st.send(e.Ctx, tx, "m2")
			if err == nil {
				err = tx.Commit(e.Ctx)
			}
			sent <- err
		}()
		select {
		case err := <-sent: // it did not wait
			sent <- err
		case <-time.After(50 * time.Millisecond):
		}
		s.commit(back)
		e.Must(<-sent)
		h = s.found(hold, what+", sent during the move").want(what, "m2")
		if h.Group == to || h.Group == st.peer {
			e.Errorf("%s: sent during the move, the message comes in an old group", what)
		}
		h.ack()
		s.nothing(backend.ClaimRequest{}, what)
	})
}

func checkRuleMoveParked(e *env) {
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for _, clean := range []bool{true, false} {
			what := fmt.Sprintf("%s, cleaned up %t", invHoldName(hold), clean)
			st := s.dialog()
			s.sent(st, "m0", "m1")
			h := s.found(hold, what).want(what, "m0", "m1")
			h.settle(backend.Outcome{Park: "a check"})
			if clean {
				s.maintain(backend.JobMarkers)
			}
			to := parley.NewID()
			mover := s.begin()
			e.Must(mover.LockGroup(e.Ctx, st.peer))
			e.Must(mover.Move(e.Ctx, st.peer, to, true))
			s.commit(mover)
			h = s.found(hold, what+", moved out of the parked group").want(what, "m0", "m1")
			if h.Group != to {
				e.Errorf("%s: the messages come in group %s, want %s", what, h.Group, to)
			}
			h.settle(backend.Outcome{Park: "a check"})
			// Into a parked group: hidden like all of it, and back with it.
			other := s.dialog()
			s.sent(other, "x")
			mover = s.begin()
			e.Must(mover.LockGroup(e.Ctx, other.peer))
			e.Must(mover.LockGroup(e.Ctx, to))
			e.Must(mover.Move(e.Ctx, other.peer, to, false))
			s.commit(mover)
			s.nothing(backend.ClaimRequest{}, what+", moved into a parked group")
			s.sent(other, "y")
			s.nothing(backend.ClaimRequest{}, what+", moved into a parked group and sent to")
			if clean {
				s.maintain(backend.JobMarkers)
			}
			unparker := s.begin()
			e.Must(unparker.Unpark(e.Ctx, to))
			s.commit(unparker)
			s.maintain(backend.JobDeferred)
			h = s.found(hold, what+", unparked")
			got := h.bodies()
			slices.Sort(got)
			if !slices.Equal(got, []string{"m0", "m1", "x", "y"}) {
				e.Errorf("%s: unparked, the group brings %q, want m0, m1, x, y", what, got)
			}
			h.ack()
		}
	}
}

func checkRuleEnd(e *env) {
	s := invUnder(invWorld(e))
	s.flights(func(st *invStream, hold parley.Hold, end, what string) {
		if st.handle.IsZero() {
			return
		}
		// The receiving side ends while a sender is in flight: what arrives
		// later is for no receiver, and in no receiver's way.
		s.sent(st, "m0")
		sender := s.opened(st, "m1")
		ender := s.begin()
		e.Must(ender.LockGroup(e.Ctx, st.peer))
		invPrompt(e, what+": end of the receiving side", func(ctx context.Context) error {
			ended, err := ender.EndDialog(ctx, backend.End{Handle: st.peer, MessageID: backend.NewID(), Keep: time.Hour})
			if err == nil && ended.Dropped != 1 {
				e.Errorf("%s: the end removed %d messages, want 1", what, ended.Dropped)
			}
			return err
		})
		s.commit(ender)
		s.ends(sender, end)
		s.nothing(backend.ClaimRequest{}, what+", ended by its receiver")
		h := s.claim(hold, backend.ClaimRequest{Queue: s.cq})
		if h == nil {
			e.Fatalf("%s: the other side does not find EndDialog", what)
		}
		h.want(what, parley.EndDialog).ack()
		other := s.key(parley.NewID().String())
		s.sent(other, "x")
		s.found(hold, what+": another group").want(what, "x").ack()

		// The sending side ends while its own sender is in flight: it waits for
		// that sender, and EndDialog comes behind its message.
		st = s.dialog()
		s.sent(st, "m0")
		sender = s.opened(st, "m1")
		done := make(chan error, 1)
		ender = s.begin()
		ep, err := ender.Endpoint(e.Ctx, st.handle)
		e.Must(err)
		e.Must(ender.LockGroup(e.Ctx, ep.Group))
		go func() {
			_, err := ender.EndDialog(e.Ctx, backend.End{Handle: st.handle, MessageID: backend.NewID(), Keep: time.Hour})
			if err == nil {
				err = ender.Commit(e.Ctx)
			}
			done <- err
		}()
		select {
		case err := <-done:
			e.Fatalf("%s: the sending side was ended (%v) while its sender was open", what, err)
		case <-time.After(50 * time.Millisecond):
		}
		s.ends(sender, end)
		select {
		case err := <-done:
			e.Must(err)
		case <-time.After(slow.By(2 * invPatience)):
			e.late()
			e.Fatalf("%s: the end of the sending side still waits although its sender has ended", what)
		}
		want := []string{"m0", parley.EndDialog}
		if end == "commit" {
			want = []string{"m0", "m1", parley.EndDialog}
		}
		s.found(hold, what+", ended by its sender").want(what, want...).ack()
	})
}

func checkRuleOneWriter(e *env) {
	s := invUnder(invWorld(e))
	s.flights(func(st *invStream, hold parley.Hold, end, what string) {
		if hold != e.Holds()[0] {
			return
		}
		first := s.opened(st, "m1")
		second := s.begin()
		sent := make(chan error, 1)
		go func() { sent <- st.send(e.Ctx, second, "m2") }()
		select {
		case err := <-sent:
			if !errors.Is(err, backend.ErrSerialization) {
				e.Fatalf("%s: a second writer of the stream goes on (%v) while the first is open", what, err)
			}
			s.rollback(second)
			second = nil
		case <-time.After(100 * time.Millisecond):
		}
		s.ends(first, end)
		if second != nil {
			select {
			case err := <-sent:
				e.Must(err)
			case <-time.After(slow.By(2 * invPatience)):
				e.late()
				e.Fatalf("%s: the second writer still waits although the first has ended", what)
			}
			s.commit(second)
		} else {
			s.sent(st, "m2")
		}
		want := []string{"m2"}
		if end == "commit" {
			want = []string{"m1", "m2"}
		}
		s.found(hold, what).want(what, want...).ack()
	})
}

// checkRuleLeftOvers: the clean-up meets streams in all states.
func checkRuleLeftOvers(e *env) {
	s := invUnder(invWorld(e))
	hold := e.Holds()[0]
	for _, st := range s.streams() {
		// Emptied with a sender in flight that then rolls back: its entry is
		// left over, and the clean-up has to remove it.
		if e.ManyWriters() {
			s.sent(st, "m0")
			sender := s.opened(st, "m1")
			s.found(hold, st.kind).want(st.kind, "m0").ack()
			s.maintain(backend.JobMarkers)
			s.rollback(sender)
		}
		for _, job := range []backend.Job{backend.JobMarkers, backend.JobDeferred, backend.JobMarkers} {
			s.maintain(job)
			s.nothing(backend.ClaimRequest{}, st.kind+", empty")
		}
		if _, c := s.claimed(hold, backend.ClaimRequest{}); c.Contended {
			e.Errorf("%s: the queue is empty and was cleaned up, and a claim says that there is something", st.kind)
		}
		s.sent(st, "m2", "m3")
		s.maintain(backend.JobMarkers)
		h := s.found(hold, st.kind+" after the clean-up").want(st.kind, "m2", "m3")
		if h.tx != nil {
			s.maintain(backend.JobMarkers) // beside a receiver
		}
		h.settle(backend.Outcome{Done: h.Messages[:1]})
		s.maintain(backend.JobMarkers)
		s.found(hold, st.kind+" after the clean-up").want(st.kind, "m3").ack()
	}
}
