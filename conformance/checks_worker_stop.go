package conformance

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

func init() {
	add(
		check{ID: "W04", Name: "stopping", Run: checkStop},
		check{ID: "W04", Name: "handlers that do not stop by themselves", Run: checkStopByForce},
		check{ID: "W04", Name: "closing the Broker beside its workers", Run: checkCloseBesideWorkers},
	)
}

func checkStop(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		g := newGate()
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 2}, func(ctx context.Context, m *parley.Message) error {
			if err := g.pass(ctx); err != nil {
				return err
			}
			return w.effect(ctx, m)
		})
		bodies := numbered("%03d", 10)
		w.posts(nil, bodies...)
		e.Soon(10*time.Second, func() bool { return g.inside() == 2 })
		r.stop()
		time.Sleep(50 * time.Millisecond)
		select {
		case err := <-r.end:
			e.Errorf("the worker ended before its handlers: %v", err)
		default:
		}
		close(g.open)
		if err := <-r.end; err != nil {
			e.Errorf("the worker ended with %v", err)
		}
		done, left := w.depth(w.CQ), w.depth(w.SQ)
		if done < 2 || done+left != 10 {
			e.Errorf("%d messages were handled and %d are left, want 10 in all and 2 that were allowed to finish", done, left)
		}
		wk := sure.Of(w.B.NewWorker(w.SQ, parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			if m.Attempt != 1 {
				e.Errorf("a message that was given back is at attempt %d", m.Attempt)
			}
			return w.effect(ctx, m)
		}), nil))
		e.Must(wk.Drain(e.Ctx))
		w.once(w.effects(10), bodies)
	}
}

func checkStopByForce(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		cause := make(chan error, 10)
		g := newGate()
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, Grace: 50 * time.Millisecond}, func(ctx context.Context, m *parley.Message) error {
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			err := g.pass(ctx)
			cause <- err
			return err
		})
		w.posts(nil, "only")
		e.Soon(10*time.Second, func() bool { return g.inside() == 1 })
		start := time.Now()
		r.Stop()
		e.Within(20*time.Second, time.Since(start), "a worker with a grace of 50 ms stopped after %v")
		e.Is(<-cause, parley.ErrStopped)
		if n := w.depth(w.CQ); n != 0 {
			e.Errorf("%d effects of an interrupted handler were committed", n)
		}
		d := w.Receive(w.SQ, nil)
		if d.Messages[0].Attempt != 1 {
			e.Errorf("an interrupted message is at attempt %d, want 1", d.Messages[0].Attempt)
		}
		e.Must(d.Ack(e.Ctx))
	}
}

// checkCloseBesideWorkers closes a Broker whose worker is busy. One of the handlers does not
// look at its context. What none of them has handled is free as soon as Close has returned.
func checkCloseBesideWorkers(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		busy := e.Broker(nil)
		g, deaf := newGate(), make(chan struct{})
		var begun atomic.Int64
		r := w.work(busy, &parley.WorkerOptions{Hold: hold, MaxReaders: 5, MaxBatch: 20}, func(ctx context.Context, m *parley.Message) error {
			switch n := begun.Add(1); {
			case n == 12:
				<-deaf
			case n > 10:
				if err := g.pass(ctx); err != nil {
					return err
				}
			}
			return w.effect(ctx, m)
		})
		bodies := numbered("%03d", 80)
		w.posts(bodies, bodies...)
		if !e.Soon(30*time.Second, func() bool { return begun.Load() >= 12 && g.inside() > 0 }) {
			e.Fatalf("%d handlers have begun", begun.Load())
		}
		start := time.Now()
		e.Must(busy.Close())
		e.Within(20*time.Second, time.Since(start), "a Broker whose handler does not return was closed after %v")
		start = time.Now()
		close(deaf)
		wk := sure.Of(w.B.NewWorker(w.SQ, parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			if m.Attempt != 1 {
				e.Errorf("message %q, which was given back, is at attempt %d", m.Body, m.Attempt)
			}
			return w.effect(ctx, m)
		}), nil))
		e.Must(wk.Drain(e.Ctx))
		if left := w.depth(w.SQ); left > 0 {
			e.Errorf("%d messages cannot be received when Close has returned", left)
		}
		w.once(w.effects(80), bodies)
		e.Within(w.B.Options().Lease/2, time.Since(start), "what a closed Broker had in hand was free after %v")
		<-r.end
	}
}
