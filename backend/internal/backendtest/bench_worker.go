package backendtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// benchDrain: 50 000 posts, a handler that does nothing, a worker's defaults.
func benchDrain(b *bencher) {
	const n = 50_000
	b.queue("q")
	var took time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		b.post("q", n, nil)
		var handled atomic.Int64
		w := sure.Of(b.broker.NewWorker("q", parley.HandlerFunc(func(context.Context, *parley.Message) error {
			handled.Add(1)
			return nil
		}), nil))
		took += timed(func() { b.must(w.Drain(b.ctx)) })
		if handled.Load() != n {
			b.Fatalf("%d messages handled of %d", handled.Load(), n)
		}
	}
	b.ReportMetric(float64(n*rounds)/took.Seconds(), "msgs/s")
}

// benchBurst: 1000 messages of 100 ms are committed in one transaction while a
// worker with 50 readers has nothing to do. Ideal are 2 s. The first burst finds a
// pool without connections, the second one has them.
func benchBurst(b *bencher) {
	b.queue("q")
	for b.Loop() {
		for _, what := range []string{"first", "next"} {
			busy, wall := b.burst(1000, 50, 100*time.Millisecond)
			b.ReportMetric(float64(busy.Milliseconds()), "ms-all-busy-"+what)
			b.ReportMetric(wall.Seconds(), "s-wall-"+what)
		}
	}
}

// burst says when all readers were at work, and when all was done, after the
// commit.
func (b *bencher) burst(n, readers int, work time.Duration) (busy, wall time.Duration) {
	var mu sync.Mutex
	var begun []time.Time
	done := 0
	over := make(chan struct{})
	stop := b.beside(sure.Of(b.broker.NewWorker("q", parley.HandlerFunc(func(context.Context, *parley.Message) error {
		mu.Lock()
		begun = append(begun, time.Now())
		mu.Unlock()
		time.Sleep(work)
		mu.Lock()
		defer mu.Unlock()
		if done++; done == n {
			close(over)
		}
		return nil
	}), &parley.WorkerOptions{MaxReaders: readers})).Run)
	defer stop()
	time.Sleep(time.Second) // until it waits
	b.post("q", n, nil)
	start := time.Now()
	<-over
	return begun[readers-1].Sub(start), time.Since(start)
}

// benchPoison: a thousand keys with ten messages each, and the same with one more
// key whose message always fails. Both in turns; the worker's defaults.
func benchPoison(b *bencher) {
	const keys, each, turns = 1000, 10, 3
	b.queue("q")
	var took [2]time.Duration
	rounds := 0
	for b.Loop() {
		for turn := range 2 * turns {
			rounds++
			own := parley.NewID().String() // of this turn
			b.post("q", keys*each, func(i int) string { return fmt.Sprint(own, i%keys) })
			with := turn % 2
			if with == 1 {
				b.must(b.broker.InTx(b.ctx, func(tx *parley.Tx) error {
					_, err := tx.Post(b.ctx, "q", parley.Payload{Body: []byte("poison")}, parley.Key(own+"poison"))
					return err
				}))
			}
			var done atomic.Int64
			over := make(chan struct{})
			start := time.Now()
			stop := b.beside(sure.Of(b.broker.NewWorker("q", parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
				if string(m.Body) == "poison" {
					return errors.New("it always fails")
				}
				if done.Add(1) == keys*each {
					close(over)
				}
				return nil
			}), nil)).Run)
			<-over
			took[with] += time.Since(start)
			stop()
		}
	}
	rate := func(d time.Duration) float64 { return float64(keys*each*rounds/2) / d.Seconds() }
	b.ReportMetric(rate(took[0]), "msgs/s-healthy")
	b.ReportMetric(rate(took[1]), "msgs/s-beside-poison")
	b.ReportMetric(rate(took[1])/rate(took[0]), "x-poison")
}
