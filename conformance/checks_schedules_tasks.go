package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/phases"
)

func checkTaskCancelled(e *env) {
	be := e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.PlanOptions{}, 100, 100, 200, 200, 300)
	running := tskWant(e, be, s, "at the start", 100, 100)
	log, err := be.TaskLog(e.Ctx, backend.TaskQuery{Plan: s, Limit: 10})
	e.Must(err)
	cancel := func(id backend.ID, want int) {
		e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error {
			n, _, err := tx.Control(e.Ctx, s, backend.PlanCancel, id)
			if err == nil && n != want {
				e.Errorf("%d tasks were cancelled, want %d", n, want)
			}
			return err
		}))
	}
	cancel(log[2].ID, 1)
	cancel(log[3].ID, 1)
	cancel(log[3].ID, 0)
	tskWant(e, be, s, "after all of phase 200 were cancelled, while phase 100 runs")

	// Workers of running tasks are told.
	stop, err := be.ExtendTasks(e.Ctx, running, time.Minute)
	e.Must(err)
	if len(stop) != 0 {
		e.Errorf("%d workers are told to stop whose tasks were not cancelled", len(stop))
	}
	cancel(running[0].Task, 0)
	stop, err = be.ExtendTasks(e.Ctx, running, time.Minute)
	e.Must(err)
	if !slices.Equal(stop, []backend.ID{running[0].Task}) {
		e.Errorf("told to stop are %v, want the task that was cancelled, %v", stop, running[0].Task)
	}
	tskWant(e, be, s, "while a task that was told to stop still runs")
	tskFinish(e, be, running[0], backend.TaskOutcome{State: backend.TaskCancelled})
	tskWant(e, be, s, "while the other of phase 100 still runs")
	tskFinish(e, be, running[1], tskDone)
	tskWant(e, be, s, "after phase 100 ended and phase 200 was cancelled", 300)
}

func checkTaskStopped(e *env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), nil)
	started := make(chan struct{})
	causes := make(chan error, 1)
	schPool(e, phases.Handlers{"task": func(ctx context.Context, t *phases.Running) error {
		if e.ManyWriters() { // its row is locked while it works
			if _, err := t.Tx(ctx); err != nil {
				return err
			}
		}
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}}, phases.PoolOptions{Plans: []string{s.Name()}, Lease: 3 * time.Second})
	e.Must(s.Submit(e.Ctx, schTasks(1, 2)...))
	<-started
	asked := time.Now()
	n, err := s.Cancel(e.Ctx)
	e.Must(err)
	if n != 1 {
		e.Errorf("%d waiting tasks were cancelled, want 1", n)
	}
	e.Is(<-causes, phases.ErrCancelled)
	e.Within(2*time.Second, time.Since(asked), "the handler was told after %v")
	e.Must(s.Wait(e.Ctx))
	for _, t := range schLog(e, s) {
		if t.State != phases.StateCancelled {
			e.Errorf("a task of phase %d is %s, want it cancelled", t.Phase, t.State)
		}
	}
}

// checkTaskStoppedBusy cancels a task while a transaction has its row, as that of a
// heartbeat has it, or of a worker whose commit fails.
func checkTaskStoppedBusy(e *env) {
	be := e.Handle()
	s := schOpen(e, e.Broker(nil), e.Name("schedule"), nil)
	e.Must(s.Submit(e.Ctx, schTasks(1, 2)...))
	running := tskWant(e, be, s.Name(), "at the start", 1)[0]
	done := make(chan error, 1)
	err := tskTx(e.Ctx, be, func(tx backend.Tx) error {
		if err := tx.FinishTask(e.Ctx, running, tskDone); err != nil {
			return err
		}
		go func() {
			_, err := s.Cancel(e.Ctx)
			done <- err
		}()
		// Where it can, it has cancelled the other by now, and come upon this one.
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if schLog(e, s)[1].State == phases.StateCancelled {
				break
			}
		}
		return errUndo
	})
	e.Is(err, errUndo)
	e.Must(<-done)
	var stop []backend.ID
	e.Soon(20*time.Second, func() bool { // when maintenance has looked at the request
		stop, err = be.ExtendTasks(e.Ctx, []backend.TaskHold{running}, time.Minute)
		e.Must(err)
		return len(stop) > 0
	})
	if !slices.Equal(stop, []backend.ID{running.Task}) {
		e.Errorf("told to stop are %v, want the task that was cancelled while a transaction had its row, %v", stop, running.Task)
	}
	tskFinish(e, be, running, backend.TaskOutcome{State: backend.TaskCancelled})
}

func checkTaskKilled(e *env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), nil)
	tasks := schTasks(100, 100, 200)
	for i := range tasks {
		tasks[i].Type = "slow"
	}
	e.Must(s.Submit(e.Ctx, tasks...))
	child := e.Child("work on tasks", s.Name())
	if line := child.Hear(); line != "ready" {
		e.Fatalf("the child says %q", line)
	}
	for range 2 {
		if line := child.Hear(); line != "begin 100 1" {
			e.Fatalf("the child says %q", line)
		}
	}
	child.Kill()
	killed := time.Now()
	schPool(e, phases.Handlers{"slow": func(ctx context.Context, t *phases.Running) error {
		if t.Phase == 100 && t.Attempt < 2 {
			e.Errorf("a task of the killed worker is at attempt %d", t.Attempt)
		}
		return nil
	}}, phases.PoolOptions{Plans: []string{s.Name()}})
	e.Must(s.Wait(e.Ctx))
	e.Within(schLease+2*queSlow, time.Since(killed), "the tasks of a worker that was killed were done after %v")
	log := schLog(e, s)
	schInOrder(e, log)
	for _, t := range log {
		if t.State != phases.StateDone || t.Attempts != map[int]int{100: 2, 200: 1}[t.Phase] {
			e.Errorf("a task of phase %d is %s after %d attempts", t.Phase, t.State, t.Attempts)
		}
	}
}

func checkTaskRetried(e *env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &phases.Options{MaxAttempts: 2})
	var mu sync.Mutex
	broken := true
	tries := make(map[int]int)
	schPool(e, phases.Handlers{"task": func(ctx context.Context, t *phases.Running) error {
		mu.Lock()
		defer mu.Unlock()
		tries[t.Phase]++
		if broken && t.Phase == 1 {
			return errors.New("the file is missing")
		}
		return nil
	}}, phases.PoolOptions{Plans: []string{s.Name()}, Backoff: func(int) time.Duration { return 10 * time.Millisecond }})
	e.Must(s.Submit(e.Ctx, schTasks(1, 1, 2)...))
	err := s.Wait(e.Ctx)
	e.Is(err, phases.ErrHalted)
	var halted *phases.HaltedError
	if !errors.As(err, &halted) || halted.Plan != s.Name() || halted.Reason != "the file is missing" {
		e.Errorf("Wait says %v", err)
	}
	status, err := s.Status(e.Ctx)
	e.Must(err)
	if !status.Halted || status.Phase != 2 || status.Error != "the file is missing" || status.Counts[phases.StateDead] != 2 {
		e.Errorf("the status is %+v", status)
	}
	mu.Lock()
	if tries[1] != 4 || tries[2] != 0 {
		e.Errorf("tries of phases 1 and 2: %d and %d, want 4 and 0", tries[1], tries[2])
	}
	broken = false
	mu.Unlock()

	dead := schLog(e, s)[0].ID
	n, err := s.Retry(e.Ctx, dead)
	e.Must(err)
	if n != 1 {
		e.Errorf("%d tasks are retried, want 1", n)
	}
	e.Is(s.Wait(e.Ctx), phases.ErrHalted) // the other
	n, err = s.Skip(e.Ctx)
	e.Must(err)
	if n != 1 {
		e.Errorf("%d tasks are skipped, want 1", n)
	}
	e.Must(s.Wait(e.Ctx))
	var states []phases.State
	for _, t := range schLog(e, s) {
		states = append(states, t.State)
	}
	if !slices.Equal(states, []phases.State{phases.StateDone, phases.StateSkipped, phases.StateDone}) {
		e.Errorf("the states are %v", states)
	}
}

func checkTasksWait(e *env) {
	b := e.Broker(nil)
	slow, quick := schOpen(e, b, e.Name("slow"), nil), schOpen(e, b, e.Name("quick"), nil)
	numbers := make([]int, 1000)
	for i := range numbers {
		numbers[i] = 1 + i%7
	}
	tasks := schTasks(append(numbers, 0)...)
	tasks[1000].Type = "slow"
	e.Must(slow.Submit(e.Ctx, tasks...))
	begun, release := make(chan struct{}), make(chan struct{})
	schPool(e, phases.Handlers{
		"slow": func(ctx context.Context, t *phases.Running) error {
			close(begun)
			<-release
			return nil
		},
		"task": func(ctx context.Context, t *phases.Running) error {
			if t.Plan == slow.Name() {
				e.Errorf("a task of phase %d started while phase 0 runs", t.Phase)
			}
			return nil
		},
	}, phases.PoolOptions{Workers: 3, Plans: []string{slow.Name(), quick.Name()}})
	e.Cleanup(func() { close(release) })
	<-begun
	start := time.Now()
	e.Must(quick.Submit(e.Ctx, schTasks(1, 2, 3)...))
	e.Must(quick.Wait(e.Ctx))
	e.Within(queSlow, time.Since(start), "three short tasks took %v beside a schedule that waits")
	if n, err := slow.Cancel(e.Ctx); err != nil || n != 1000 {
		e.Errorf("%d waiting tasks were cancelled, %v, want 1000", n, err)
	}
}

func checkTaskTx(e *env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &phases.Options{MaxAttempts: 3})
	fail := make(chan error, 10)
	fail <- errors.New("the first time it fails")
	schPool(e, phases.Handlers{"task": func(ctx context.Context, t *phases.Running) error {
		if err := schWrite(ctx, t); err != nil {
			return err
		}
		select {
		case err := <-fail:
			return err
		default:
			return nil
		}
	}}, phases.PoolOptions{Plans: []string{s.Name()}, Backoff: func(int) time.Duration { return 0 }})
	e.Must(s.Submit(e.Ctx, schTasks(1)...))
	e.Must(s.Wait(e.Ctx)) // had the first attempt's write stayed, the second would fail
	if t := schLog(e, s)[0]; t.Attempts != 2 || t.State != phases.StateDone {
		e.Errorf("the task is %s after %d attempts", t.State, t.Attempts)
	}

	// A worker that has lost its task without knowing.
	be := e.Handle()
	name := e.Name("lost")
	tskSubmit(e, be, name, backend.PlanOptions{MaxAttempts: 5}, 1)
	var old []backend.TaskHold
	e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) (err error) {
		old, err = tx.ClaimTasks(e.Ctx, backend.TaskClaim{Plans: []string{name}, Max: 1, Lease: 50 * time.Millisecond, Owner: "conformance"})
		return err
	}))
	if len(old) != 1 {
		e.Fatalf("claimed %d tasks, want one", len(old))
	}
	var again []backend.TaskHold
	if !e.Soon(5*time.Second, func() bool {
		var err error
		again, err = tskClaim(e.Ctx, be, name, 1)
		e.Must(err)
		return len(again) == 1
	}) {
		e.Fatalf("a task whose lease is over is not claimed again")
	}
	effect := func(h backend.TaskHold) error {
		return tskTx(e.Ctx, be, func(tx backend.Tx) error {
			if err := tx.LockTask(e.Ctx, h); err != nil {
				return err
			}
			fresh, err := tx.Once(e.Ctx, name, time.Hour)
			if err == nil && !fresh {
				e.Errorf("the writes of a task were committed twice")
			}
			if err != nil {
				return err
			}
			return tx.FinishTask(e.Ctx, h, tskDone)
		})
	}
	e.Is(effect(old[0]), backend.ErrFenced)
	e.Must(effect(again[0]))
	e.Is(effect(old[0]), backend.ErrFenced)
	e.Is(effect(again[0]), backend.ErrFenced)
	lost, err := []backend.ID(nil), error(nil)
	e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error {
		lost, err = tx.FinishTasks(e.Ctx, []backend.TaskEnd{{Hold: old[0], Outcome: tskDone}, {Hold: again[0], Outcome: tskDone}})
		return err
	}))
	if len(lost) != 2 {
		e.Errorf("of two tasks that were over before %d are told as lost", len(lost))
	}
}

// checkTasksOnce kills workers at random times until all tasks are done.
func checkTasksOnce(e *env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &phases.Options{MaxAttempts: 100})
	const each = 40
	var numbers []int
	for i := range 4 * each {
		numbers = append(numbers, i/each)
	}
	tasks := schTasks(numbers...)
	for i := range tasks {
		tasks[i].Type = "write"
	}
	child := e.Child("work on tasks", s.Name())
	child.Hear()
	e.Must(s.Submit(e.Ctx, tasks...))
	deaths := 0
	for ; ; deaths++ {
		time.Sleep(time.Duration(3+7*deaths%40) * time.Millisecond)
		child.Kill()
		p, err := s.Progress(e.Ctx)
		e.Must(err)
		if p.Over || p.Halted {
			break
		}
		if deaths == 8 {
			schPool(e, phases.Handlers{"write": schWrite}, phases.PoolOptions{Plans: []string{s.Name()}})
			e.Must(s.Wait(e.Ctx))
			break
		}
		child = e.Child("work on tasks", s.Name())
		child.Hear()
	}
	log := schLog(e, s)
	if len(log) != len(tasks) {
		e.Fatalf("the log has %d tasks, want %d", len(log), len(tasks))
	}
	schInOrder(e, log)
	again := 0
	for _, t := range log {
		if t.State != phases.StateDone {
			e.Errorf("a task of phase %d is %s: %s", t.Phase, t.State, t.Error)
		}
		if t.Attempts > 1 {
			again++
		}
		e.Must(b.InTx(e.Ctx, func(tx *parley.Tx) error {
			fresh, err := tx.Once(e.Ctx, s.Name()+" "+t.ID.String())
			if fresh {
				e.Errorf("a task is done, and its writes are not there")
			}
			return err
		}))
	}
	e.Logf("%d deaths, %d tasks tried again", deaths, again)
}
