package backendtest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

const benchTasks, benchPhases = 10_000, 100

// benchSchedule: 10 000 tasks in 100 phases, a handler that does nothing, 8
// workers.
func benchSchedule(b *bencher) {
	b.must(b.broker.Migrate(b.ctx))
	var took time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		s := b.schedule()
		b.submit(s, benchTasks, func(i int) int { return i % benchPhases })
		took += b.runTasks(benchTasks)
	}
	b.ReportMetric(float64(benchTasks*rounds)/took.Seconds(), "tasks/s")
}

// benchScheduleWaiting is benchSchedule with a million tasks in a later phase, and
// then 10 000 of that phase.
func benchScheduleWaiting(b *bencher) {
	const waiting = 1_000_000
	b.must(b.broker.Migrate(b.ctx))
	s := b.schedule()
	b.submit(s, waiting, func(int) int { return benchPhases })
	b.submit(s, benchTasks, func(i int) int { return i % benchPhases })
	for b.Loop() {
		before := b.runTasks(benchTasks)
		same := b.runTasks(benchTasks)
		b.ReportMetric(benchTasks/before.Seconds(), "tasks/s-before")
		b.ReportMetric(benchTasks/same.Seconds(), "tasks/s-in-it")
	}
}

func (b *bencher) schedule() *phases.Plan {
	s, err := phases.Open(b.ctx, b.broker, parley.NewID().String(), nil)
	b.must(err)
	return s
}

func (b *bencher) submit(s *phases.Plan, n int, phase func(i int) int) {
	for from := 0; from < n; from += 10_000 {
		tasks := make([]phases.Task, min(10_000, n-from))
		for i := range tasks {
			tasks[i] = phases.Task{Phase: phase(from + i), Type: "nothing"}
		}
		b.must(s.Submit(b.ctx, tasks...))
	}
}

// runTasks has a pool of 8 workers run n tasks, and says how long that takes.
func (b *bencher) runTasks(n int64) time.Duration {
	var done atomic.Int64
	over := make(chan struct{})
	pool, err := phases.NewPool(b.broker, phases.Handlers{"nothing": func(context.Context, *phases.Running) error {
		if done.Add(1) == n {
			close(over)
		}
		return nil
	}}, &phases.PoolOptions{Workers: 8})
	b.must(err)
	start := time.Now()
	stop := b.beside(pool.Run)
	<-over
	took := time.Since(start)
	stop()
	return took
}
