package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "N07", Name: "a deferred group comes back when it is due, in order", Run: checkDeferred},
		Check{ID: "N07", Name: "a parked group stays away until it is unparked, in order", Run: checkParked},
		Check{ID: "N07", Name: "posts without key are deferred and parked alone", Run: checkBlockedSingles},
		Check{ID: "N07", Name: "a deferred group can be unparked before its time", Run: checkUnparkDeferred},
		Check{ID: "N07", Name: "what was done before Defer and Park is undone", Run: checkBlockedUndone},
	)
}

// postStream is a source of messages of one group.
type postStream struct {
	name string
	send func(body string)
}

// postStreams returns a conversation and a key, each of its own.
func postStreams(w *World) []postStream {
	h := w.Dialog()
	key := parley.Key(w.Name("key"))
	return []postStream{
		{"a conversation", func(body string) { w.Send(h, w.Ask, body) }},
		{"a key", func(body string) { w.post(w.SQ, body, key) }},
	}
}

func checkDeferred(e *Env) {
	// Polling cannot explain that a receiver gets them in time.
	w := e.WorldOn(e.Broker(&parley.Options{Poll: quePoll}))
	const away = 300 * time.Millisecond
	for _, hold := range e.Holds() {
		for _, s := range postStreams(w) {
			for _, body := range []string{"1", "2", "3"} {
				s.send(body)
			}
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
			before := time.Now()
			e.Must(d.Defer(e.Ctx, away))
			s.send("4")
			w.post(w.CQ, "other") // others go on
			postWant(w, w.CQ, "other")
			for i := range 2 {
				d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
				if passed := time.Since(before); passed < away-tmrEarly || i == 0 && passed > away+queSlow {
					e.Errorf("%s that was deferred for %v came after %v", s.name, away, passed)
				}
				if got, want := Bodies(d.Messages), [][]string{{"1", "2"}, {"3", "4"}}[i]; !slices.Equal(got, want) {
					e.Errorf("%s: received %q after a deferral, want %q", s.name, got, want)
				}
				s.send(fmt.Sprint("more ", i))
				e.Must(d.Ack(e.Ctx))
			}
			postWant(w, w.SQ, "more 0", "more 1")
		}
	}
}

func checkParked(e *Env) {
	w := e.World()
	be := e.Handle()
	for _, hold := range e.Holds() {
		for _, s := range postStreams(w) {
			for _, body := range []string{"1", "2"} {
				s.send(body)
			}
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
			e.Must(d.Park(e.Ctx, errors.New("a reason, 'quoted'")))
			postBlocked(w, s.name, d.Group, "parked", "a reason, 'quoted'")
			w.Nothing(w.SQ, nil)
			w.Nothing(w.SQ, &parley.ReceiveOptions{Group: d.Group})
			s.send("3")
			w.Nothing(w.SQ, nil)
			postTend(e, be) // takes it out of the ready order, where the store does that
			w.Nothing(w.SQ, nil)
			s.send("4")
			w.Nothing(w.SQ, nil)
			w.post(w.SQ, "another group goes on")
			postWant(w, w.SQ, "another group goes on")
			e.Must(w.B.Promote(e.Ctx, d.Group)) // no promotion unparks
			w.Nothing(w.SQ, nil)

			e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
			s.send("5")
			first := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
			if got := Bodies(first.Messages); !slices.Equal(got, []string{"1", "2"}) {
				e.Errorf("%s: received %q after Unpark, want 1 and 2", s.name, got)
			}
			e.Must(first.Ack(e.Ctx))
			postWant(w, w.SQ, "3", "4", "5")
			w.Nothing(w.SQ, nil)
		}
	}
	e.Is(w.B.Admin().Unpark(e.Ctx, parley.NewID()), parley.ErrUnknownGroup)
}

// postBlocked ends the check unless operators see the group in the state.
func postBlocked(w *World, name string, group parley.ID, state, reason string) {
	groups, err := w.B.Admin().Groups(w.Ctx, w.SQ, 0, 100)
	w.Must(err)
	for _, g := range groups {
		if g.Group == group {
			if g.State != state || reason != "" && g.Reason != reason {
				w.Errorf("%s: operators see the state %q for %q, want %q for %q", name, g.State, g.Reason, state, reason)
			}
			return
		}
	}
	w.Errorf("%s: operators do not see the group, which is %s", name, state)
}

func checkBlockedSingles(e *Env) {
	w := e.World()
	const away = 300 * time.Millisecond
	for _, hold := range e.Holds() {
		w.post(w.SQ, "deferred")
		before := time.Now()
		e.Must(w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold}).Defer(e.Ctx, away))
		w.post(w.CQ, "parked")
		d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold})
		if d.Group != d.Messages[0].ID {
			e.Errorf("the group of a post without key is %s, want its id, %s", d.Group, d.Messages[0].ID)
		}
		e.Must(d.Park(e.Ctx, nil))
		w.Nothing(w.CQ, nil)
		postTend(e, e.Handle())
		w.post(w.CQ, "beside")
		postWant(w, w.CQ, "beside")
		w.Nothing(w.CQ, nil)

		postWant(w, w.SQ, "deferred")
		if passed := time.Since(before); passed < away-tmrEarly {
			e.Errorf("a post that was deferred for %v came after %v", away, passed)
		}
		e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
		postWant(w, w.CQ, "parked")
		w.Nothing(w.CQ, nil)
	}
}

func checkUnparkDeferred(e *Env) {
	w := e.World()
	for _, s := range postStreams(w) {
		s.send("1")
		d := w.Receive(w.SQ, nil)
		e.Must(d.Defer(e.Ctx, time.Hour))
		postBlocked(w, s.name, d.Group, "deferred", "")
		s.send("2")
		w.Nothing(w.SQ, nil)
		e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
		postWant(w, w.SQ, "1", "2")
	}
}

func checkBlockedUndone(e *Env) {
	w := e.World()
	for _, hold := range e.Holds() {
		for _, s := range postStreams(w) {
			s.send("1")
			for i, block := range []func(context.Context, *parley.Delivery) error{
				func(ctx context.Context, d *parley.Delivery) error { return d.Defer(ctx, time.Hour) },
				func(ctx context.Context, d *parley.Delivery) error { return d.Park(ctx, nil) },
			} {
				key := e.Name(fmt.Sprint(postHold(hold), s.name, i))
				d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
				tx, err := d.Tx(e.Ctx)
				e.Must(err)
				_, err = tx.Once(e.Ctx, key)
				e.Must(err)
				_, err = tx.Post(e.Ctx, w.CQ, parley.Payload{Body: []byte("undone")})
				e.Must(err)
				e.Must(block(e.Ctx, d))
				w.Nothing(w.SQ, nil)
				w.Nothing(w.CQ, nil)
				w.Tx(func(tx *parley.Tx) error {
					fresh, err := tx.Once(e.Ctx, key)
					if !fresh {
						e.Errorf("%s: what was written before it was blocked has been committed", s.name)
					}
					return err
				})
				e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
			}
			postWant(w, w.SQ, "1")
		}
	}
}
