package conformance

import (
	"bufio"
	"context"
	"errors"
	"sync"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

func checkPhaseOverlap(e *env) {
	s := schOpen(e, e.Broker(nil), e.Name("schedule"), nil)
	in := map[int]int{100: 4, 200: 2}
	var mu sync.Mutex
	all := map[int]chan struct{}{100: make(chan struct{}), 200: make(chan struct{})}
	handlers := phases.Handlers{"task": func(ctx context.Context, t *phases.Running) error {
		mu.Lock()
		if in[t.Phase]--; in[t.Phase] == 0 {
			close(all[t.Phase])
		}
		mu.Unlock()
		select {
		case <-all[t.Phase]: // all of the phase are in their handlers
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	schPool(e, handlers, phases.PoolOptions{Workers: 2, Plans: []string{s.Name()}})
	schPool(e, handlers, phases.PoolOptions{Workers: 2, Plans: []string{s.Name()}})
	e.Must(s.Submit(e.Ctx, schTasks(100, 200, 100, 100, 200, 100)...))
	e.Must(s.Wait(e.Ctx))
	log := schLog(e, s)
	if len(log) != 6 {
		e.Fatalf("the log has %d tasks, want 6", len(log))
	}
	schInOrder(e, log)
	for i, t := range log {
		if t.State != phases.StateDone || t.Attempts != 1 || t.Submitted.IsZero() || t.Owner == "" || t.Caller == "" {
			e.Errorf("task %d is %+v", i, t)
		}
		for _, u := range log {
			if u.Phase == t.Phase && (u.Ended.Before(t.Started) || t.Ended.Before(u.Started)) {
				e.Errorf("of one phase, a task ran from %v to %v and another from %v to %v", t.Started, t.Ended, u.Started, u.Ended)
			}
		}
	}
}

func init() {
	// works on schedules until it is killed; says what it begins.
	addRole("work on tasks", func(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
		pool, err := phases.NewPool(b, phases.Handlers{
			"slow": func(ctx context.Context, t *phases.Running) error {
				say("begin %d %d", t.Phase, t.Attempt)
				<-ctx.Done()
				return ctx.Err()
			},
			"write": schWrite,
		}, &phases.PoolOptions{Plans: args[:1], Lease: schLease, Workers: 4})
		if err != nil {
			return err
		}
		say("ready")
		return pool.Run(ctx)
	})
}

var errSkip = errors.New("rolled back")
