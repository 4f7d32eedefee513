package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/phases"
)

func checkScheduleWait(e *env) {
	b, other := e.Broker(nil), e.Broker(&parley.Options{Poll: 100 * time.Millisecond})
	s := schOpen(e, b, e.Name("schedule"), nil)
	theirs := schOpen(e, other, s.Name(), nil)
	e.Must(s.Wait(e.Ctx)) // for nothing
	e.Must(s.Submit(e.Ctx, schTasks(1, 2)...))

	// No worker works: a wait ends with its context.
	ctx, cancel := context.WithTimeout(e.Ctx, 100*time.Millisecond)
	defer cancel()
	e.Is(s.Wait(ctx), context.DeadlineExceeded)

	waits := make(chan error, 4)
	for range 2 {
		go func() { waits <- s.Wait(e.Ctx) }()
		go func() { waits <- theirs.Wait(e.Ctx) }()
	}
	// Done behind the brokers' backs: no broker is notified.
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
			e.late()
			e.Fatalf("%d of 4 waits still wait %v after the schedule was over", 4-i, queLost)
		}
	}
	e.Must(s.Wait(e.Ctx)) // again
	e.Must(theirs.Wait(e.Ctx))
}

func checkMaxActive(e *env) {
	be, other := e.Handle(), e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.PlanOptions{MaxActive: 3}, make([]int, 20)...)
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

func checkMaxActivePools(e *env) {
	s := schOpen(e, e.Broker(nil), e.Name("schedule"), &phases.Options{MaxActive: 3})
	var mu sync.Mutex
	running, most := 0, 0
	h := phases.Handlers{"task": func(ctx context.Context, t *phases.Running) error {
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
		schPool(e, h, phases.PoolOptions{Workers: 4, Plans: []string{s.Name()}})
	}
	e.Must(s.Submit(e.Ctx, schTasks(make([]int, 300)...)...))
	e.Must(s.Wait(e.Ctx))
	if most > 3 {
		e.Errorf("%d tasks ran at once, 3 may", most)
	}
	e.Logf("at most %d at once", most)
}

func checkNextFinished(e *env) {
	b := e.Broker(nil)
	s := schOpen(e, b, e.Name("schedule"), &phases.Options{Continue: true})
	numbers := make([]int, 60)
	tasks := schTasks(numbers...)
	tasks[7].Type, tasks[8].Type = "bad", "bad"
	schPool(e, phases.Handlers{
		"task": func(context.Context, *phases.Running) error { return nil },
		"bad":  func(context.Context, *phases.Running) error { return errors.New("bad") },
	}, phases.PoolOptions{Plans: []string{s.Name()}})
	e.Must(s.Submit(e.Ctx, tasks...))

	var mu sync.Mutex
	given := make(map[parley.ID]*phases.TaskStatus)
	give := func(t *phases.TaskStatus) {
		mu.Lock()
		defer mu.Unlock()
		if given[t.ID] != nil {
			e.Errorf("a finished task was given twice")
		}
		given[t.ID] = t
	}
	// A task whose transaction is rolled back was not given.
	e.Soon(queLost, func() bool {
		var t *phases.TaskStatus
		err := b.InTx(e.Ctx, func(tx *parley.Tx) (err error) {
			if t, err = s.NextTx(e.Ctx, tx); err == nil {
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
				if errors.Is(err, phases.ErrNoTask) {
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
		if errors.Is(err, phases.ErrNoTask) {
			break
		}
		e.Must(err)
		give(t)
	}
	for i, t := range tasks {
		got, want := given[t.ID], phases.StateDone
		if t.Type == "bad" {
			want = phases.StateDead
		}
		if got == nil || got.State != want || got.Ended.IsZero() || want == phases.StateDead && got.Error != "bad" {
			e.Errorf("task %d was given as %+v, want it %s", i, got, want)
		}
	}
	// A new process does not get them again.
	_, err := schOpen(e, e.Broker(nil), s.Name(), nil).Next(e.Ctx)
	e.Is(err, phases.ErrNoTask)
}

func checkScheduleReleased(e *env) {
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
	e.Must(operator.Delete(e.Ctx))
	start := time.Now()
	for range 2 {
		e.Is(<-waited, phases.ErrNoPlan)
	}
	e.Within(queSlow, time.Since(start), "waits ended %v after the schedule was released")
	for range 2 {
		e.Must(s.Delete(e.Ctx))
		e.Is(s.Wait(e.Ctx), phases.ErrNoPlan)
		e.Is(s.Submit(e.Ctx, schTasks(3)...), phases.ErrNoPlan)
		_, err := s.Next(e.Ctx)
		e.Is(err, phases.ErrNoPlan)
		_, err = s.Cancel(e.Ctx)
		e.Is(err, phases.ErrNoPlan)
	}
	_, err := be.Progress(e.Ctx, s.Name())
	e.Is(err, backend.ErrNoPlan)
	_, err = be.TaskLog(e.Ctx, backend.TaskQuery{Plan: s.Name(), Limit: 1})
	e.Is(err, backend.ErrNoPlan)

	// The next one of the name has nothing to do with it.
	next := schOpen(e, b, s.Name(), nil)
	e.Must(next.Submit(e.Ctx, schTasks(5)...))
	e.Is(s.Wait(e.Ctx), phases.ErrNoPlan)
	e.Is(s.Submit(e.Ctx, schTasks(3)...), phases.ErrNoPlan)
	e.Must(s.Delete(e.Ctx))
	e.Is(tskTx(e.Ctx, be, func(tx backend.Tx) error { return tx.FinishTask(e.Ctx, hold, tskDone) }), backend.ErrFenced)
	tskFinish(e, be, tskWant(e, be, s.Name(), "of the new schedule", 5)[0], tskDone)
	e.Must(next.Wait(e.Ctx))
}
