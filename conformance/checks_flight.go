package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "A23", Name: "a free group behind many that are in flight",
			Run: checkFlightGroups, Limit: 3 * time.Minute},
		check{ID: "A24", Name: "a promotion behind many that are in flight",
			Run: checkFlightPromotions, Limit: 3 * time.Minute},
	)
}

// inFlight is how many groups are in flight: more than a claim of one group looks at
// first.
const inFlight = 130

// flight posts to new keys of priority 9, and has the groups in flight while f runs. Half of
// them are held by lease: f is given these. The others, where the store can, are in one
// transaction, which is rolled back. All of them are by lease where it cannot.
func flight(w *world, f func(held []*parley.Delivery)) {
	posts := make([]parley.Posting, inFlight)
	for i := range posts {
		posts[i].Type = w.Any
		posts[i].Options = []parley.PostOption{parley.Key(fmt.Sprint("in flight ", i)), parley.Priority(9)}
	}
	w.Tx(func(tx *parley.Tx) error {
		_, err := tx.PostBatch(w.Ctx, w.SQ, posts)
		return err
	})
	n := inFlight
	if w.HoldsInTransaction() {
		n /= 2
	}
	var held []*parley.Delivery
	for range n {
		held = append(held, w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease, Lease: 5 * time.Minute}))
	}
	if n == inFlight {
		f(held)
		return
	}
	err := w.B.InTx(w.Ctx, func(tx *parley.Tx) error {
		for range inFlight - n {
			if _, err := tx.Receive(w.Ctx, w.SQ, nil); err != nil {
				return err
			}
		}
		f(held)
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		w.Fatalf("a transaction with %d groups: %v", inFlight-n, err)
	}
}

// checkFlightGroups looks for what is free behind what is in flight: streams, and posts,
// which have an order of their own.
func checkFlightGroups(e *env) {
	w := invWorld(e)
	left := 0
	flight(w, func(held []*parley.Delivery) {
		left = inFlight - len(held)
		w.Nothing(w.SQ, nil)
		w.post(w.SQ, "low post", parley.Priority(2))
		w.post(w.SQ, "low", parley.Key("low"), parley.Priority(4))
		w.post(w.SQ, "high", parley.Key("high"), parley.Priority(9))
		w.post(w.SQ, "highest post", parley.Priority(10))
		w.post(w.SQ, "middle post", parley.Priority(5))
		w.post(w.SQ, "lowest", parley.Key("lowest"), parley.Priority(1))
		// By a process that has not learnt yet how much is in flight.
		prioOrder(invOther(w), w.SQ, "behind what is in flight",
			"highest post", "high", "middle post", "low", "low post", "lowest")
		w.Nothing(w.SQ, nil)
		last := held[len(held)-1]
		e.Must(last.Rollback(e.Ctx))
		d := w.Receive(w.SQ, nil)
		if d.Group != last.Group {
			e.Errorf("group %s is received, and %s alone was given back", d.Group, last.Group)
		}
		e.Must(d.Ack(e.Ctx))
	})
	if got := len(w.Drain(w.SQ)); got != left {
		e.Errorf("%d messages were received after the end of a transaction that had %d", got, left)
	}
}

// checkFlightPromotions promotes all that is in flight, and then what is free.
func checkFlightPromotions(e *env) {
	w := invWorld(e)
	flight(w, func([]*parley.Delivery) {
		groups, err := w.B.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, 2*inFlight)
		e.Must(err)
		w.Tx(func(tx *parley.Tx) error {
			for _, g := range groups {
				if err := tx.Promote(e.Ctx, g.Group, parley.Sticky()); err != nil {
					return err
				}
			}
			return nil
		})
		w.post(w.SQ, "ordinary", parley.Key("ordinary"), parley.Priority(10))
		w.post(w.SQ, "promoted", parley.Key("promoted"), parley.Priority(1))
		post := w.post(w.SQ, "promoted post", parley.Priority(1))
		groups, err = w.B.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, 2*inFlight)
		e.Must(err)
		at := slices.IndexFunc(groups, func(g parley.GroupStatus) bool { return g.Key == "promoted" })
		e.Must(w.B.Promote(e.Ctx, groups[at].Group))
		e.Must(w.B.Promote(e.Ctx, post, parley.PromoteLevel(1)))
		prioOrder(w, w.SQ, "behind promotions in flight", "promoted", "promoted post", "ordinary")
		w.Nothing(w.SQ, nil)
	})
}
