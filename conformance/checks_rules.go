package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "RA", Name: "a settle of a message that is not there fails and changes nothing", Run: checkRuleCount},
		Check{ID: "RA", Name: "a settle after the messages went with their conversation fails", Run: checkRuleCountEnded},
		Check{ID: "RA", Name: "a group that was chosen before others emptied it is looked at anew", Run: checkRuleChosenEmptied},
		Check{ID: "RA", Name: "a transaction that looked earlier does not see what was consumed since", Run: checkRuleOldSnapshot},
		Check{ID: "RA", Name: "many receivers of one group get each message once", Run: checkRuleRace},

		Check{ID: "RB", Name: "a sender in flight while a receiver empties the stream", Run: checkRuleFinish},
		Check{ID: "RB", Name: "a sender in flight while a group is parked or deferred, and unparked", Run: checkRuleUnpark, Limit: 2 * time.Minute},
		Check{ID: "RB", Name: "a sender in flight while the conversation is moved", Run: checkRuleMove},
		Check{ID: "RB", Name: "a move out of a parked group", Run: checkRuleMoveParked},
		Check{ID: "RB", Name: "a sender in flight while a side ends", Run: checkRuleEnd},
		Check{ID: "RB", Name: "a stream has one writer at a time", Run: checkRuleOneWriter},
		Check{ID: "RB", Name: "left-over entries of the order are removed and nothing else", Run: checkRuleLeftOvers},

		Check{ID: "RC", Name: "promoting a group whose messages a transaction has taken does not wait", Run: checkRulePromoteTaken},
		Check{ID: "RC", Name: "a group that was taken, deferred or parked after it was chosen is not received", Run: checkRuleChosenTaken},
		Check{ID: "RC", Name: "a transaction that looked earlier sees who leased, deferred or parked a group since", Run: checkRuleOldState},
		Check{ID: "RC", Name: "a group that is hidden again before the other look at it stays hidden", Run: checkRuleHiddenAgain},
		Check{ID: "RC", Name: "receivers by lease, parking and deferring exclude each other in a race", Run: checkRuleStateRace},
		Check{ID: "RC", Name: "a promotion waits for nobody, and nobody for it", Run: checkRulePromotion},
	)
}

// RA

func checkRuleCount(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			what := st.kind + " " + invHoldName(hold)
			s.sent(st, "m0", "m1")
			h := s.found(hold, what).want(what, "m0", "m1")

			// One that never was, beside one that is there.
			wrong := *h.Messages[1]
			wrong.ID, wrong.Seq = parley.NewID(), wrong.Seq+1000
			key := e.Name(what)
			tx := h.tx
			if tx == nil {
				tx = s.begin()
				e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}))
			}
			_, err := tx.Once(e.Ctx, key)
			e.Must(err)
			err = h.try(tx, backend.Outcome{Done: []*backend.Message{h.Messages[0], &wrong}})
			if !errors.Is(err, backend.ErrFenced) {
				e.Fatalf("%s: Settle of a message that is not there returns %v, want ErrFenced", what, err)
			}
			s.rollback(tx)
			if invWrote(w, key) {
				e.Errorf("%s: the write beside a settle that failed is there", what)
			}
			if hold == parley.HoldLease {
				h.settle(backend.Outcome{})
			}

			// All is as before; and what has been settled cannot be settled again.
			h = s.found(hold, what+" after a settle that failed").want(what, "m0", "m1")
			h.settle(backend.Outcome{Done: h.Messages[:1]})
			tx = s.begin()
			_, err = tx.Once(e.Ctx, key)
			e.Must(err)
			if hold == parley.HoldLease {
				if err := tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: Reclaim of a settled hold returns %v, want ErrFenced", what, err)
				}
			}
			if err := h.try(tx, backend.Outcome{Done: h.Messages}); !errors.Is(err, backend.ErrFenced) {
				e.Errorf("%s: a second Settle of the same messages returns %v, want ErrFenced", what, err)
			}
			s.rollback(tx)
			if invWrote(w, key) {
				e.Errorf("%s: the write beside a second settle is there", what)
			}
			s.found(hold, what).want(what, "m1").ack()
			s.nothing(backend.ClaimRequest{}, what+", all acknowledged")
		}
	}
}

// checkRuleCountEnded: a receiver by lease ends the conversation in one
// transaction, which removes its messages, and settles them in another.
func checkRuleCountEnded(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	st := s.dialog()
	s.sent(st, "m0", "m1")
	h := s.claim(parley.HoldLease, backend.ClaimRequest{})
	if h == nil {
		e.Fatalf("nothing to claim")
	}
	tx := s.begin()
	e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}))
	_, err := tx.EndDialog(e.Ctx, backend.End{Handle: st.peer, MessageID: backend.NewID(), Keep: time.Hour})
	e.Must(err)
	s.commit(tx)

	key := e.Name("write")
	tx = s.begin()
	_, err = tx.Once(e.Ctx, key)
	e.Must(err)
	if err = tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}); err == nil {
		err = h.try(tx, backend.Outcome{Done: h.Messages})
	}
	if !errors.Is(err, backend.ErrFenced) {
		e.Fatalf("the settle of messages that went with their conversation returns %v, want ErrFenced", err)
	}
	s.rollback(tx)
	if invWrote(w, key) {
		e.Errorf("the write beside a settle that failed is there")
	}
}

func checkRuleChosenEmptied(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		w.Dialog("chosen 0", "chosen 1")
		w.Dialog("next")
		asked := 0
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
			asked++
			if asked > 1 {
				return parley.ID{}, false
			}
			first, ok := grpFirst(groups)
			if !ok {
				e.Errorf("the chooser is shown no group")
				return parley.ID{}, false
			}
			if got := other.Take(w.SQ, &parley.ReceiveOptions{Group: first}); len(got) != 2 {
				e.Errorf("another receiver of the first group gets %q", got)
			}
			return first, true
		}})
		if got := Bodies(d.Messages); !slices.Equal(got, []string{"next"}) {
			e.Errorf("%s: chose a group that another receiver then emptied, and received %q, want next", invHoldName(hold), got)
		}
		e.Must(d.Ack(e.Ctx))

		// The same with a part: what is left is delivered.
		w.Dialog("a", "b", "c")
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
			first, _ := grpFirst(groups)
			other.Take(w.SQ, &parley.ReceiveOptions{Group: first, MaxMessages: 2})
			return first, true
		}})
		if got := Bodies(d.Messages); !slices.Equal(got, []string{"c"}) {
			e.Errorf("%s: chose a group of which another receiver then took a and b, and received %q, want c", invHoldName(hold), got)
		}
		e.Must(d.Ack(e.Ctx))
	}
}

// grpFirst returns the first group that a chooser is shown.
func grpFirst(groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
	for g := range groups {
		return g.Group, true
	}
	return parley.ID{}, false
}

// looked starts a transaction that has looked at the queue and at a
// conversation: whatever it reads by a snapshot, it has it now.
func (s *invBelow) looked(st *invStream) backend.Tx {
	tx := s.begin()
	_, err := tx.Catalog(s.Ctx, false)
	s.Must(err)
	if !st.handle.IsZero() {
		_, err = tx.Endpoint(s.Ctx, st.peer)
		s.Must(err)
	}
	return tx
}

// claimIn claims in a transaction that is open already.
func (s *invBelow) claimIn(tx backend.Tx, r backend.ClaimRequest) *invHeld {
	var c backend.Claim
	invPrompt(s.Env, "claim", func(ctx context.Context) (err error) {
		c, err = tx.Claim(ctx, s.request(r))
		return err
	})
	if len(c.Holds) == 0 {
		return nil
	}
	return &invHeld{s, tx, c.Holds[0]}
}

func checkRuleOldSnapshot(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		s.sent(st, "m0", "m1")
		early := s.looked(st)
		h := s.found(parley.HoldTransaction, st.kind)
		h.settle(backend.Outcome{Done: h.Messages[:1]})
		got := s.claimIn(early, backend.ClaimRequest{})
		if got == nil {
			e.Fatalf("%s: a transaction that began before the last settle finds nothing", st.kind)
		}
		got.want(st.kind+": a transaction that began before m0 was acknowledged", "m1").ack()
		s.nothing(backend.ClaimRequest{}, st.kind+", all acknowledged")

		// And it finds what was sent since it looked.
		early = s.looked(st)
		s.sent(st, "m2")
		got = s.claimIn(early, backend.ClaimRequest{})
		if got == nil {
			e.Fatalf("%s: a transaction that began before a send does not find its message", st.kind)
		}
		got.want(st.kind, "m2").ack()
	}
}

// checkRuleRace: receivers take the messages of one group in a race. Whoever
// reads without the lock sooner or later delivers what was consumed.
func checkRuleRace(e *Env) {
	w := invWorld(e)
	const n = 120
	for _, hold := range e.Holds() {
		h := w.Dialog("first")
		w.Drain(w.SQ)
		w.Tx(func(tx *parley.Tx) error {
			c := tx.Conversation(h)
			batch := make([]parley.Sending, n)
			for i := range batch {
				batch[i] = parley.Sending{To: c, Payload: parley.Payload{Type: w.Ask, Body: fmt.Append(nil, i)}}
			}
			return tx.SendBatch(e.Ctx, batch)
		})
		var mu sync.Mutex
		var done []string
		var wg sync.WaitGroup
		for range 3 {
			s := invUnder(w)
			wg.Go(func() {
				for e.Ctx.Err() == nil {
					mu.Lock()
					over := len(done) >= n
					mu.Unlock()
					if over {
						return
					}
					if err := s.raceOnce(hold, &mu, &done); err != nil {
						e.Errorf("%s: %v", invHoldName(hold), err)
						return
					}
				}
			})
		}
		wg.Wait()
		for i, body := range done {
			if body != fmt.Sprint(i) {
				e.Fatalf("%s: message %q was acknowledged as number %d", invHoldName(hold), body, i)
			}
		}
		w.Nothing(w.SQ, nil)
	}
}

// raceOnce claims one message and acknowledges it. It runs beside the check's
// own goroutine, so it returns errors.
func (s *invBelow) raceOnce(hold parley.Hold, mu *sync.Mutex, done *[]string) error {
	r := s.request(backend.ClaimRequest{MaxMessages: 1})
	if hold == parley.HoldLease {
		r.Lease = time.Minute
	}
	tx, err := s.be.Begin(s.Ctx)
	if err != nil {
		return err
	}
	defer func() { tx.Rollback(context.Background()) }()
	c, err := tx.Claim(s.Ctx, r)
	if err != nil || len(c.Holds) == 0 {
		return err
	}
	h := c.Holds[0]
	body := string(h.Messages[0].Body)
	mu.Lock()
	before := slices.Contains(*done, body)
	mu.Unlock()
	if before {
		return fmt.Errorf("message %s was delivered after it had been acknowledged", body)
	}
	if hold == parley.HoldLease {
		if err := tx.Commit(s.Ctx); err != nil {
			return err
		}
		if tx, err = s.be.Begin(s.Ctx); err != nil {
			return err
		}
		if err := tx.Reclaim(s.Ctx, []*backend.Hold{h}); err != nil {
			return fmt.Errorf("reclaim of message %s: %w", body, err)
		}
	}
	if _, err := tx.Settle(s.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}}); err != nil {
		return fmt.Errorf("settle of message %s, which was held: %w", body, err)
	}
	mu.Lock() // with the commit inside, so that the order here is the order of commits
	defer mu.Unlock()
	if err := tx.Commit(s.Ctx); err != nil {
		return err
	}
	*done = append(*done, body)
	return nil
}

// RB

// invFlights has f called for each kind of stream, each way of holding and each
// end of a sender's transaction.
func (s *invBelow) flights(f func(st *invStream, hold parley.Hold, end, what string)) {
	if !s.HoldsInTransaction() {
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

func checkRuleFinish(e *Env) {
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
		s.tend(backend.DutyMarkers) // the entry looks left over, and is not
		s.ends(sender, end)
		s.after(st, hold, end, what+", sent before the claim")

		// The sender ends while the receiver holds.
		s.sent(st, "m0")
		sender = s.opened(st, "m1")
		h = s.found(hold, what+", ended before the settle").want(what, "m0")
		s.ends(sender, end)
		h.ack()
		s.after(st, hold, end, what+", ended before the settle")

		// The stream is empty, and somebody looks and cleans up.
		sender = s.opened(st, "m1")
		s.nothing(backend.ClaimRequest{}, what+": the first message, not committed")
		s.tend(backend.DutyMarkers)
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

func checkRuleUnpark(e *Env) {
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
				s.tend(backend.DutyMarkers) // takes the hidden group out of the order
				open("after the clean-up")

				unparker := s.begin()
				invPrompt(e, what+": unpark", func(ctx context.Context) error { return unparker.Unpark(ctx, h.Group) })
				s.commit(unparker)
				s.ends(sender, end)
				s.tend(backend.DutyDeferred) // looks again at what the unpark had to leave
				s.after(st, hold, end, what, left...)
			}
		}
	})
}

func checkRuleMove(e *Env) {
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

func checkRuleMoveParked(e *Env) {
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for _, clean := range []bool{true, false} {
			what := fmt.Sprintf("%s, cleaned up %t", invHoldName(hold), clean)
			st := s.dialog()
			s.sent(st, "m0", "m1")
			h := s.found(hold, what).want(what, "m0", "m1")
			h.settle(backend.Outcome{Park: "a check"})
			if clean {
				s.tend(backend.DutyMarkers)
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
				s.tend(backend.DutyMarkers)
			}
			unparker := s.begin()
			e.Must(unparker.Unpark(e.Ctx, to))
			s.commit(unparker)
			s.tend(backend.DutyDeferred)
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

func checkRuleEnd(e *Env) {
	s := invUnder(invWorld(e))
	s.flights(func(st *invStream, hold parley.Hold, end, what string) {
		if st.handle.IsZero() {
			return
		}
		// The receiving side ends while a sender is in flight: what arrives
		// later is for nobody, and in nobody's way.
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
		case <-time.After(2 * invPatience):
			e.Fatalf("%s: the end of the sending side still waits although its sender has ended", what)
		}
		want := []string{"m0", parley.EndDialog}
		if end == "commit" {
			want = []string{"m0", "m1", parley.EndDialog}
		}
		s.found(hold, what+", ended by its sender").want(what, want...).ack()
	})
}

func checkRuleOneWriter(e *Env) {
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
			case <-time.After(2 * invPatience):
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
func checkRuleLeftOvers(e *Env) {
	s := invUnder(invWorld(e))
	hold := e.Holds()[0]
	for _, st := range s.streams() {
		// Emptied with a sender in flight that then rolls back: its entry is
		// left over, and somebody has to remove it.
		if e.HoldsInTransaction() {
			s.sent(st, "m0")
			sender := s.opened(st, "m1")
			s.found(hold, st.kind).want(st.kind, "m0").ack()
			s.tend(backend.DutyMarkers)
			s.rollback(sender)
		}
		for _, duty := range []backend.Duty{backend.DutyMarkers, backend.DutyDeferred, backend.DutyMarkers} {
			s.tend(duty)
			s.nothing(backend.ClaimRequest{}, st.kind+", empty")
		}
		if _, c := s.claimed(hold, backend.ClaimRequest{}); c.Contended {
			e.Errorf("%s: the queue is empty and was cleaned up, and a claim says that there is something", st.kind)
		}
		s.sent(st, "m2", "m3")
		s.tend(backend.DutyMarkers)
		h := s.found(hold, st.kind+" after the clean-up").want(st.kind, "m2", "m3")
		if h.tx != nil {
			s.tend(backend.DutyMarkers) // beside a receiver
		}
		h.settle(backend.Outcome{Done: h.Messages[:1]})
		s.tend(backend.DutyMarkers)
		s.found(hold, st.kind+" after the clean-up").want(st.kind, "m3").ack()
	}
}

// RC

func checkRuleChosenTaken(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	takes := map[string]func(d *parley.Delivery) error{
		"leased":   func(*parley.Delivery) error { return nil },
		"parked":   func(d *parley.Delivery) error { return d.Park(e.Ctx, errors.New("a check")) },
		"deferred": func(d *parley.Delivery) error { return d.Defer(e.Ctx, time.Hour) },
	}
	for _, hold := range e.Holds() {
		for name, take := range takes {
			w.Dialog("chosen")
			w.Dialog("next")
			var chosen parley.ID
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
				if !chosen.IsZero() {
					return parley.ID{}, false
				}
				chosen, _ = grpFirst(groups)
				d := other.Receive(w.SQ, &parley.ReceiveOptions{Group: chosen, Hold: parley.HoldLease})
				e.Must(take(d))
				return chosen, true
			}})
			if got := Bodies(d.Messages); !slices.Equal(got, []string{"next"}) {
				e.Errorf("%s: the chosen group was %s meanwhile, and %q was received, want next", invHoldName(hold), name, got)
			}
			e.Must(d.Ack(e.Ctx))
			w.Nothing(w.SQ, &parley.ReceiveOptions{Group: chosen})
			other.B.Close() // gives back what is leased
			other = invOther(w)
			e.Must(w.B.Unpark(e.Ctx, chosen))
			if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"chosen"}) {
				e.Errorf("%s: after the group was %s, %q was received, want chosen", invHoldName(hold), name, got)
			}
		}
	}
}

func checkRuleOldState(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		s.sent(st, "m0")
		for name, o := range map[string]*backend.Outcome{"leased": nil, "parked": {Park: "a check"}, "deferred": {Defer: time.Hour}} {
			what := fmt.Sprintf("%s, %s after the transaction began", st.kind, name)
			early := s.looked(st)
			h := s.claim(parley.HoldLease, backend.ClaimRequest{})
			if h == nil {
				e.Fatalf("%s: nothing to claim", what)
			}
			if o != nil {
				h.settle(*o)
			}
			for _, r := range []backend.ClaimRequest{{}, {Group: h.Group}, {Handle: st.peer}, {LockOnly: true}, {Consume: true}} {
				if got := s.claimIn(early, r); got != nil {
					e.Fatalf("%s: it claims %q", what, got.bodies())
				}
			}
			if err := early.LockGroup(e.Ctx, h.Group); o == nil && !errors.Is(err, backend.ErrGroupBusy) {
				e.Errorf("%s: LockGroup returns %v, want ErrGroupBusy", what, err)
			}
			s.rollback(early)
			if o == nil {
				h.back()
				continue
			}
			unparker := s.begin()
			e.Must(unparker.Unpark(e.Ctx, h.Group))
			s.commit(unparker)
		}
		s.tend(backend.DutyDeferred)
		s.found(parley.HoldTransaction, st.kind).want(st.kind, "m0").ack()
	}
}

// checkRuleHiddenAgain: a group is unparked while somebody writes to one of its
// conversations, so that a duty must look at it again. It is hidden anew before
// that.
func checkRuleHiddenAgain(e *Env) {
	s := invUnder(invWorld(e))
	s.flights(func(st *invStream, hold parley.Hold, end, what string) {
		if st.handle.IsZero() {
			return
		}
		other := s.dialog()
		s.Tx(func(tx *parley.Tx) error { return tx.Conversation(other.peer).Move(e.Ctx, st.peer) })
		for how, o := range map[string]backend.Outcome{"parked": {Park: "a check"}, "deferred": {Defer: time.Hour}} {
			what := what + ", then " + how
			s.sent(st, "m0")
			s.sent(other, "x")
			h := s.found(hold, what)
			h.settle(backend.Outcome{Park: "a check"})
			s.tend(backend.DutyMarkers)
			sender := s.opened(st, "m1")
			unpark := func() {
				tx := s.begin()
				invPrompt(e, what+": unpark", func(ctx context.Context) error { return tx.Unpark(ctx, h.Group) })
				s.commit(tx)
			}
			unpark()
			h = s.found(hold, what+", unparked")
			h.settle(o)
			s.ends(sender, end)
			for range 2 {
				s.tend(backend.DutyDeferred)
				s.nothing(backend.ClaimRequest{}, what)
				s.nothing(backend.ClaimRequest{Group: h.Group}, what)
			}
			unpark()
			s.tend(backend.DutyDeferred)
			want := []string{"m0", "x"}
			if end == "commit" {
				want = []string{"m0", "m1", "x"}
			}
			h = s.found(hold, what+", unparked again")
			got := h.bodies()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				e.Errorf("%s, unparked again: delivered %q, want %q", what, got, want)
			}
			h.ack()
		}
	})
}

// checkRuleStateRace: receivers lease and hide one group in a race. Whoever
// judges its state before having it locked sooner or later has it too.
func checkRuleStateRace(e *Env) {
	w := invWorld(e)
	w.Dialog("m0")
	var inHand, hidden atomic.Int64
	over := time.Now().Add(800 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 4 {
		s := invUnder(w)
		wg.Go(func() {
			for n := i; time.Now().Before(over); n++ {
				if err := s.stateRace(n%3, &inHand, &hidden); err != nil {
					e.Errorf("%v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"m0"}) {
		e.Errorf("after the race received %q, want m0", got)
	}
}

// stateRace leases the group if it can, and gives it back, parked or deferred
// for a moment. It runs beside the check's own goroutine, so it returns errors.
func (s *invBelow) stateRace(act int, inHand, hidden *atomic.Int64) error {
	was := hidden.Load()
	r := s.request(backend.ClaimRequest{Lease: time.Minute})
	if act == 1 && s.HoldsInTransaction() {
		r.Lease = 0
	}
	tx, err := s.be.Begin(s.Ctx)
	if err != nil {
		return err
	}
	defer func() { tx.Rollback(context.Background()) }()
	c, err := tx.Claim(s.Ctx, r)
	if err != nil || len(c.Holds) == 0 {
		return err
	}
	if inHand.Add(1) != 1 {
		return errors.New("two receivers have claimed the group")
	}
	if was%2 == 1 && hidden.Load() == was {
		return errors.New("a group that is hidden was claimed")
	}
	if r.Lease > 0 {
		if err := tx.Commit(s.Ctx); err != nil {
			return err
		}
		time.Sleep(time.Millisecond) // with no lock but the lease
		if tx, err = s.be.Begin(s.Ctx); err != nil {
			return err
		}
		if err := tx.Reclaim(s.Ctx, c.Holds); err != nil {
			return fmt.Errorf("reclaim of a group that was leased: %w", err)
		}
	}
	o := backend.Outcome{Hold: c.Holds[0]}
	switch act {
	case 1:
		o.Park = "a check"
	case 2:
		o.Defer = time.Hour
	}
	if _, err := tx.Settle(s.Ctx, []backend.Outcome{o}); err != nil {
		return fmt.Errorf("settle of a group that was held: %w", err)
	}
	inHand.Add(-1)
	if err := tx.Commit(s.Ctx); err != nil || act == 0 {
		return err
	}
	hidden.Add(1) // odd: hidden
	time.Sleep(2 * time.Millisecond)
	hidden.Add(1)
	for {
		tx, err = s.be.Begin(s.Ctx)
		if err != nil {
			return err
		}
		if err = tx.Unpark(s.Ctx, c.Holds[0].Group); err == nil {
			return tx.Commit(s.Ctx)
		}
		tx.Rollback(s.Ctx)
		if !invBusy(s.Env, err) || s.Ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond) // somebody is looking at the group
	}
}

func checkRulePromotion(e *Env) {
	s := invUnder(invWorld(e))
	promote := func(tx backend.Tx, group parley.ID, level int, what string) {
		invPrompt(e, "promote: "+what, func(ctx context.Context) error {
			return tx.Promote(ctx, backend.Promotion{Group: group, Level: level})
		})
	}
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			what := st.kind + " " + invHoldName(hold)
			s.sent(st, "m0", "m1", "m2")
			h := s.found(hold, what)

			// While a receiver holds the group, and a sender is open.
			var sender backend.Tx
			if e.HoldsInTransaction() {
				sender = s.opened(st, "m3")
			}
			tx := s.begin()
			promote(tx, h.Group, 1, what)
			s.commit(tx)
			if sender != nil {
				s.commit(sender)
			} else {
				s.sent(st, "m3")
			}
			h.settle(backend.Outcome{Done: h.Messages[:1]})

			// While a promotion is open, senders send and receivers receive.
			s.sent(s.key("other "+parley.NewID().String()), "x")
			if e.HoldsInTransaction() {
				tx = s.begin()
				promote(tx, h.Group, 2, what)
				s.sent(st, "m4")
				h = s.found(hold, what).want(what, "m1", "m2", "m3", "m4")
				h.settle(backend.Outcome{Done: h.Messages[:1]})
				s.commit(tx)
				h = s.found(hold, what+", promoted meanwhile").want(what, "m2", "m3", "m4")
				if !h.Promoted || h.Level != 2 {
					e.Errorf("%s: promoted to 2 while it was received: promoted %t to %d", what, h.Promoted, h.Level)
				}
			} else {
				h = s.found(hold, what).want(what, "m1", "m2", "m3")
				if !h.Promoted || h.Level != 1 {
					e.Errorf("%s: promoted to 1 while it was held: promoted %t to %d", what, h.Promoted, h.Level)
				}
			}
			h.ack()
			s.found(hold, what).want(what, "x").ack()
		}
	}
}

// checkRulePromoteTaken: a transaction has taken the messages of a promoted
// group and stays open. Promoting and demoting the group must not wait for it,
// and the later promotion is the one that counts.
func checkRulePromoteTaken(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("this store has one writer, so that nothing can be promoted beside an open transaction")
	}
	w := e.World()
	other := e.Broker(nil)
	group := invPeer(w, w.Dialog("m0", "m1"))
	e.Must(w.B.Promote(e.Ctx, group, parley.Level(7)))
	w.Tx(func(tx *parley.Tx) error {
		got, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
		if err != nil {
			return err
		}
		if b := Bodies(got); len(b) != 1 || b[0] != "m0" {
			e.Errorf("received %q, want m0", b)
		}
		ctx, cancel := context.WithTimeout(e.Ctx, 3*time.Second)
		defer cancel()
		if err := other.Promote(ctx, group, parley.Level(9)); err != nil {
			e.Errorf("promoting a group whose messages an open transaction has taken: %v", err)
		}
		return nil
	})
	d := w.Receive(w.SQ, nil)
	if !d.Promoted || d.Level != 9 {
		e.Errorf("after the commit the group is promoted %t to %d, want to 9, which came later", d.Promoted, d.Level)
	}
	e.Must(d.Ack(e.Ctx))
}
