package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "F01", Name: "a phase runs at once, the next when it is over", Run: checkPhases},
		check{ID: "F01", Name: "a task that failed or was given back keeps later phases waiting", Run: checkPhaseFailed},
		check{ID: "F01", Name: "many workers keep to the phases", Run: checkPhaseWorkers},
		check{ID: "F01", Name: "handlers of a phase overlap", Run: checkPhaseOverlap},

		check{ID: "F02", Name: "gaps between phases", Run: checkPhaseGaps},

		check{ID: "F03", Name: "a later batch waits for an earlier one", Run: checkPhaseBatches},
		check{ID: "F03", Name: "a lower phase that comes later goes first, and schedules are apart", Run: checkPhaseLower},

		check{ID: "F04", Name: "cancelled tasks", Run: checkTaskCancelled},
		check{ID: "F04", Name: "the handler of a cancelled task", Run: checkTaskStopped},
		check{ID: "F04", Name: "a task that is busy when it is cancelled", Run: checkTaskStoppedBusy},

		check{ID: "F05", Name: "a task whose worker died runs again before later phases, and its worker has no say any more", Run: checkPhaseAbandoned},
		check{ID: "F05", Name: "a worker that was killed", Run: checkTaskKilled},

		check{ID: "F06", Name: "a task that is dead halts its schedule, or does not", Run: checkPhaseDead},
		check{ID: "F06", Name: "an operator retries or skips what is dead", Run: checkTaskRetried},

		check{ID: "F07", Name: "a task for a phase that is over is refused, or goes before what has not started", Run: checkPhaseLate},
		check{ID: "F07", Name: "a sealed schedule", Run: checkScheduleSealed},

		check{ID: "F08", Name: "a submission beside a claim", Run: checkSubmitBesideClaim},
		check{ID: "F08", Name: "submissions racing claims", Run: checkSubmitRacesClaim},

		check{ID: "F09", Name: "schedules take turns", Run: checkScheduleTurns},
		check{ID: "F09", Name: "tasks that wait occupy no worker", Run: checkTasksWait},

		check{ID: "F10", Name: "a task is done together with its writes", Run: checkTaskTx},
		check{ID: "F10", Name: "workers that are killed at any time", Run: checkTasksOnce, Limit: 2 * time.Minute},

		check{ID: "F11", Name: "waiting for a schedule", Run: checkScheduleWait},

		check{ID: "F12", Name: "no more than MaxActive", Run: checkMaxActive},
		check{ID: "F12", Name: "no more than MaxActive in several pools", Run: checkMaxActivePools},

		check{ID: "F13", Name: "each finished task once", Run: checkNextFinished},

		check{ID: "F14", Name: "a schedule that is released", Run: checkScheduleReleased},
	)
}

// tskTx runs f in a transaction of the backend's and commits it.
func tskTx(ctx context.Context, be backend.Backend, f func(tx backend.Tx) error) error {
	tx, err := be.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// tskSubmit adds one task for each phase given, named by phase and place.
func tskSubmit(e *env, be backend.Backend, schedule string, o backend.PlanOptions, phases ...int) {
	var tasks []backend.NewTask
	for i, p := range phases {
		tasks = append(tasks, backend.NewTask{ID: backend.NewID(), Phase: p, Type: "task", Body: fmt.Appendf(nil, "%d/%d", p, i)})
	}
	err := tskTx(e.Ctx, be, func(tx backend.Tx) error { return tx.Submit(e.Ctx, schedule, o, tasks) })
	e.Must(err)
}

// tskClaim claims up to n tasks of a schedule.
func tskClaim(ctx context.Context, be backend.Backend, schedule string, n int) (holds []backend.TaskHold, err error) {
	err = tskTx(ctx, be, func(tx backend.Tx) error {
		holds, err = tx.ClaimTasks(ctx, backend.TaskClaim{Plans: []string{schedule}, Max: n, Lease: time.Minute, Owner: "conformance"})
		return err
	})
	return holds, err
}

// tskWant claims all that may run now and compares their phases.
func tskWant(e *env, be backend.Backend, schedule, when string, phases ...int) []backend.TaskHold {
	holds, err := tskClaim(e.Ctx, be, schedule, 100)
	e.Must(err)
	var got []int
	for _, h := range holds {
		got = append(got, h.Phase)
		if h.Plan != schedule {
			e.Errorf("%s: a task of %q was claimed, want one of %q", when, h.Plan, schedule)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, phases) {
		e.Fatalf("%s: tasks of the phases %v may start, want %v", when, got, phases)
	}
	return holds
}

// tskFinish reports the outcome of a task.
func tskFinish(e *env, be backend.Backend, h backend.TaskHold, o backend.TaskOutcome) {
	e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error { return tx.FinishTask(e.Ctx, h, o) }))
}

var tskDone = backend.TaskOutcome{State: backend.TaskDone}

func checkPhases(e *env) {
	be, other := e.Handle(), e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.PlanOptions{}, 100, 200, 100, 100, 200, 100)

	// They may be in several hands at once.
	first, err := tskClaim(e.Ctx, other, s, 1)
	e.Must(err)
	holds := append(first, tskWant(e, be, s, "at the start, with one of four claimed", 100, 100, 100)...)
	seen := make(map[backend.ID]bool)
	for _, h := range holds {
		if h.Phase != 100 || seen[h.Task] {
			e.Fatalf("claimed task %s of phase %d, want four different ones of phase 100", h.Task, h.Phase)
		}
		seen[h.Task] = true
	}
	for i, h := range holds {
		tskWant(e, other, s, fmt.Sprintf("with %d of four tasks of the first phase done", i))
		tskFinish(e, be, h, tskDone)
	}
	for _, h := range tskWant(e, other, s, "after the first phase", 200, 200) {
		tskFinish(e, other, h, tskDone)
	}
	tskWant(e, be, s, "at the end")
}

func checkPhaseFailed(e *env) {
	be := e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.PlanOptions{MaxAttempts: 10}, 1, 2)
	h := tskWant(e, be, s, "at the start", 1)[0]
	tskFinish(e, be, h, backend.TaskOutcome{State: backend.TaskQueued})
	h = tskWant(e, be, s, "after the only task of the first phase was given back", 1)[0]
	tskFinish(e, be, h, backend.TaskOutcome{State: backend.TaskFailed, Error: "again", Delay: time.Hour})
	tskWant(e, be, s, "while a failed task of the first phase waits for its next attempt")

	s = e.Name("another schedule")
	tskSubmit(e, be, s, backend.PlanOptions{MaxAttempts: 10}, 1, 2)
	h = tskWant(e, be, s, "at the start", 1)[0]
	tskFinish(e, be, h, backend.TaskOutcome{State: backend.TaskFailed, Error: "again", Delay: 20 * time.Millisecond})
	var again []backend.TaskHold
	e.Soon(5*time.Second, func() bool {
		var err error
		again, err = tskClaim(e.Ctx, be, s, 100)
		e.Must(err)
		return len(again) > 0
	})
	if len(again) != 1 || again[0].Task != h.Task || again[0].Attempt <= h.Attempt {
		e.Fatalf("after a failed attempt of the first phase's task, %d, %+v was claimed, want its next attempt", h.Attempt, again)
	}
	tskFinish(e, be, again[0], tskDone)
	tskWant(e, be, s, "after the next attempt was done", 2)
}

func checkPhaseDead(e *env) {
	be := e.Handle()
	for _, goOn := range []bool{false, true} {
		s := e.Name(fmt.Sprint("schedule ", goOn))
		tskSubmit(e, be, s, backend.PlanOptions{Continue: goOn}, 1, 1, 2)
		holds := tskWant(e, be, s, "at the start", 1, 1)
		tskFinish(e, be, holds[0], backend.TaskOutcome{State: backend.TaskDead, Error: "it cannot be done"})
		tskWant(e, be, s, "while the other task of the first phase runs")
		tskFinish(e, be, holds[1], tskDone)
		if goOn {
			tskWant(e, be, s, "after a dead task in a schedule that goes on", 2)
		} else {
			tskWant(e, be, s, "after a dead task in a schedule that halts")
		}
	}
}

func checkPhaseAbandoned(e *env) {
	be := e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.PlanOptions{MaxAttempts: 10}, 1, 2)
	const lease = 250 * time.Millisecond
	var old []backend.TaskHold
	before := time.Now()
	e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) (err error) {
		old, err = tx.ClaimTasks(e.Ctx, backend.TaskClaim{Plans: []string{s}, Max: 10, Lease: lease, Owner: "conformance"})
		return err
	}))
	if len(old) != 1 {
		e.Fatalf("claimed %+v, want the one task of the first phase", old)
	}
	var again []backend.TaskHold
	e.Soon(lease+5*time.Second, func() bool {
		var err error
		again, err = tskClaim(e.Ctx, be, s, 10)
		e.Must(err)
		return len(again) > 0
	})
	if len(again) != 1 || again[0].Task != old[0].Task || again[0].Fence <= old[0].Fence {
		e.Fatalf("after the lease of %+v was over, %+v was claimed, want the same task with a higher fence", old[0], again)
	}
	if passed := time.Since(before); passed < lease-tmrEarly {
		e.Errorf("a task that was claimed for %v was claimed anew after %v", lease, passed)
	}

	for what, f := range map[string]func(tx backend.Tx) error{
		"lock it":   func(tx backend.Tx) error { return tx.LockTask(e.Ctx, old[0]) },
		"finish it": func(tx backend.Tx) error { return tx.FinishTask(e.Ctx, old[0], tskDone) },
	} {
		if err := tskTx(e.Ctx, be, f); !errors.Is(err, backend.ErrFenced) {
			e.Errorf("a worker whose task is in other hands tried to %s and got %v, want %v", what, err, backend.ErrFenced)
		}
	}
	if _, err := be.ExtendTasks(e.Ctx, old, time.Minute); !errors.Is(err, backend.ErrFenced) {
		e.Errorf("a worker whose task is in other hands tried to extend it and got %v, want %v", err, backend.ErrFenced)
	}
	tskWant(e, be, s, "while the task of the first phase is in other hands")
	_, err := be.ExtendTasks(e.Ctx, again, time.Minute)
	e.Must(err)
	tskFinish(e, be, again[0], tskDone)
	tskWant(e, be, s, "after the first phase", 2)
}

func checkPhaseLate(e *env) {
	be := e.Handle()
	for _, accept := range []bool{false, true} {
		s := e.Name(fmt.Sprint("schedule ", accept))
		tskSubmit(e, be, s, backend.PlanOptions{AcceptLate: accept}, 200, 200)
		first, err := tskClaim(e.Ctx, be, s, 1)
		e.Must(err)
		if len(first) != 1 {
			e.Fatalf("claimed %d tasks, want one", len(first))
		}
		err = tskTx(e.Ctx, be, func(tx backend.Tx) error {
			return tx.Submit(e.Ctx, s, backend.PlanOptions{AcceptLate: accept}, []backend.NewTask{
				{ID: backend.NewID(), Phase: 300, Type: "task"}, {ID: backend.NewID(), Phase: 100, Type: "task"},
			})
		})
		if !accept {
			e.Is(err, backend.ErrPhaseClosed)
			holds := tskWant(e, be, s, "after a late task was refused", 200)
			for _, h := range append(first, holds...) {
				tskFinish(e, be, h, tskDone)
			}
			tskWant(e, be, s, "after a call with a late task was refused and the rest is done")
			continue
		}
		e.Must(err)
		late := tskWant(e, be, s, "after a late task was accepted", 100)[0]
		tskFinish(e, be, late, tskDone)
		rest := tskWant(e, be, s, "after the late task", 200)
		tskWant(e, be, s, "while tasks of phase 200 run")
		for _, h := range append(first, rest...) {
			tskFinish(e, be, h, tskDone)
		}
		tskWant(e, be, s, "after phase 200", 300)
	}
}

func checkPhaseWorkers(e *env) {
	handles := []backend.Backend{e.Handle(), e.Handle()}
	s := e.Name("schedule")
	const phases, each = 4, 8
	var all []int
	for p := range phases {
		for range each {
			all = append(all, 10*p)
		}
	}
	tskSubmit(e, handles[0], s, backend.PlanOptions{}, all...)

	var mu sync.Mutex
	started := make(map[backend.ID]bool)
	over := make(map[int]int) // phase -> tasks that are about to be finished
	var wg sync.WaitGroup
	for i := range 4 {
		be := handles[i%2]
		wg.Go(func() {
			for {
				mu.Lock()
				all := over[10*(phases-1)] == each
				mu.Unlock()
				if all || e.Ctx.Err() != nil {
					return
				}
				holds, err := tskClaim(e.Ctx, be, s, 1+i)
				if errors.Is(err, backend.ErrSerialization) {
					continue
				}
				if err != nil {
					e.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				for _, h := range holds {
					if started[h.Task] {
						e.Errorf("task %s started twice", h.Task)
					}
					started[h.Task] = true
					for p := 0; p < h.Phase; p += 10 {
						if over[p] != each {
							e.Errorf("a task of phase %d started when %d of %d tasks of phase %d were over", h.Phase, over[p], each, p)
						}
					}
				}
				mu.Unlock()
				for _, h := range holds {
					mu.Lock()
					over[h.Phase]++
					mu.Unlock()
					for {
						err = tskTx(e.Ctx, be, func(tx backend.Tx) error {
							if err := tx.LockTask(e.Ctx, h); err != nil {
								return err
							}
							return tx.FinishTask(e.Ctx, h, tskDone)
						})
						if !errors.Is(err, backend.ErrSerialization) || e.Ctx.Err() != nil {
							break
						}
					}
					if err != nil {
						e.Errorf("finish: %v", err)
						return
					}
				}
				if len(holds) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	if len(started) != phases*each {
		e.Errorf("%d of %d tasks started", len(started), phases*each)
	}
}

func checkPhaseGaps(e *env) {
	be := e.Handle()
	s := e.Name("schedule")
	phases := []int{-7, 0, 100, 300, math.MaxInt32}
	tskSubmit(e, be, s, backend.PlanOptions{}, phases...)
	for _, p := range phases {
		h := tskWant(e, be, s, fmt.Sprintf("of %v, where all before %d are over", phases, p), p)[0]
		tskWant(e, be, s, fmt.Sprintf("while the task of phase %d runs", p))
		tskFinish(e, be, h, tskDone)
	}
	tskWant(e, be, s, "at the end")
}

func checkPhaseBatches(e *env) {
	be, other := e.Handle(), e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.PlanOptions{}, 100, 100)
	tskSubmit(e, other, s, backend.PlanOptions{}, 300)
	running := tskWant(e, be, s, "at the start", 100, 100)
	tskSubmit(e, other, s, backend.PlanOptions{}, 200, 100, 300) // while the first run
	more := tskWant(e, other, s, "after a batch with another task of the running phase", 100)
	for i, h := range append(running, more...) {
		tskWant(e, be, s, fmt.Sprintf("with %d of three tasks of the first phase done", i))
		tskFinish(e, be, h, tskDone)
	}
	h := tskWant(e, other, s, "after the first phase", 200)[0]
	tskFinish(e, be, h, tskDone)
	tskWant(e, be, s, "after the second phase", 300, 300)
}

func checkPhaseLower(e *env) {
	be, other := e.Handle(), e.Handle()
	s, apart := e.Name("schedule"), e.Name("another schedule")
	tskSubmit(e, be, s, backend.PlanOptions{}, 300)
	tskSubmit(e, other, s, backend.PlanOptions{}, 100) // nothing has started: in time
	tskSubmit(e, be, apart, backend.PlanOptions{}, 200)
	h := tskWant(e, be, s, "after a lower phase was submitted", 100)[0]
	tskWant(e, be, apart, "of a schedule of its own", 200)
	tskFinish(e, be, h, tskDone)
	tskWant(e, other, s, "after the lower phase", 300)
}
