package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(
		scripted("I1", "a held group is received by no other receiver", heldGroups+heldFromAll+`
					locked r.group
					rollback r
					drain SQ
		`, alone),
		scripted("I1", "a group is free after every end of a hold", `
			each hold: every hold
				each end, want: rollback r, "m0", "m1" | close r, "m0", "m1" | close holder, "m0", "m1" | ack r, "m1"
					begin d "m0" "m1"
					broker holder
					holder: receive SQ $hold max 1 as r
					$end
					receive SQ now as next -> $want
					ack next
		`, alone),
		check{ID: "I1", Name: "a claim of several groups has each of them once", Run: checkInvSeveralGroups},
		check{ID: "I1", Name: "a lease keeps others out until it ends, and no longer", Run: checkInvLeaseEnds},
		check{ID: "I1", Name: "a lease lasts as long as it is extended", Run: checkInvLeaseExtended},
	)
}

func invHoldName(h parley.Hold) string {
	if h == parley.HoldLease {
		return "held by lease"
	}
	return "held in a transaction"
}

// invBusy reports whether an error says that another transaction or receiver holds the group.
// Where waiting inside a transaction is futile it says so.
func invBusy(e *env, err error) bool {
	return errors.Is(err, parley.ErrGroupBusy) || !e.ManyWriters() && errors.Is(err, parley.ErrWouldDeadlock)
}

// checkInvSeveralGroups: a group with several streams stands in the order several
// times, and may yet be handed out once only.
func checkInvSeveralGroups(e *env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, hold := range e.Holds() {
		what := invHoldName(hold)
		var groups [2]parley.ID
		for g := range groups {
			groups[g] = parley.NewID()
			for range 3 {
				h := w.DialogWith(&parley.DialogOptions{RelatedGroup: groups[g]}, "hello")
				w.Send(dlgPeer(w, h), w.Tell, fmt.Sprint(g))
			}
		}
		for _, promoted := range []bool{false, true} {
			if promoted {
				e.Must(w.B.Promote(e.Ctx, groups[1]))
			}
			h, c := s.claimed(hold, backend.ClaimRequest{Queue: s.cq, MaxGroups: 10})
			if h == nil {
				e.Fatalf("%s: nothing to claim", what)
			}
			seen := map[parley.ID]bool{}
			for _, hold := range c.Holds {
				if seen[hold.Group] {
					e.Errorf("%s, promoted %t: a claim of ten groups has group %s twice", what, promoted, hold.Group)
				}
				seen[hold.Group] = true
				if len(hold.Messages) != 3 {
					e.Errorf("%s, promoted %t: a claim of ten groups has %d messages of a group with 3", what, promoted, len(hold.Messages))
				}
			}
			if promoted && c.Holds[0].Group != groups[1] {
				e.Errorf("%s: the promoted group is not the first of several", what)
			}
			tx := h.tx
			if tx == nil {
				tx = s.begin()
				e.Must(tx.Reclaim(e.Ctx, c.Holds))
			}
			var outcomes []backend.Outcome
			for _, hold := range c.Holds {
				outcomes = append(outcomes, backend.Outcome{Hold: hold})
				if promoted {
					outcomes[len(outcomes)-1].Done = hold.Messages
				}
			}
			if _, err := tx.Settle(e.Ctx, outcomes); err != nil {
				e.Fatalf("%s: settle of several groups: %v", what, err)
			}
			s.commit(tx)
		}
		w.Drain(w.CQ) // a claim may bring fewer groups than there are
		w.Drain(w.SQ)
	}
}

func checkInvLeaseEnds(e *env) {
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		s.sent(st, "m0")
		start := time.Now()
		const length = 400 * time.Millisecond
		h := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: length})
		if h == nil {
			e.Fatalf("%s: nothing to claim", st.kind)
		}
		var again *invHeld
		if !e.Soon(10*time.Second, func() bool {
			again = s.claim(e.Holds()[0], backend.ClaimRequest{})
			return again != nil
		}) {
			e.Fatalf("%s: the lease ended %v ago, and no receiver gets the group", st.kind, time.Since(start)-length)
		}
		// The lease began after start, so this holds however slow the machine is.
		if took := time.Since(start); took < length-10*time.Millisecond {
			e.Fatalf("%s: another receiver got the group after %v, under a lease of %v", st.kind, took, length)
		}
		again.want(st.kind, "m0").ack()
		s.nothing(backend.ClaimRequest{}, st.kind+" after its only message was acknowledged")
	}
}

func checkInvLeaseExtended(e *env) {
	w := invWorld(e)
	other := invOther(w)
	w.Dialog("m0")
	lease := slow.By(5 * time.Second) // a busy machine may be late with an extension
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: lease})

	// At the level of the store: extended to a minute.
	s := invUnder(w)
	st := s.dialog()
	s.sent(st, "m1")
	h := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: lease})
	if h == nil {
		e.Fatalf("nothing to claim")
	}
	if err := s.be.Extend(e.Ctx, []*backend.Hold{h.Hold}, time.Minute); err != nil {
		e.Fatalf("extend: %v", err)
	}

	// The store's clock passes the first end of both.
	for until := time.Now().Add(slow.By(6 * time.Second)); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if err := d.Context().Err(); err != nil {
			e.Fatalf("the lease was lost although it was extended: %v", context.Cause(d.Context()))
		}
		other.Nothing(w.SQ, nil)
	}
	e.Must(d.Ack(e.Ctx))
	s.nothing(backend.ClaimRequest{}, "under an extended lease")
	h.ack()
}
