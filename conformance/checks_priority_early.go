package conformance

import (
	"context"
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
		Check{ID: "P09", Name: "a promotion of a held group", Run: checkPrioHeld},
		Check{ID: "P09", Name: "a promotion of a group without messages", Run: checkPrioEmpty},
		Check{ID: "P09", Name: "a promotion of a group whose first message is withheld", Run: checkPrioWithheld},
		Check{ID: "P09", Name: "a promotion of a parked group", Run: checkPrioParked},
		Check{ID: "P11", Name: "a promotion of an ended group is removed", Run: checkPrioEnded},
		Check{ID: "P11", Name: "a promotion of an unknown group is refused", Run: checkPrioUnknown},
	)
}

func checkPrioHeld(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		for _, end := range []string{"Rollback", "Ack"} {
			what := fmt.Sprintf("promoted while it was %s, then %s", invHoldName(hold), end)
			prioLine(w, "a", "b")
			h := w.Dialog("m0", "m1", "m2")
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1, Group: invPeer(w, h)})
			invPrompt(e, "promote a group "+invHoldName(hold), func(ctx context.Context) error {
				return other.B.Promote(ctx, d.Group)
			})
			if hold == parley.HoldLease && e.HoldsInTransaction() { // by GetGroup's way of looking too
				other.Tx(func(tx *parley.Tx) error {
					if g, err := tx.GetGroup(e.Ctx, w.SQ, nil); err != nil || g == d.Group {
						e.Errorf("with the promoted group held GetGroup returns %s (%v)", g, err)
					}
					return nil
				})
			}
			// The others are not kept from their work by it.
			invPrompt(e, "receive behind a promoted group that is "+invHoldName(hold), func(ctx context.Context) error {
				next, err := other.B.Receive(ctx, w.SQ, &parley.ReceiveOptions{Hold: hold})
				if err != nil {
					return err
				}
				if got := Bodies(next.Messages); !slices.Equal(got, []string{"a"}) {
					return fmt.Errorf("received %q, want a", got)
				}
				return next.Ack(ctx)
			})
			w.Send(h, w.Ask, "m3")
			if end == "Ack" {
				e.Must(d.Ack(e.Ctx))
				prioOrder(w, w.SQ, what, "m1", "b", "m2", "m3")
			} else {
				e.Must(d.Rollback(e.Ctx))
				prioOrder(w, w.SQ, what, "m0", "b", "m1", "m2", "m3")
			}
		}
	}
}

func checkPrioEmpty(e *Env) {
	w := invWorld(e)
	h := w.Dialog("m0")
	prioOrder(w, w.SQ, "first", "m0")
	group := invPeer(w, h)
	prioLine(w, "a", "b")
	e.Must(w.B.Promote(e.Ctx, group))
	prioOrder(w, w.SQ, "with an empty group promoted", "a")
	s := invUnder(w)
	for duty := range backend.Duty(backend.DutyCount) { // no clean-up takes it away
		s.tend(duty)
	}
	w.Send(h, w.Ask, "m1")
	w.Send(h, w.Ask, "m2")
	prioOrder(w, w.SQ, "once the promoted group has a message", "m1", "b", "m2")
}

func checkPrioWithheld(e *Env) {
	w := e.World()
	prioLine(w, "a", "b")
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	h := w.Dialog("withheld 0", "withheld 1")
	group := invPeer(w, h)
	if streams, err := w.B.Admin().Withheld(e.Ctx, 1000); err != nil || !slices.ContainsFunc(streams, func(s parley.WithheldStream) bool { return s.From.Handle == h }) {
		e.Fatalf("the queue is disabled, and what was sent to it is not withheld (%v)", err)
	}
	e.Must(w.B.Promote(e.Ctx, group))
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	if !e.Soon(20*time.Second, func() bool {
		groups, err := w.B.Admin().Groups(e.Ctx, w.SQ, 0, 100)
		e.Must(err)
		return slices.ContainsFunc(groups, func(g parley.GroupStatus) bool { return g.Group == group })
	}) {
		e.Fatalf("the queue was enabled 20 s ago, and what was withheld is not delivered")
	}
	prioOrder(w, w.SQ, "promoted while its messages were withheld", "withheld 0", "a", "b", "withheld 1")
}

func checkPrioParked(e *Env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		for _, way := range []string{"park", "defer"} {
			prioLine(w, "m")
			prioLine(w, "a")
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			if way == "park" {
				e.Must(d.Park(e.Ctx, errors.New("a check")))
			} else {
				e.Must(d.Defer(e.Ctx, time.Hour))
			}
			e.Must(w.B.Promote(e.Ctx, d.Group))
			prioOrder(w, w.SQ, way+", "+invHoldName(hold)+": with the promoted group hidden", "a")
			w.Nothing(w.SQ, nil)
			prioLine(w, "b")
			time.Sleep(2 * time.Millisecond)
			e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
			d = w.Receive(w.SQ, nil)
			if got := Bodies(d.Messages); !slices.Equal(got, []string{"m"}) || !d.Promoted {
				e.Errorf("%s, %s: promoted and unparked, then received %q, promoted: %t", way, invHoldName(hold), got, d.Promoted)
			}
			e.Must(d.Ack(e.Ctx))
			prioOrder(w, w.SQ, way+", "+invHoldName(hold)+": the rest", "b")
		}
	}
}

func checkPrioEnded(e *Env) {
	w := newPrioDuplex(e, 5)
	s := invUnder(w.World)
	group := parley.NewID() // the client's, so that it can be made again
	peer := w.begin(5, group)
	w.tell(peer, "never received")
	e.Must(w.B.Promote(e.Ctx, group, parley.Sticky()))
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(prioStatus(w.World, peer).Peer).End(e.Ctx) })
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).End(e.Ctx) })

	// Others are received beside it, and nothing goes wrong again and again.
	second := w.begin(5, parley.NewID())
	w.tell(second, "a")
	prioOrder(w.World, w.CQ, "beside a promotion of an ended group", "a")
	w.Nothing(w.CQ, nil)
	if err := w.B.Promote(e.Ctx, group); err != nil && !errors.Is(err, parley.ErrUnknownGroup) {
		e.Errorf("a promotion of the ended group returns %v, want none or ErrUnknownGroup", err)
	}

	gone := func() bool {
		for _, duty := range []backend.Duty{backend.DutyMarkers, backend.DutyClosed, backend.DutyGroups} {
			s.tend(duty)
		}
		tx := s.begin()
		defer s.rollback(tx)
		err := tx.LockGroup(e.Ctx, group)
		return errors.Is(err, backend.ErrNoGroup)
	}
	if !e.Soon(10*time.Second, gone) {
		e.Fatalf("the clean-up does not remove a promoted group that has ended")
	}
	if err := w.B.Promote(e.Ctx, group); !errors.Is(err, parley.ErrUnknownGroup) {
		e.Errorf("a promotion of the removed group returns %v, want ErrUnknownGroup", err)
	}
	// Its promotion went with it: made again, the group has none.
	w.tell(second, "older")
	w.tell(w.begin(5, group), "younger, in a group made again")
	prioOrder(w.World, w.CQ, "the group was made again", "older", "younger, in a group made again")
}

func checkPrioUnknown(e *Env) {
	w := invWorld(e)
	prioLine(w, "a")
	for _, promote := range map[string]func(g parley.ID) error{
		"Broker": func(g parley.ID) error { return w.B.Promote(e.Ctx, g) },
		"Tx": func(g parley.ID) (err error) {
			w.Tx(func(tx *parley.Tx) error {
				err = tx.Promote(e.Ctx, g)
				return tx.Demote(e.Ctx, g) // it can still be used
			})
			return err
		},
	} {
		for _, g := range []parley.ID{parley.NewID(), {}} {
			err := promote(g)
			if !errors.Is(err, parley.ErrUnknownGroup) {
				e.Errorf("a promotion of an unknown group returns %v, want ErrUnknownGroup", err)
			} else if !g.IsZero() && !strings.Contains(err.Error(), g.String()) {
				e.Errorf("the error %q does not name the group %s", err, g)
			}
		}
	}
	prioOrder(w, w.SQ, "after refused promotions", "a")
}
