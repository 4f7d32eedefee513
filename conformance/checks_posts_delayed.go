package conformance

import (
	"errors"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "N02", Name: "a delayed post comes when it is due", Run: checkDelayed},
		Check{ID: "N02", Name: "a delayed post takes its place in its key's order when it is due", Run: checkDelayedKey},
		Check{ID: "N02", Name: "a delayed post that falls due while its key is held keeps its place", Run: checkDelayedKeyHeld},
	)
}

func checkDelayed(e *Env) {
	// Polling cannot explain that a receiver gets them in time.
	w := e.WorldOn(e.Broker(&parley.Options{Poll: quePoll}))
	const d = 300 * time.Millisecond
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		for _, at := range []bool{false, true} {
			before := time.Now()
			due := before.Add(d)
			delay := parley.After(d)
			if at {
				delay = parley.At(due)
			}
			id := w.post(w.SQ, "late", append(o, delay)...)
			// A look that is itself late proves nothing.
			if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); time.Now().Before(due) &&
				(err != nil || s.State != "delayed" || s.Due <= 0 || s.Due > d+tmrEarly) {
				e.Errorf("before it is due a delayed post has the status %+v, %v", s, err)
			}
			got := w.Receive(w.SQ, nil)
			passed := time.Since(before)
			if got.Messages[0].ID != id || len(got.Messages) != 1 {
				e.Fatalf("received %s, want the delayed post", describe(got.Messages))
			}
			if passed < d-tmrEarly || passed > d+queSlow {
				e.Errorf("a post with a delay of %v came after %v", d, passed)
			}
			e.Must(got.Ack(e.Ctx))
		}
	}

	// One that was rolled back does not come; neither delay nor a time that has
	// passed delay anything.
	undo := errors.New("undo")
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("undone")}, parley.After(20*time.Millisecond))
		return errors.Join(undo, err)
	}), undo)
	w.post(w.SQ, "delayed", parley.After(150*time.Millisecond))
	w.post(w.CQ, "no delay", parley.After(0))
	postWant(w, w.CQ, "no delay")
	w.post(w.CQ, "passed", parley.At(time.Now().Add(-time.Hour)))
	postWant(w, w.CQ, "passed")
	postWant(w, w.SQ, "delayed")
	w.Nothing(w.SQ, nil)
}

func checkDelayedKey(e *Env) {
	w := e.World()
	const d = 300 * time.Millisecond
	key := parley.Key("key")
	before := time.Now()
	w.post(w.SQ, "late", key, parley.After(d))
	w.post(w.SQ, "later", key, parley.After(2*d))
	w.post(w.SQ, "early", key) // does not wait for those posted before it
	first := w.Receive(w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
	if got := Bodies(first.Messages); got[0] != "early" {
		e.Fatalf("received %q first, want the post that is not delayed", got)
	}
	e.Must(first.Rollback(e.Ctx))

	// It stays unread until the next has joined the order behind it.
	if !e.Soon(5*time.Second, func() bool {
		d := w.Receive(w.SQ, nil)
		defer d.Close()
		return len(d.Messages) >= 2
	}) {
		e.Fatalf("a delayed post of %v did not join its key's order within 5 s", d)
	}
	if passed := time.Since(before); passed < d-tmrEarly {
		e.Errorf("a post with a delay of %v was there after %v", d, passed)
	}
	postWant(w, w.SQ, "early", "late", "later")
	if passed := time.Since(before); passed < 2*d-tmrEarly {
		e.Errorf("a post with a delay of %v came after %v", 2*d, passed)
	}
}

func checkDelayedKeyHeld(e *Env) {
	w := e.World()
	key := parley.Key("key")
	const d = 150 * time.Millisecond
	for _, hold := range e.Holds() {
		w.post(w.SQ, "1", key)
		got := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		id := w.post(w.SQ, "2", key, parley.After(d))
		if !e.Soon(5*time.Second, func() bool {
			w.Nothing(w.SQ, nil) // this does what is due, and the key is held
			s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
			return err == nil && s.State == "pending"
		}) {
			e.Fatalf("a delayed post of %v did not join the order of its key, which is held, within 5 s", d)
		}
		w.post(w.SQ, "3", key)
		e.Must(got.Rollback(e.Ctx))
		postWant(w, w.SQ, "1", "2", "3")
	}
}
