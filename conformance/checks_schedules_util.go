package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
)

// schPool runs a pool on a broker of its own until the end of the check.
func schPool(e *Env, h parley.TaskHandlers, o parley.TaskPoolOptions) {
	pool, err := e.Broker(nil).NewTaskPool(h, &o)
	e.Must(err)
	ctx, stop := context.WithCancel(e.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	e.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			e.Errorf("a pool ended with %v", err)
		}
	})
}

// schOpen opens a schedule.
func schOpen(e *Env, b *parley.Broker, name string, o *parley.SchedulerOptions) *parley.Scheduler {
	s, err := b.OpenScheduler(e.Ctx, name, o)
	e.Must(err)
	return s
}

// schTasks makes one task for each phase.
func schTasks(phases ...int) (tasks []parley.Task) {
	for _, p := range phases {
		tasks = append(tasks, parley.Task{ID: parley.NewID(), Phase: p, Type: "task"})
	}
	return tasks
}

// schLog returns the log of a schedule.
func schLog(e *Env, s *parley.Scheduler) []parley.TaskStatus {
	log, err := s.Log(e.Ctx, parley.ID{}, 100000)
	e.Must(err)
	return log
}

// schInOrder looks for tasks that started before all of lower phases had ended.
func schInOrder(e *Env, log []parley.TaskStatus) {
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
func schWrite(ctx context.Context, t *parley.RunningTask) error {
	tx, err := t.Tx(ctx)
	if err != nil {
		return err
	}
	fresh, err := tx.Once(ctx, t.Schedule+" "+t.ID.String())
	if err != nil {
		return err
	}
	if !fresh {
		return parley.DeadTask(errors.New("its writes were committed before"))
	}
	return nil
}
