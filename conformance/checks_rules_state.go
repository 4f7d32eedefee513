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
		scripted("RC", "promoting a group whose messages a transaction has taken does not wait", `
			needs many writers
			broker other
			begin d "m0" "m1"
			let p d.peer
			promote p level 7
			transaction t
			t: receive SQ max 1 -> "m0"
			start promotes for 3s other: promote p level 9
			join promotes
			commit t
			receive SQ as r // the later promotion counts
			equal r.promoted true
			equal r.level 9
			ack r
		`),
		check{ID: "RC", Name: "a group that was taken, deferred or parked after it was chosen is not received", Run: checkRuleChosenTaken},
		check{ID: "RC", Name: "a transaction that looked earlier sees who leased, deferred or parked a group since", Run: checkRuleOldState},
		check{ID: "RC", Name: "a group that is hidden again before the other look at it stays hidden", Run: checkRuleHiddenAgain},
		check{ID: "RC", Name: "receivers by lease, parking and deferring exclude each other in a race", Run: checkRuleStateRace},
		check{ID: "RC", Name: "a promotion waits for no sender or receiver, and none waits for it", Run: checkRulePromotion},
	)
}

func checkRuleChosenTaken(e *env) {
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
			if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"next"}) {
				e.Errorf("%s: the chosen group was %s meanwhile, and %q was received, want next", invHoldName(hold), name, got)
			}
			e.Must(d.Ack(e.Ctx))
			w.Nothing(w.SQ, &parley.ReceiveOptions{Group: chosen})
			other.B.Close() // gives back what is leased
			other = invOther(w)
			e.Must(w.B.Admin().Unpark(e.Ctx, chosen))
			if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"chosen"}) {
				e.Errorf("%s: after the group was %s, %q was received, want chosen", invHoldName(hold), name, got)
			}
		}
	}
}

func checkRuleOldState(e *env) {
	if !e.ManyWriters() {
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
		s.maintain(backend.JobDeferred)
		s.found(parley.HoldTransaction, st.kind).want(st.kind, "m0").ack()
	}
}

// checkRuleHiddenAgain: a group is unparked while a sender writes to one of its
// conversations, so that a maintenance job must look at it again. It is hidden again before
// that.
func checkRuleHiddenAgain(e *env) {
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
			s.maintain(backend.JobMarkers)
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
				s.maintain(backend.JobDeferred)
				s.nothing(backend.ClaimRequest{}, what)
				s.nothing(backend.ClaimRequest{Group: h.Group}, what)
			}
			unpark()
			s.maintain(backend.JobDeferred)
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

// checkRuleStateRace: receivers lease and hide one group in a race. A receiver that
// judges its state before having it locked sooner or later has it too.
func checkRuleStateRace(e *env) {
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
	if act == 1 && s.ManyWriters() {
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
		if !invBusy(s.env, err) || s.Ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond) // another receiver is looking at the group
	}
}

func checkRulePromotion(e *env) {
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
			if e.ManyWriters() {
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
			if e.ManyWriters() {
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
