package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
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

func checkPhaseOverlap(e *Env) {
	s := schOpen(e, e.Broker(nil), e.Name("schedule"), nil)
	in := map[int]int{100: 4, 200: 2}
	var mu sync.Mutex
	all := map[int]chan struct{}{100: make(chan struct{}), 200: make(chan struct{})}
	handlers := parley.TaskHandlers{"task": func(ctx context.Context, t *parley.RunningTask) error {
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
	schPool(e, handlers, parley.TaskPoolOptions{Workers: 2, Schedules: []string{s.Name()}})
	schPool(e, handlers, parley.TaskPoolOptions{Workers: 2, Schedules: []string{s.Name()}})
	e.Must(s.Submit(e.Ctx, schTasks(100, 200, 100, 100, 200, 100)...))
	e.Must(s.Wait(e.Ctx))
	log := schLog(e, s)
	if len(log) != 6 {
		e.Fatalf("the log has %d tasks, want 6", len(log))
	}
	schInOrder(e, log)
	for i, t := range log {
		if t.State != parley.TaskDone || t.Attempts != 1 || t.Submitted.IsZero() || t.Owner == "" || t.Caller == "" {
			e.Errorf("task %d is %+v", i, t)
		}
		for _, u := range log {
			if u.Phase == t.Phase && (u.Ended.Before(t.Started) || t.Ended.Before(u.Started)) {
				e.Errorf("of one phase, a task ran from %v to %v and another from %v to %v", t.Started, t.Ended, u.Started, u.Ended)
			}
		}
	}
}

func checkTaskCancelled(e *Env) {
	be := e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.ScheduleOptions{}, 100, 100, 200, 200, 300)
	running := tskWant(e, be, s, "at the start", 100, 100)
	log, err := be.TaskLog(e.Ctx, backend.TaskQuery{Schedule: s, Limit: 10})
	e.Must(err)
	cancel := func(id backend.ID, want int) {
		e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error {
			n, err := tx.Control(e.Ctx, s, backend.ScheduleCancel, id)
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
		e.Errorf("%d workers are told to stop that nobody has cancelled", len(stop))
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

func checkTaskStopped(e *Env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), nil)
	started := make(chan struct{})
	causes := make(chan error, 1)
	schPool(e, parley.TaskHandlers{"task": func(ctx context.Context, t *parley.RunningTask) error {
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}}, parley.TaskPoolOptions{Schedules: []string{s.Name()}, Lease: 3 * time.Second})
	e.Must(s.Submit(e.Ctx, schTasks(1, 2)...))
	<-started
	n, err := s.Cancel(e.Ctx)
	e.Must(err)
	if n != 1 {
		e.Errorf("%d waiting tasks were cancelled, want 1", n)
	}
	e.Is(<-causes, parley.ErrTaskCancelled)
	e.Must(s.Wait(e.Ctx))
	for _, t := range schLog(e, s) {
		if t.State != parley.TaskCancelled {
			e.Errorf("a task of phase %d is %s, want it cancelled", t.Phase, t.State)
		}
	}
}

func init() {
	// works on schedules until it is killed; says what it begins.
	addRole("work on tasks", func(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
		pool, err := b.NewTaskPool(parley.TaskHandlers{
			"slow": func(ctx context.Context, t *parley.RunningTask) error {
				say("begin %d %d", t.Phase, t.Attempt)
				<-ctx.Done()
				return ctx.Err()
			},
			"write": schWrite,
		}, &parley.TaskPoolOptions{Schedules: args[:1], Lease: schLease, Workers: 4})
		if err != nil {
			return err
		}
		say("ready")
		return pool.Run(ctx)
	})
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

func checkTaskKilled(e *Env) {
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
	schPool(e, parley.TaskHandlers{"slow": func(ctx context.Context, t *parley.RunningTask) error {
		if t.Phase == 100 && t.Attempt < 2 {
			e.Errorf("a task of the killed worker is at attempt %d", t.Attempt)
		}
		return nil
	}}, parley.TaskPoolOptions{Schedules: []string{s.Name()}})
	e.Must(s.Wait(e.Ctx))
	if took := time.Since(killed); took > schLease+2*queSlow {
		e.Errorf("the tasks of a worker that was killed were done after %v, its lease was %v", took, schLease)
	}
	log := schLog(e, s)
	schInOrder(e, log)
	for _, t := range log {
		if t.State != parley.TaskDone || t.Attempts != map[int]int{100: 2, 200: 1}[t.Phase] {
			e.Errorf("a task of phase %d is %s after %d attempts", t.Phase, t.State, t.Attempts)
		}
	}
}

func checkTaskRetried(e *Env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &parley.SchedulerOptions{MaxAttempts: 2})
	var mu sync.Mutex
	broken := true
	tries := make(map[int]int)
	schPool(e, parley.TaskHandlers{"task": func(ctx context.Context, t *parley.RunningTask) error {
		mu.Lock()
		defer mu.Unlock()
		tries[t.Phase]++
		if broken && t.Phase == 1 {
			return errors.New("the file is missing")
		}
		return nil
	}}, parley.TaskPoolOptions{Schedules: []string{s.Name()}, BackOff: func(int) time.Duration { return 10 * time.Millisecond }})
	e.Must(s.Submit(e.Ctx, schTasks(1, 1, 2)...))
	err := s.Wait(e.Ctx)
	e.Is(err, parley.ErrHalted)
	var halted *parley.HaltedError
	if !errors.As(err, &halted) || halted.Schedule != s.Name() || halted.Reason != "the file is missing" {
		e.Errorf("Wait says %v", err)
	}
	status, err := s.Status(e.Ctx)
	e.Must(err)
	if !status.Halted || status.Phase != 2 || status.Error != "the file is missing" || status.Counts[parley.TaskDead] != 2 {
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
	e.Is(s.Wait(e.Ctx), parley.ErrHalted) // the other
	n, err = s.Skip(e.Ctx)
	e.Must(err)
	if n != 1 {
		e.Errorf("%d tasks are skipped, want 1", n)
	}
	e.Must(s.Wait(e.Ctx))
	var states []parley.TaskState
	for _, t := range schLog(e, s) {
		states = append(states, t.State)
	}
	if !slices.Equal(states, []parley.TaskState{parley.TaskDone, parley.TaskSkipped, parley.TaskDone}) {
		e.Errorf("the states are %v", states)
	}
}

func checkScheduleSealed(e *Env) {
	be := e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.ScheduleOptions{AcceptLate: true}, 1)
	e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error {
		_, err := tx.Control(e.Ctx, s, backend.ScheduleSeal, backend.ID{})
		return err
	}))
	err := tskTx(e.Ctx, be, func(tx backend.Tx) error {
		return tx.Submit(e.Ctx, s, backend.ScheduleOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 9}})
	})
	e.Is(err, backend.ErrPhaseClosed)
	p, err := be.Progress(e.Ctx, s)
	e.Must(err)
	if !p.Sealed {
		e.Errorf("the progress of a sealed schedule is %+v", p)
	}
	tskWant(e, be, s, "after it was sealed", 1)
	tskWant(e, be, s, "after a submission to a sealed schedule")
}

func checkSubmitBesideClaim(e *Env) {
	be, other := e.Handle(), e.Handle()
	late := func(s string) error {
		return tskTx(e.Ctx, other, func(tx backend.Tx) error {
			return tx.Submit(e.Ctx, s, backend.ScheduleOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 100, Type: "task"}})
		})
	}
	for _, commit := range []bool{true, false} {
		s := e.Name(fmt.Sprint("claim first ", commit))
		tskSubmit(e, be, s, backend.ScheduleOptions{}, 200, 200)
		tx := lckTx(e, be)
		holds, err := tx.ClaimTasks(e.Ctx, backend.TaskClaim{Schedules: []string{s}, Max: 1, Lease: time.Minute, Owner: "conformance"})
		e.Must(err)
		if len(holds) != 1 {
			e.Fatalf("claimed %d tasks, want one", len(holds))
		}
		submitted := make(chan error, 1)
		go func() { submitted <- late(s) }()
		select {
		case err := <-submitted:
			e.Fatalf("a task of phase 100 was submitted with %v while the claim of one of phase 200 was not decided", err)
		case <-time.After(100 * time.Millisecond):
		}
		if commit {
			e.Must(tx.Commit(e.Ctx))
			e.Is(<-submitted, backend.ErrPhaseClosed)
			continue
		}
		e.Must(tx.Rollback(e.Ctx))
		e.Must(<-submitted)
		tskWant(e, be, s, "after a submission that came before any start", 100)
	}

	if !e.HoldsInTransaction() {
		return // a submission that is not committed keeps all others from writing
	}
	s := e.Name("submission first")
	tskSubmit(e, be, s, backend.ScheduleOptions{}, 200)
	tx := lckTx(e, other)
	e.Must(tx.Submit(e.Ctx, s, backend.ScheduleOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 100, Type: "task"}}))
	tskWant(e, be, s, "while a submission is not committed")
	e.Must(tx.Commit(e.Ctx))
	tskWant(e, be, s, "after the submission was committed", 100)
}

// checkSubmitRacesClaim submits to an earlier phase while others claim, many
// times, and looks at what both saw.
func checkSubmitRacesClaim(e *Env) {
	be, other := e.Handle(), e.Handle()
	accepted, refused := 0, 0
	for i := range 30 {
		s := e.Name(fmt.Sprint(i))
		tskSubmit(e, be, s, backend.ScheduleOptions{}, 200)
		var wg sync.WaitGroup
		var first []backend.TaskHold
		var claimErr, submitErr error
		again := func(f func() error) error {
			for {
				if err := f(); !errors.Is(err, backend.ErrSerialization) || e.Ctx.Err() != nil {
					return err
				}
			}
		}
		wg.Go(func() {
			claimErr = again(func() (err error) { first, err = tskClaim(e.Ctx, be, s, 10); return err })
		})
		wg.Go(func() {
			submitErr = again(func() error {
				return tskTx(e.Ctx, other, func(tx backend.Tx) error {
					return tx.Submit(e.Ctx, s, backend.ScheduleOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 100, Type: "task"}})
				})
			})
		})
		wg.Wait()
		e.Must(claimErr)
		started := slices.ContainsFunc(first, func(h backend.TaskHold) bool { return h.Phase == 200 })
		switch {
		case submitErr == nil && started:
			e.Fatalf("a task of phase 100 was accepted as in time, and one of phase 200 has started before it")
		case submitErr == nil:
			accepted++
			if len(first) == 0 {
				tskWant(e, be, s, "after a submission in time", 100)
			}
		case errors.Is(submitErr, backend.ErrPhaseClosed) && started:
			refused++
		default:
			e.Fatalf("submitted with %v, though phase 200 has started: %t", submitErr, started)
		}
	}
	e.Logf("%d accepted, %d refused", accepted, refused)
}

func checkScheduleTurns(e *Env) {
	be := e.Handle()
	long, short := e.Name("long"), e.Name("short")
	phases := make([]int, 200)
	tskSubmit(e, be, long, backend.ScheduleOptions{}, phases...)
	tskSubmit(e, be, short, backend.ScheduleOptions{}, phases[:3]...)
	claim := func(c backend.TaskClaim) (of map[string]int) {
		of = make(map[string]int)
		c.Lease, c.Owner = time.Minute, "conformance"
		e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error {
			holds, err := tx.ClaimTasks(e.Ctx, c)
			for _, h := range holds {
				of[h.Schedule]++
			}
			return err
		}))
		return of
	}
	// Whatever stands in the store besides has its turns, too.
	others, shorts := 0, 0
	for range 20 {
		for s, n := range claim(backend.TaskClaim{Max: 1}) {
			switch s {
			case short:
				shorts += n
			case long:
			default:
				others += n
			}
		}
	}
	if shorts == 0 && others < 10 {
		e.Errorf("of 20 claims of one task each none was of the short schedule")
	}
	tskSubmit(e, be, short, backend.ScheduleOptions{}, phases[:3]...)
	shorts = 0
	for range 4 {
		shorts += claim(backend.TaskClaim{Max: 1, Schedules: []string{long, short}})[short]
	}
	if shorts == 0 {
		e.Errorf("of 4 claims of one task each of two schedules none was of the short one")
	}
	tskSubmit(e, be, short, backend.ScheduleOptions{}, phases[:6]...)
	if of := claim(backend.TaskClaim{Max: 10, Schedules: []string{long, short}}); of[short] < 5 || of[short]+of[long] != 10 {
		e.Errorf("a claim of 10 tasks of two schedules got %d of the long and %d of the short one", of[long], of[short])
	}
}

func checkTasksWait(e *Env) {
	b := e.Broker(nil)
	slow, quick := schOpen(e, b, e.Name("slow"), nil), schOpen(e, b, e.Name("quick"), nil)
	phases := make([]int, 1000)
	for i := range phases {
		phases[i] = 1 + i%7
	}
	tasks := schTasks(append(phases, 0)...)
	tasks[1000].Type = "slow"
	e.Must(slow.Submit(e.Ctx, tasks...))
	begun, release := make(chan struct{}), make(chan struct{})
	schPool(e, parley.TaskHandlers{
		"slow": func(ctx context.Context, t *parley.RunningTask) error {
			close(begun)
			<-release
			return nil
		},
		"task": func(ctx context.Context, t *parley.RunningTask) error {
			if t.Schedule == slow.Name() {
				e.Errorf("a task of phase %d started while phase 0 runs", t.Phase)
			}
			return nil
		},
	}, parley.TaskPoolOptions{Workers: 3, Schedules: []string{slow.Name(), quick.Name()}})
	e.Cleanup(func() { close(release) })
	<-begun
	start := time.Now()
	e.Must(quick.Submit(e.Ctx, schTasks(1, 2, 3)...))
	e.Must(quick.Wait(e.Ctx))
	if took := time.Since(start); took > queSlow {
		e.Errorf("three short tasks took %v beside a schedule that waits", took)
	}
	if n, err := slow.Cancel(e.Ctx); err != nil || n != 1000 {
		e.Errorf("%d waiting tasks were cancelled, %v, want 1000", n, err)
	}
}

func checkTaskTx(e *Env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &parley.SchedulerOptions{MaxAttempts: 3})
	fail := make(chan error, 10)
	fail <- errors.New("the first time it fails")
	schPool(e, parley.TaskHandlers{"task": func(ctx context.Context, t *parley.RunningTask) error {
		if err := schWrite(ctx, t); err != nil {
			return err
		}
		select {
		case err := <-fail:
			return err
		default:
			return nil
		}
	}}, parley.TaskPoolOptions{Schedules: []string{s.Name()}, BackOff: func(int) time.Duration { return 0 }})
	e.Must(s.Submit(e.Ctx, schTasks(1)...))
	e.Must(s.Wait(e.Ctx)) // had the first attempt's write stayed, the second would fail
	if t := schLog(e, s)[0]; t.Attempts != 2 || t.State != parley.TaskDone {
		e.Errorf("the task is %s after %d attempts", t.State, t.Attempts)
	}

	// A worker that has lost its task without knowing.
	be := e.Handle()
	name := e.Name("lost")
	tskSubmit(e, be, name, backend.ScheduleOptions{MaxAttempts: 5}, 1)
	var old []backend.TaskHold
	e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) (err error) {
		old, err = tx.ClaimTasks(e.Ctx, backend.TaskClaim{Schedules: []string{name}, Max: 1, Lease: 50 * time.Millisecond, Owner: "conformance"})
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
			fresh, err := tx.Once(e.Ctx, name)
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
func checkTasksOnce(e *Env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &parley.SchedulerOptions{MaxAttempts: 100})
	const each = 40
	var phases []int
	for i := range 4 * each {
		phases = append(phases, i/each)
	}
	tasks := schTasks(phases...)
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
			schPool(e, parley.TaskHandlers{"write": schWrite}, parley.TaskPoolOptions{Schedules: []string{s.Name()}})
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
		if t.State != parley.TaskDone {
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

func checkScheduleWait(e *Env) {
	b, other := e.Broker(nil), e.Broker(&parley.Options{Poll: 100 * time.Millisecond})
	s := schOpen(e, b, e.Name("schedule"), nil)
	theirs := schOpen(e, other, s.Name(), nil)
	e.Must(s.Wait(e.Ctx)) // for nothing
	e.Must(s.Submit(e.Ctx, schTasks(1, 2)...))

	// Nobody works: a wait ends with its context.
	ctx, cancel := context.WithTimeout(e.Ctx, 100*time.Millisecond)
	defer cancel()
	e.Is(s.Wait(ctx), context.DeadlineExceeded)

	waits := make(chan error, 4)
	for range 2 {
		go func() { waits <- s.Wait(e.Ctx) }()
		go func() { waits <- theirs.Wait(e.Ctx) }()
	}
	// Done behind the brokers' backs: nobody is notified.
	be := e.Handle()
	for _, phase := range []int{1, 2} {
		select {
		case err := <-waits:
			e.Fatalf("a wait ended with %v before phase %d was over", err, phase)
		default:
		}
		tskFinish(e, be, tskWant(e, be, s.Name(), "in turn", phase)[0], tskDone)
	}
	deadline := time.After(queLost)
	for i := range 4 {
		select {
		case err := <-waits:
			e.Must(err)
		case <-deadline:
			e.Fatalf("%d of 4 waits still wait %v after the schedule was over", 4-i, queLost)
		}
	}
	e.Must(s.Wait(e.Ctx)) // again
	e.Must(theirs.Wait(e.Ctx))
}

func checkMaxActive(e *Env) {
	be, other := e.Handle(), e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.ScheduleOptions{MaxActive: 3}, make([]int, 20)...)
	holds := tskWant(e, be, s, "at the start", 0, 0, 0)
	tskWant(e, other, s, "while as many run as may")
	tskFinish(e, be, holds[0], tskDone)
	holds = append(holds[1:], tskWant(e, other, s, "after one of three has ended", 0)...)
	tskWant(e, be, s, "while as many run as may again")
	tskFinish(e, be, holds[0], backend.TaskOutcome{State: backend.TaskQueued})
	tskFinish(e, be, holds[1], backend.TaskOutcome{State: backend.TaskFailed, Delay: time.Hour})
	tskWant(e, other, s, "after one was given back and one has failed", 0, 0)
	p, err := be.Progress(e.Ctx, s)
	e.Must(err)
	if p.Running != 3 {
		e.Errorf("%d tasks run, want 3", p.Running)
	}
}

func checkMaxActivePools(e *Env) {
	s := schOpen(e, e.Broker(nil), e.Name("schedule"), &parley.SchedulerOptions{MaxActive: 3})
	var mu sync.Mutex
	running, most := 0, 0
	h := parley.TaskHandlers{"task": func(ctx context.Context, t *parley.RunningTask) error {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	}}
	for range 2 {
		schPool(e, h, parley.TaskPoolOptions{Workers: 4, Schedules: []string{s.Name()}})
	}
	e.Must(s.Submit(e.Ctx, schTasks(make([]int, 300)...)...))
	e.Must(s.Wait(e.Ctx))
	if most > 3 {
		e.Errorf("%d tasks ran at once, 3 may", most)
	}
	e.Logf("at most %d at once", most)
}

func checkNextFinished(e *Env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &parley.SchedulerOptions{Continue: true})
	phases := make([]int, 60)
	tasks := schTasks(phases...)
	tasks[7].Type, tasks[8].Type = "bad", "bad"
	schPool(e, parley.TaskHandlers{
		"task": func(context.Context, *parley.RunningTask) error { return nil },
		"bad":  func(context.Context, *parley.RunningTask) error { return errors.New("bad") },
	}, parley.TaskPoolOptions{Schedules: []string{s.Name()}})
	e.Must(s.Submit(e.Ctx, tasks...))

	var mu sync.Mutex
	given := make(map[parley.ID]*parley.TaskStatus)
	give := func(t *parley.TaskStatus) {
		mu.Lock()
		defer mu.Unlock()
		if given[t.ID] != nil {
			e.Errorf("a finished task was given twice")
		}
		given[t.ID] = t
	}
	// One that is rolled back was not given.
	e.Soon(queLost, func() bool {
		var t *parley.TaskStatus
		err := b.InTx(e.Ctx, func(tx *parley.Tx) (err error) {
			if t, err = tx.Next(e.Ctx, s); err == nil {
				err = errSkip
			}
			return err
		})
		e.Is(err, errSkip)
		return t != nil
	})
	var wg sync.WaitGroup
	for range 3 {
		mine := schOpen(e, e.Broker(nil), s.Name(), nil)
		wg.Go(func() {
			for {
				t, err := mine.Next(e.Ctx)
				if errors.Is(err, parley.ErrNoTask) {
					return
				}
				if err != nil {
					e.Errorf("next: %v", err)
					return
				}
				give(t)
			}
		})
	}
	wg.Wait()
	e.Must(s.Wait(e.Ctx))
	for { // what another was just being given when a caller gave up
		t, err := s.Next(e.Ctx)
		if errors.Is(err, parley.ErrNoTask) {
			break
		}
		e.Must(err)
		give(t)
	}
	for i, t := range tasks {
		got, want := given[t.ID], parley.TaskDone
		if t.Type == "bad" {
			want = parley.TaskDead
		}
		if got == nil || got.State != want || got.Ended.IsZero() || want == parley.TaskDead && got.Error != "bad" {
			e.Errorf("task %d was given as %+v, want it %s", i, got, want)
		}
	}
	// A new process does not get them again.
	_, err := schOpen(e, e.Broker(nil), s.Name(), nil).Next(e.Ctx)
	e.Is(err, parley.ErrNoTask)
}

var errSkip = errors.New("rolled back")

func checkScheduleReleased(e *Env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), nil)
	e.Must(s.Submit(e.Ctx, schTasks(1, 2)...))
	be := e.Handle()
	hold := tskWant(e, be, s.Name(), "at the start", 1)[0]
	waited := make(chan error, 2)
	go func() { waited <- s.Wait(e.Ctx) }()
	go func() { _, err := s.Next(e.Ctx); waited <- err }()
	time.Sleep(20 * time.Millisecond) // they may wait by now, or not
	operator := schOpen(e, e.Broker(nil), s.Name(), nil)
	e.Must(operator.Release(e.Ctx))
	start := time.Now()
	for range 2 {
		e.Is(<-waited, parley.ErrNoSchedule)
	}
	if took := time.Since(start); took > queSlow {
		e.Errorf("waits ended %v after the schedule was released", took)
	}
	for range 2 {
		e.Must(s.Release(e.Ctx))
		e.Is(s.Wait(e.Ctx), parley.ErrNoSchedule)
		e.Is(s.Submit(e.Ctx, schTasks(3)...), parley.ErrNoSchedule)
		_, err := s.Next(e.Ctx)
		e.Is(err, parley.ErrNoSchedule)
		_, err = s.Cancel(e.Ctx)
		e.Is(err, parley.ErrNoSchedule)
	}
	_, err := be.Progress(e.Ctx, s.Name())
	e.Is(err, backend.ErrNoSchedule)
	_, err = be.TaskLog(e.Ctx, backend.TaskQuery{Schedule: s.Name(), Limit: 1})
	e.Is(err, backend.ErrNoSchedule)

	// The next one of the name has nothing to do with it.
	next := schOpen(e, b, s.Name(), nil)
	e.Must(next.Submit(e.Ctx, schTasks(5)...))
	e.Is(s.Wait(e.Ctx), parley.ErrNoSchedule)
	e.Is(s.Submit(e.Ctx, schTasks(3)...), parley.ErrNoSchedule)
	e.Must(s.Release(e.Ctx))
	e.Is(tskTx(e.Ctx, be, func(tx backend.Tx) error { return tx.FinishTask(e.Ctx, hold, tskDone) }), backend.ErrFenced)
	tskFinish(e, be, tskWant(e, be, s.Name(), "of the new schedule", 5)[0], tskDone)
	e.Must(next.Wait(e.Ctx))
}
