package conformance

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

func init() {
	add(check{ID: "X18", Name: "traces of deaths", Run: checkTraces})
}

// deadLease is the lease of workers that die. Others wait for its end, and even on a busy machine
// no live worker may lose it.
const deadLease = time.Second

// die runs a worker on a separate handle until its handler gets the body, and
// has the process die there. It returns the message as it was delivered.
func (w *world) die(hold parley.Hold, body string) parley.Message {
	b, f := w.frail(nil)
	got := make(chan parley.Message, 1)
	r := w.work(b, &parley.WorkerOptions{Hold: hold, Lease: deadLease, MaxReaders: 4}, func(ctx context.Context, m *parley.Message) error {
		if err := w.effect(ctx, m); err != nil {
			return err
		}
		if string(m.Body) == body {
			f.Die()
			got <- *m
		}
		return nil
	})
	defer r.stop()
	select {
	case m := <-got:
		r.stop()
		<-r.end
		return m
	case <-time.After(slow.By(20 * time.Second)):
		w.late()
		w.Fatalf("%q was not delivered within %v", body, slow.By(20*time.Second))
		return parley.Message{}
	}
}

// traced reports whether a record of a worker names the message.
func (w *world) traced(message parley.ID) bool {
	list, err := w.B.Admin().Workers(w.Ctx)
	w.Must(err)
	return slices.ContainsFunc(list, func(s parley.WorkerStatus) bool { return slices.Contains(s.InHand, message) })
}

func checkTraces(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		bodies := numbered("%03d", 10)
		w.posts(nil, bodies...)
		suspect := w.die(hold, bodies[5])
		// The next one dies when it has committed the message.
		b, f := e.frail(nil)
		var handled atomic.Bool
		committed := make(chan struct{})
		f.AfterCommit = func() {
			if handled.CompareAndSwap(true, false) {
				f.Die()
				close(committed)
			}
		}
		r := w.work(b, &parley.WorkerOptions{Hold: hold, Lease: deadLease, MaxReaders: 1}, func(ctx context.Context, m *parley.Message) error {
			err := w.effect(ctx, m)
			if m.ID == suspect.ID {
				handled.Store(true)
			}
			return err
		})
		select {
		case <-committed:
		case <-time.After(slow.By(20 * time.Second)):
			w.late()
			w.Errorf("the message was not handled")
		}
		if w.traced(suspect.ID) {
			e.Errorf("what became of the message is committed, and a record of a worker still names it")
		}
		r.stop()
		<-r.end
		r = w.work(e.Broker(nil), &parley.WorkerOptions{Hold: hold, Lease: deadLease}, w.effect)
		w.once(w.effects(10), bodies)
		r.Stop()
	}
}
