package conformance

import (
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
		Check{ID: "I4", Name: "the order of a conversation outlives all that can happen to it", Run: checkInvOrderDialog},
		Check{ID: "I4", Name: "the order of a key outlives all that can happen to it", Run: checkInvOrderKey},
		Check{ID: "I4", Name: "a failed message is tried again before those behind it", Run: checkInvRetry},
		Check{ID: "I4", Name: "random histories go as the model says", Run: checkModel, Limit: 3 * time.Minute},
		Check{ID: "I4", Name: "the order holds under load", Run: func(e *Env) { runLoad(e, load{parks: true, promotes: true, moves: true}) }, Limit: 2 * time.Minute},
	)
}

func checkInvOrderDialog(e *Env) {
	w := invWorld(e)
	var bodies []string
	for i := range 24 {
		bodies = append(bodies, fmt.Sprint("m", i))
	}
	for _, hold := range e.Holds() {
		h := w.Dialog(bodies...)
		peer := invPeer(w, h)
		invOrder(w, hold, bodies, func() {
			w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, parley.NewID()) })
		})
	}
}

func checkInvOrderKey(e *Env) {
	w := invWorld(e)
	var bodies []string
	for i := range 24 {
		bodies = append(bodies, fmt.Sprint("m", i))
	}
	for _, hold := range e.Holds() {
		w.Tx(func(tx *parley.Tx) error {
			for _, body := range bodies {
				if _, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key("k")); err != nil {
					return err
				}
			}
			return nil
		})
		invOrder(w, hold, bodies, func() {})
	}
}

// invOrder takes messages of the only group of SQ piece by piece, and after
// each piece does to the group what could bring them out of order.
func invOrder(w *World, hold parley.Hold, want []string, move func()) {
	e := w.Env
	var got []string
	receive := func(w *World, n int) *parley.Delivery {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: n})
		bodies := Bodies(d.Messages)
		if left := want[len(got):]; !slices.Equal(bodies, left[:min(n, len(left))]) {
			w.fail(fmt.Sprintf("%s: after %d messages came %q, want %q", invHoldName(hold), len(got), bodies, left[:min(n, len(left))]))
			runtime.Goexit()
		}
		return d
	}
	take := func(n int) {
		d := receive(w, n)
		got = append(got, Bodies(d.Messages)...)
		e.Must(d.Ack(e.Ctx))
	}
	trials := []struct {
		name string
		do   func()
	}{
		{"rollback", func() { e.Must(receive(w, 3).Rollback(e.Ctx)) }},
		{"rollback of a batch after a write", func() {
			d := receive(w, 5)
			tx, err := d.Tx(e.Ctx)
			e.Must(err)
			_, err = tx.Once(e.Ctx, e.Name("write"))
			e.Must(err)
			e.Must(d.Rollback(e.Ctx))
		}},
		{"death of the receiver", func() {
			dead := invOther(w)
			receive(dead, 2)
			e.Must(dead.B.Close())
		}},
		{"promotion", func() {
			d := receive(w, 1)
			e.Must(invOther(w).B.Promote(e.Ctx, d.Group))
			e.Must(d.Rollback(e.Ctx))
		}},
		{"move", move},
		{"deferral", func() { e.Must(receive(w, 2).Defer(e.Ctx, 30*time.Millisecond)) }},
		{"parking", func() {
			d := receive(w, 2)
			e.Must(d.Park(e.Ctx, errors.New("a check")))
			w.Nothing(w.SQ, nil)
			e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
		}},
		{"parking and move", func() {
			d := receive(w, 2)
			e.Must(d.Park(e.Ctx, errors.New("a check")))
			move()
			w.B.Admin().Unpark(e.Ctx, d.Group) // it may have gone with the move
		}},
		{"return and more", func() {
			d := receive(w, 2)
			e.Must(d.Return(e.Ctx))
			more, err := d.More(e.Ctx, 3)
			e.Must(err)
			if left := want[len(got):]; !slices.Equal(Bodies(more), left[:3]) {
				e.Fatalf("%s: returned, and then came %q, want %q", invHoldName(hold), Bodies(more), left[:3])
			}
			got = append(got, Bodies(more)...)
			e.Must(d.Ack(e.Ctx))
		}},
		{"received in a transaction that rolled back", func() {
			undo := errors.New("undo")
			err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				if _, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 2}); err != nil {
					return err
				}
				return undo
			})
			e.Is(err, undo)
		}},
	}
	for i, t := range trials {
		t.do()
		before := len(got)
		take(1 + i%2)
		if !slices.Equal(got, want[:len(got)]) {
			e.Fatalf("%s, after %s: received %q", invHoldName(hold), t.name, got[before:])
		}
	}
	for len(got) < len(want) {
		take(4)
	}
	w.Nothing(w.SQ, nil)
}

// checkInvRetry: what is known of a failed message is kept with it, and changes
// neither its place nor that of those behind it.
func checkInvRetry(e *Env) {
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			what := st.kind + " " + invHoldName(hold)
			s.sent(st, "m0", "m1", "m2")
			for i := range 4 {
				h := s.found(hold, what).want(what, "m0", "m1", "m2")
				for k, m := range h.Messages {
					attempts, text := 0, ""
					if k == 0 && i > 0 {
						attempts, text = i, fmt.Sprint("failure ", i)
					}
					if m.Attempts != attempts || m.LastError != text {
						e.Errorf("%s: message %d after %d failed attempts says %d and %q", what, k, i, m.Attempts, m.LastError)
					}
				}
				h.settle(backend.Outcome{Failure: &backend.Failure{Message: h.Messages[0], Attempts: i + 1, Error: fmt.Sprint("failure ", i+1)}, Defer: time.Duration(i%2) * 20 * time.Millisecond})
				s.tend(backend.DutyMarkers)
				if i%2 == 1 && !e.Soon(10*time.Second, func() bool {
					s.tend(backend.DutyDeferred)
					h := s.claim(hold, backend.ClaimRequest{})
					if h == nil {
						return false
					}
					h.back()
					return true
				}) {
					e.Fatalf("%s: the deferral does not end", what)
				}
			}
			for _, body := range []string{"m0", "m1", "m2"} {
				h := s.found(hold, what)
				if got := h.bodies()[0]; got != body {
					e.Errorf("%s: one by one, %q comes in place of %q", what, got, body)
				}
				h.settle(backend.Outcome{Done: h.Messages[:1]})
			}
		}
	}
}
