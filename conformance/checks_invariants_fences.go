package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		scripted("I6", "a write and its acknowledgement are one", `
			each hold: every hold
				each kind, make, reply, heard: dialog, begin d "m0" "m1", reply r "reply", take CQ -> "reply" |
					key, post SQ key k type Any "m0"; post SQ key k type Any "m1", pause 0s, pause 0s
					$make
					receive SQ $hold max 1 as r -> "m0"
					each end, known, then, next: rollback r, new, pause 0s, m0 | defer r for 20ms, new, pause 0s, m0 |
						park r; unpark r.group, new, pause 0s, m0 | ack r, old, $heard, m1
						r: once "$end, $kind $hold" new
						$reply
						$end
						once "$end, $kind $hold" $known
						$then
						nothing CQ
						receive SQ $hold max 1 as r -> "$next"
					rollback r
					drain SQ
		`, alone),
		check{ID: "I6", Name: "a receiver whose lease is lost changes nothing", Run: checkInvStale},
		check{ID: "I6", Name: "a process that dies before the commit leaves no write", Run: checkInvDeath},
	)
}

func checkInvStale(e *env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, successor := range e.Holds() {
		for _, st := range s.streams() {
			what := fmt.Sprintf("%s that another receiver got, %s", st.kind, invHoldName(successor))
			s.sent(st, "m0", "m1")
			stale := s.claim(parley.HoldLease, backend.ClaimRequest{Lease: 100 * time.Millisecond})
			if stale == nil {
				e.Fatalf("%s: nothing to claim", what)
			}
			var now *invHeld
			if !e.Soon(10*time.Second, func() bool {
				now = s.claim(successor, backend.ClaimRequest{MaxMessages: 1})
				return now != nil
			}) {
				e.Fatalf("%s: the lease does not end", what)
			}
			now.want(what, "m0")
			if now.Fence != 0 && now.Fence <= stale.Fence {
				e.Errorf("%s: the fence is %d, after %d", what, now.Fence, stale.Fence)
			}

			// At each point of the successor's life the stale receiver fails.
			fenced := func(when string) {
				key := e.Name(what + when)
				if err := s.be.Extend(e.Ctx, []*backend.Hold{stale.Hold}, time.Minute); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: %s: Extend under the old fence returns %v, want ErrFenced", what, when, err)
				}
				tx := s.begin()
				defer s.rollback(tx)
				_, err := tx.Once(e.Ctx, key, time.Hour)
				e.Must(err)
				if err := tx.Reclaim(e.Ctx, []*backend.Hold{stale.Hold}); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: %s: Reclaim under the old fence returns %v, want ErrFenced", what, when, err)
				}
				s.rollback(tx)
				tx = s.begin()
				defer s.rollback(tx)
				_, err = tx.Once(e.Ctx, key, time.Hour)
				e.Must(err)
				if err := stale.try(tx, backend.Outcome{Done: stale.Messages}); !errors.Is(err, backend.ErrFenced) {
					e.Errorf("%s: %s: Settle under the old fence returns %v, want ErrFenced", what, when, err)
				}
				s.rollback(tx)
				if invWrote(w, key) {
					e.Errorf("%s: %s: the stale receiver's write is there", what, when)
				}
			}
			fenced("while it is held")
			now.ack()
			fenced("when it was acknowledged")
			now = s.found(successor, what+": the second message").want(what, "m1")
			fenced("while the next message is held")
			now.ack()
			s.nothing(backend.ClaimRequest{}, what+": all acknowledged")
		}
	}
}

func checkInvDeath(e *env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		w.Dialog("m0")
		key := e.Name("write " + invHoldName(hold))
		dead := invOther(w)
		d := dead.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Lease: time.Second})
		tx, err := d.Tx(e.Ctx)
		e.Must(err)
		_, err = tx.Once(e.Ctx, key)
		e.Must(err)
		e.Must(dead.B.Close())
		if invWrote(w, key) {
			e.Errorf("%s: the process ended before its commit, and its write is there", invHoldName(hold))
		}
		if err := d.Ack(e.Ctx); err == nil {
			e.Errorf("%s: the broker was closed, and Ack reports success", invHoldName(hold))
		}
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"m0"}) {
			e.Errorf("%s: then received %q, want m0", invHoldName(hold), got)
		}
	}
	// A crash of the connection under a transaction's hold, without a chance to
	// tidy up.
	if !e.HoldsInTransaction() {
		return
	}
	w.Dialog("m1")
	s := invUnder(w)
	h := s.found(parley.HoldTransaction, "conversation")
	key := e.Name("write of a lost connection")
	_, err := h.tx.Once(e.Ctx, key, time.Hour)
	e.Must(err)
	e.Must(h.try(h.tx, backend.Outcome{Done: h.Messages}))
	e.Must(s.be.Close())
	if invWrote(w, key) {
		e.Errorf("the write of a connection that was lost before the commit is there")
	}
	if got := strings.Join(w.Take(w.SQ, nil), ","); got != "m1" {
		e.Errorf("then received %q, want m1", got)
	}
}
