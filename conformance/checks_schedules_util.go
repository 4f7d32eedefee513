package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

// schPool runs a pool on a separate broker until the end of the check.
func schPool(e *env, h phases.Handlers, o phases.PoolOptions) {
	pool, err := phases.NewPool(e.Broker(nil), h, &o)
	e.Must(err)
	ctx, stop := context.WithCancel(e.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	e.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			e.Errorf("a pool ended with %v", err)
		}
	})
}

// schOpen opens a schedule.
func schOpen(e *env, b *parley.Broker, name string, o *phases.Options) *phases.Plan {
	s, err := phases.Open(e.Ctx, b, name, o)
	e.Must(err)
	return s
}

// schTasks makes one task for each phase.
func schTasks(numbers ...int) (tasks []phases.Task) {
	for _, p := range numbers {
		tasks = append(tasks, phases.Task{ID: parley.NewID(), Phase: p, Type: "task"})
	}
	return tasks
}

// schLog returns the log of a schedule.
func schLog(e *env, s *phases.Plan) []phases.TaskStatus {
	log, err := s.Log(e.Ctx, parley.ID{}, 100000)
	e.Must(err)
	return log
}

// schInOrder looks for tasks that started before all of lower phases had ended.
func schInOrder(e *env, log []phases.TaskStatus) {
	for _, t := range log {
		for _, u := range log {
			if u.Phase < t.Phase && (u.Ended.IsZero() || !t.Started.IsZero() && t.Started.Before(u.Ended)) {
				e.Fatalf("a task of phase %d started at %v, one of phase %d ended at %v", t.Phase, t.Started, u.Phase, u.Ended)
			}
		}
	}
}

// schLease is the lease of tasks in children.
const schLease = 500 * time.Millisecond

// schWrite records its task in the task's transaction. A key that is there
// already shows that it was recorded before.
func schWrite(ctx context.Context, t *phases.Running) error {
	tx, err := t.Tx(ctx)
	if err != nil {
		return err
	}
	fresh, err := tx.Once(ctx, t.Plan+" "+t.ID.String())
	if err != nil {
		return err
	}
	if !fresh {
		return phases.Dead(errors.New("its writes were committed before"))
	}
	return nil
}
