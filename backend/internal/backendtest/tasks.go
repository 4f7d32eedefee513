package backendtest

import (
	"time"

	"github.com/parleymq/parley/backend"
)

// Tasks claims new tasks of a schedule, in the order of their ids, and returns them as
// done. Their leases are over soon if patience says so.
func (f *Fixture) Tasks(n int, patience time.Duration) (ends []backend.TaskEnd) {
	f.Helper()
	name := "schedule " + backend.NewID().String()
	f.Do(func(tx backend.Tx) error {
		tasks := make([]backend.NewTask, n)
		for i := range tasks {
			tasks[i] = backend.NewTask{ID: backend.NewID(), Phase: 1, Type: "t"}
		}
		return tx.Submit(f.Ctx, name, backend.PlanOptions{MaxAttempts: 5}, tasks)
	})
	if patience == 0 {
		patience = time.Hour
	}
	for _, h := range f.claimTasks(name, n, patience) {
		ends = append(ends, backend.TaskEnd{Hold: h, Outcome: backend.TaskOutcome{State: backend.TaskDone}})
	}
	return ends
}

func (f *Fixture) claimTasks(schedule string, n int, lease time.Duration) (holds []backend.TaskHold) {
	f.Helper()
	f.Do(func(tx backend.Tx) (err error) {
		holds, err = tx.ClaimTasks(f.Ctx, backend.TaskClaim{Plans: []string{schedule}, Max: n, Lease: lease, Owner: "w"})
		return err
	})
	f.Equal("claimed tasks", len(holds), n)
	return holds
}

// FinishTasks ends tasks in a transaction of its own and returns what was lost.
func (f *Fixture) FinishTasks(ends ...backend.TaskEnd) (lost []backend.ID) {
	f.Helper()
	f.Do(func(tx backend.Tx) (err error) {
		lost, err = tx.FinishTasks(f.Ctx, ends)
		return err
	})
	return lost
}

// testFinishTasks ends many tasks at once, each in its own way. A task that another
// worker has by now is left to that worker, and a finished task stays as it is.
func testFinishTasks(f *Fixture) {
	ends := f.Tasks(6, time.Millisecond)
	schedule := ends[0].Hold.Plan
	late := ends[5]
	time.Sleep(20 * time.Millisecond)
	holds := f.claimTasks(schedule, 6, time.Hour)
	for i, h := range holds {
		ends[i].Hold = h
	}
	ends[1].Outcome = backend.TaskOutcome{State: backend.TaskQueued}
	ends[2].Outcome = backend.TaskOutcome{State: backend.TaskFailed, Error: "not yet", Delay: time.Hour}
	ends[3].Outcome = backend.TaskOutcome{State: backend.TaskDead, Error: "never: '\\?"}
	ends[4].Outcome = backend.TaskOutcome{State: backend.TaskCancelled}
	f.Equal("lost", f.FinishTasks(append([]backend.TaskEnd{late}, ends[:5]...)...), []backend.ID{late.Hold.Task})
	f.Equal("lost again", len(f.FinishTasks(ends...)), 5)

	log, err := f.Backend.TaskLog(f.Ctx, backend.TaskQuery{Plan: schedule, Limit: 10})
	f.OK(err)
	byID := make(map[backend.ID]backend.TaskStatus)
	for _, s := range log {
		byID[s.ID] = s
	}
	for i, want := range []struct {
		state    backend.TaskState
		attempts int
		error    string
	}{
		{backend.TaskDone, 2, ""}, {backend.TaskQueued, 1, ""}, {backend.TaskFailed, 2, "not yet"},
		{backend.TaskDead, 2, "never: '\\?"}, {backend.TaskCancelled, 2, ""}, {backend.TaskDone, 2, ""},
	} {
		s := byID[ends[i].Hold.Task]
		f.Equal("state", s.State, want.state)
		f.Equal("attempts", s.Attempts, want.attempts)
		f.Equal("error", s.Error, want.error)
	}
	// The task that was given back is due at once, and the failed task after its delay.
	f.Equal("due", f.claimTasks(schedule, 1, time.Hour)[0].Task, ends[1].Hold.Task)
}
