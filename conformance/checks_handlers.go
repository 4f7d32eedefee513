package conformance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

func init() {
	add(
		check{ID: "W05", Name: "handlers of groups", Run: checkGroupHandler},
		check{ID: "W06", Name: "a backlog in one of several queues", Run: checkSeveralQueues},
		check{ID: "W07", Name: "queues with weights", Run: checkWeights},
	)
}

func checkGroupHandler(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		bodies := numbered("%03d", 100)
		w.posts([]string{"a", "b", "c", "d", "e"}, bodies...)
		var mu sync.Mutex
		failed := make(map[string]string) // by key, the first body of the call that failed
		most := 0
		r := w.workWith(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 2, BatchTime: 5 * time.Second, Backoff: soonAgain}, parley.GroupFunc(func(ctx context.Context, ms []*parley.Message) error {
			// Not held while it writes: on a store with a single writer another batch
			// may have its turn, whose next handler waits here.
			mu.Lock()
			first := failed[ms[0].Key]
			most = max(most, len(ms))
			mu.Unlock()
			for i, m := range ms {
				if m.Group != ms[0].Group || i > 0 && m.Seq != ms[i-1].Seq+1 {
					e.Errorf("message %d of a call is %d of group %v, behind %d of group %v", i, m.Seq, m.Group, ms[max(i-1, 0)].Seq, ms[0].Group)
				}
				if want := string(m.Body) == first; want != (m.Attempt > 1) {
					e.Errorf("message %s has attempt %d; that it was the first of a call that failed: %t", m.Body, m.Attempt, want)
				}
				if err := w.effect(ctx, m); err != nil {
					return err
				}
			}
			if first == "" && len(ms) > 1 { // once for each group, when it has written everything
				mu.Lock()
				failed[ms[0].Key] = string(ms[0].Body)
				mu.Unlock()
				return errors.New("not this time")
			}
			return nil
		}))
		w.once(w.effects(100), bodies)
		r.Stop()
		if most < 2 || len(failed) == 0 {
			e.Errorf("no call was given more than %d messages", most)
		}
	}
}

func checkSeveralQueues(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		const backlog, few = 400, 5
		w.Tx(func(tx *parley.Tx) error {
			batch := make([]parley.Posting, backlog)
			for i := range batch {
				batch[i].Payload = parley.Payload{Type: w.Any}
			}
			_, err := tx.PostBatch(w.Ctx, w.CQ, batch)
			return err
		})
		var of, left atomic.Int64
		left.Store(-1)
		wk := sure.Of(w.B.NewWorker(w.CQ, parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			time.Sleep(2 * time.Millisecond)
			if len(m.Body) == 0 {
				of.Add(1)
			} else if string(m.Body) == "last" {
				left.CompareAndSwap(-1, backlog-of.Load())
			}
			return nil
		}), &parley.WorkerOptions{Hold: hold, MaxReaders: 1, Also: []string{w.SQ}}))
		ctx, stop := context.WithCancel(w.Ctx)
		over := make(chan error, 1)
		go func() { over <- wk.Run(ctx) }()
		e.Soon(10*time.Second, func() bool { return of.Load() > 20 })
		w.posts([]string{"k"}, append(numbered("%d", few-1), "last")...)
		if !e.Soon(20*time.Second, func() bool { return left.Load() >= 0 }) {
			e.Errorf("the second queue was not served")
		}
		stop()
		e.Must(<-over)
		// A batch takes 50 ms, so these are the batches of 20 messages that the
		// five may have to wait for, many times over.
		if n := left.Load(); n < backlog/4 {
			e.Errorf("%d messages waited until only %d of the %d in the other queue were left", few, n, backlog)
		}
		w.Drain(w.CQ)
	}
}

// checkWeights has one reader take one message at a time from two queues, of which the first has a
// fifth of the turns.
func checkWeights(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		const backlog, look = 120, 100
		for _, queue := range []string{w.CQ, w.SQ} {
			w.Tx(func(tx *parley.Tx) error {
				batch := make([]parley.Posting, backlog)
				for i := range batch {
					batch[i].Payload = parley.Payload{Type: w.Any}
				}
				_, err := tx.PostBatch(w.Ctx, queue, batch)
				return err
			})
		}
		ctx, stop := context.WithCancel(w.Ctx)
		var all, heavy atomic.Int64
		wk := sure.Of(w.B.NewWorker(w.CQ, parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
			n := all.Add(1)
			if n <= look && m.Queue == w.SQ {
				heavy.Add(1)
			}
			if n == look {
				stop()
			}
			return nil
		}), &parley.WorkerOptions{Hold: hold, MaxReaders: 1, MaxBatch: 1, Also: []string{w.SQ}, Weights: map[string]int{w.SQ: 4}}))
		e.Must(wk.Run(ctx))
		if all.Load() < look {
			e.Fatalf("the worker has handled %d messages, want %d", all.Load(), look)
		}
		if n := heavy.Load(); n < 70 || n > 90 {
			e.Errorf("%d of %d messages came from the queue that has four turns of five", n, look)
		}
		w.Drain(w.CQ)
		w.Drain(w.SQ)
	}
}
