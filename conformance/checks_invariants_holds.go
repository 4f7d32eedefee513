package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "I1", Name: "a held group is received by nobody else", Run: checkInvOneReceiver},
		Check{ID: "I1", Name: "a group is free after every end of a hold", Run: checkInvHoldEnds},
		Check{ID: "I1", Name: "a claim of several groups has each of them once", Run: checkInvSeveralGroups},
		Check{ID: "I1", Name: "a lease keeps others out until it ends, and no longer", Run: checkInvLeaseEnds},
		Check{ID: "I1", Name: "a lease lasts as long as it is extended", Run: checkInvLeaseExtended},
	)
}

// invHeldFromAll ends the check if somebody else can get at the group of d.
func invHeldFromAll(other *World, d *parley.Delivery, what string) {
	tries := map[string]*parley.ReceiveOptions{
		"the next group":    nil,
		"by lease":          {Hold: parley.HoldLease},
		"the group by name": {Group: d.Group},
	}
	if h := d.Messages[0].Conversation; !h.IsZero() {
		tries["the conversation by its handle"] = &parley.ReceiveOptions{Conversation: h}
	}
	for name, o := range tries {
		if got := other.TryReceive(other.SQ, o, 0); got != nil {
			other.fail(fmt.Sprintf("%s: another receiver that asks for %s gets %s", what, name, describe(got.Messages)))
			runtime.Goexit()
		}
	}
	err := other.B.InTx(other.Ctx, func(tx *parley.Tx) error {
		if g, err := tx.GetGroup(other.Ctx, other.SQ, nil); !errors.Is(err, parley.ErrNoMessage) {
			return fmt.Errorf("GetGroup of another transaction returns %s (%v)", g, err)
		}
		m, err := tx.Receive(other.Ctx, other.SQ, &parley.ReceiveOptions{Group: d.Group})
		if !errors.Is(err, parley.ErrNoMessage) {
			return fmt.Errorf("Receive of another transaction returns %s (%v)", describe(m), err)
		}
		return nil
	})
	if err != nil {
		other.fail(what + ": " + err.Error())
		runtime.Goexit()
	}
}

// invHolding has f called for each way of holding and each kind of group, with
// two messages of which the first is in hand.
func invHolding(e *Env, f func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery)) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		for _, kind := range []string{"conversation", "key"} {
			if kind == "key" {
				for _, body := range []string{"m0", "m1"} {
					_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key("k"))
					e.Must(err)
				}
			} else {
				w.Dialog("m0", "m1")
			}
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
			if got := Bodies(d.Messages); !slices.Equal(got, []string{"m0"}) {
				e.Fatalf("%s: delivered %q, want m0", kind, got)
			}
			f(w, other, hold, kind, d)
			e.Must(d.Rollback(e.Ctx))
			w.Drain(w.SQ)
		}
	}
}

func invHoldName(h parley.Hold) string {
	if h == parley.HoldLease {
		return "held by lease"
	}
	return "held in a transaction"
}

func checkInvOneReceiver(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		invHeldFromAll(other, d, what)

		s := invUnder(other)
		tx := s.begin()
		if err := tx.LockGroup(e.Ctx, d.Group); !invBusy(e, err) {
			e.Fatalf("%s: LockGroup of another transaction returns %v, want ErrGroupBusy", what, err)
		}
		s.rollback(tx)
	})
}

// invBusy reports whether an error says that somebody else holds the group.
// Where waiting inside a transaction is futile it says so.
func invBusy(e *Env, err error) bool {
	return errors.Is(err, parley.ErrGroupBusy) || !e.HoldsInTransaction() && errors.Is(err, parley.ErrWouldDeadlock)
}

func checkInvHoldEnds(e *Env) {
	ends := []struct {
		name string
		end  func(b *parley.Broker, d *parley.Delivery) error
		next string // what is received then
	}{
		{"Rollback", func(_ *parley.Broker, d *parley.Delivery) error { return d.Rollback(e.Ctx) }, "m0"},
		{"Close", func(_ *parley.Broker, d *parley.Delivery) error { return d.Close() }, "m0"},
		{"the end of its process", func(b *parley.Broker, _ *parley.Delivery) error { return b.Close() }, "m0"},
		{"Ack", func(_ *parley.Broker, d *parley.Delivery) error { return d.Ack(e.Ctx) }, "m1"},
	}
	w := invWorld(e)
	for _, hold := range e.Holds() {
		for _, end := range ends {
			w.Dialog("m0", "m1")
			holder := invOther(w)
			d := holder.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
			e.Must(end.end(holder.B, d))
			got := w.TryReceive(w.SQ, nil, 0)
			if got == nil {
				e.Fatalf("%s: after %s nothing can be received", invHoldName(hold), end.name)
			}
			if first := string(got.Messages[0].Body); first != end.next {
				e.Fatalf("%s: after %s received %q, want %q first", invHoldName(hold), end.name, first, end.next)
			}
			e.Must(got.Ack(e.Ctx))
		}
	}
}

// checkInvSeveralGroups: a group with several streams stands in the order several
// times, and may yet be handed out once only.
func checkInvSeveralGroups(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, hold := range e.Holds() {
		what := invHoldName(hold)
		var groups [2]parley.ID
		for g := range groups {
			groups[g] = parley.NewID()
			for range 3 {
				h := w.DialogWith(&parley.DialogOptions{RelatedGroup: groups[g]}, "hello")
				w.Send(invPeer(w, h), w.Tell, fmt.Sprint(g))
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

func checkInvLeaseEnds(e *Env) {
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
			e.Fatalf("%s: the lease ended %v ago, and the group is still nobody's", st.kind, time.Since(start)-length)
		}
		// The lease began after start, so this holds however slow the machine is.
		if took := time.Since(start); took < length-10*time.Millisecond {
			e.Fatalf("%s: another receiver got the group after %v, under a lease of %v", st.kind, took, length)
		}
		again.want(st.kind, "m0").ack()
		s.nothing(backend.ClaimRequest{}, st.kind+" after its only message was acknowledged")
	}
}

func checkInvLeaseExtended(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	w.Dialog("m0")
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: time.Second})
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if err := d.Context().Err(); err != nil {
			e.Fatalf("the lease was lost although it was extended: %v", context.Cause(d.Context()))
		}
		other.Nothing(w.SQ, nil)
	}
	e.Must(d.Ack(e.Ctx))

	// At the level of the store: extended from 300 ms to a minute.
	s := invUnder(w)
	st := s.dialog()
	s.sent(st, "m1")
	h := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: 300 * time.Millisecond})
	if h == nil {
		e.Fatalf("nothing to claim")
	}
	if err := s.be.Extend(e.Ctx, []*backend.Hold{h.Hold}, time.Minute); err != nil {
		e.Fatalf("extend: %v", err)
	}
	time.Sleep(350 * time.Millisecond) // the store's clock must pass the first end
	s.nothing(backend.ClaimRequest{}, "under an extended lease")
	h.ack()
}
