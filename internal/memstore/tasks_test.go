package memstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

func (b *bench) submit(schedule string, o backend.PlanOptions, phases ...int) error {
	b.Helper()
	tx := b.begin()
	defer tx.Rollback(ctx)
	var tasks []backend.NewTask
	for _, p := range phases {
		tasks = append(tasks, backend.NewTask{ID: backend.NewID(), Phase: p, Body: []byte(fmt.Sprint(p))})
	}
	if err := tx.Submit(ctx, schedule, o, tasks); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// take claims tasks and returns their phases as well.
func (b *bench) take(max int, schedules ...string) (holds []backend.TaskHold, phases []string) {
	b.Helper()
	b.do(func(tx *Tx) {
		var err error
		holds, err = tx.ClaimTasks(ctx, backend.TaskClaim{Plans: schedules, Max: max, Lease: time.Minute, Owner: "w"})
		b.must(err)
	})
	for _, h := range holds {
		phases = append(phases, string(h.Body))
	}
	return holds, phases
}

func (b *bench) finish(state backend.TaskState, holds ...backend.TaskHold) {
	b.Helper()
	o := backend.TaskOutcome{State: state, Delay: time.Minute}
	if state != backend.TaskDone {
		o.Error = string(state)
	}
	b.do(func(tx *Tx) {
		for _, h := range holds {
			b.must(tx.FinishTask(ctx, h, o))
		}
	})
}

func TestPhases(t *testing.T) {
	b := newBench(t, "")
	b.must(b.submit("s", backend.PlanOptions{}, 100, 300, 100, 200))
	first, phases := b.take(10)
	b.equal(phases, "100", "100")
	b.finish(backend.TaskDone, first[0])
	_, phases = b.take(10)
	b.equal(phases)

	// A worker that dies, fails or gives back does not open the next phase.
	b.clock.add(2 * time.Minute)
	again, phases := b.take(10)
	b.equal(phases, "100")
	if again[0].Task != first[1].Task || again[0].Attempt != 2 || again[0].Fence <= first[1].Fence {
		t.Errorf("claimed %+v again", again[0])
	}
	tx := b.begin()
	b.want(tx.FinishTask(ctx, first[1], backend.TaskOutcome{State: backend.TaskDone}), backend.ErrFenced)
	b.must(tx.Rollback(ctx))
	b.finish(backend.TaskFailed, again[0])
	_, phases = b.take(10)
	b.equal(phases)
	b.clock.add(2 * time.Minute)
	again, phases = b.take(10)
	b.equal(phases, "100")
	b.finish(backend.TaskQueued, again[0])
	again, _ = b.take(10)
	if again[0].Attempt != 3 {
		t.Errorf("attempt %d: being given back is none", again[0].Attempt)
	}
	_, err := b.h.ExtendTasks(ctx, again, time.Hour)
	b.must(err)
	_, err = b.h.ExtendTasks(ctx, first[1:], time.Hour)
	b.want(err, backend.ErrFenced)

	// In a transaction the task is ours until the end.
	tx = b.begin()
	b.must(tx.LockTask(ctx, again[0]))
	b.clock.add(2 * time.Hour)
	_, phases = b.take(10)
	b.equal(phases)
	b.must(tx.FinishTask(ctx, again[0], backend.TaskOutcome{State: backend.TaskDone}))
	_, phases = b.take(10)
	b.equal(phases) // not committed
	b.must(tx.Commit(ctx))
	holds, phases := b.take(10)
	b.equal(phases, "200")

	b.want(b.submit("s", backend.PlanOptions{}, 100), backend.ErrPhaseClosed)
	b.must(b.submit("s", backend.PlanOptions{}, 200, 250))
	b.finish(backend.TaskDead, holds...)
	holds, phases = b.take(10)
	b.equal(phases, "200") // of the same phase; the next one has to wait
	b.finish(backend.TaskDone, holds...)
	_, phases = b.take(10)
	b.equal(phases)
	list, err := b.h.Plans(ctx, "s")
	b.must(err)
	if s := list[0]; !s.Halted || s.Phase != 250 || s.Error != "dead" || s.Counts[backend.TaskDone] != 3 {
		t.Errorf("schedule %+v", s)
	}
	controlPlan(t, b)
}

// controlPlan goes on with the plan of TestPhases by an operator's verbs, to its end.
func controlPlan(t *testing.T, b *bench) {
	control := func(c backend.TaskControl, want int) {
		b.Helper()
		b.do(func(tx *Tx) {
			n, _, err := tx.Control(ctx, "s", c, backend.ID{})
			b.must(err)
			if n != want {
				t.Errorf("control %d: %d tasks, want %d", c, n, want)
			}
		})
	}
	control(backend.PlanRetry, 1)
	holds, phases := b.take(10)
	b.equal(phases, "200")
	b.finish(backend.TaskDead, holds...)
	control(backend.PlanSkip, 1)
	holds, phases = b.take(10)
	b.equal(phases, "250")
	control(backend.PlanCancel, 1) // 300
	control(backend.PlanSeal, 0)
	b.want(b.submit("s", backend.PlanOptions{}, 400), backend.ErrPhaseClosed)
	b.finish(backend.TaskDone, holds...)

	// Each finished task once, also when its first receiver rolls back.
	seen := make(map[backend.ID]bool)
	for i := 0; ; i++ {
		tx := b.begin()
		s, err := tx.NextFinished(ctx, "s", backend.ID{})
		b.must(err)
		if i%2 == 0 {
			b.must(tx.Rollback(ctx))
			continue
		}
		b.must(tx.Commit(ctx))
		if s == nil {
			break
		}
		if seen[s.ID] || !s.State.Terminal() {
			t.Errorf("task %+v again", s)
		}
		seen[s.ID] = true
	}
	log, err := b.h.TaskLog(ctx, backend.TaskQuery{Plan: "s", Limit: 100})
	b.must(err)
	if len(log) != 6 || len(seen) != 6 {
		t.Errorf("%d tasks, %d finished, want 6", len(log), len(seen))
	}
	if page, _ := b.h.TaskLog(ctx, backend.TaskQuery{Plan: "s", After: log[1].ID, Limit: 2}); len(page) != 2 || page[0].ID != log[2].ID {
		t.Errorf("page %+v", page)
	}
	control(backend.PlanDelete, 6)
	control(backend.PlanDelete, 0)
	_, err = b.h.Plans(ctx, "s")
	b.want(err, backend.ErrNoPlan)
	b.must(b.submit("s", backend.PlanOptions{}, 1))
}

func TestScheduleOptions(t *testing.T) {
	b := newBench(t, "")
	b.must(b.submit("three", backend.PlanOptions{MaxActive: 3, Continue: true, AcceptLate: true}, 1, 1, 1, 1, 1, 2))
	holds, _ := b.take(10)
	if len(holds) != 3 {
		t.Errorf("%d run", len(holds))
	}
	b.finish(backend.TaskDead, holds...)
	holds, _ = b.take(10)
	b.finish(backend.TaskDead, holds...)
	_, phases := b.take(10)
	b.equal(phases, "2")
	b.must(b.submit("three", backend.PlanOptions{}, 1, 3))
	_, phases = b.take(10)
	b.equal(phases, "1") // 3 waits for it, too

	// Two schedules share a claim, whichever is longer.
	b = newBench(t, "")
	b.must(b.submit("long", backend.PlanOptions{}, 1, 1, 1, 1, 1, 1))
	b.must(b.submit("short", backend.PlanOptions{}, 2, 2))
	seen := make(map[string]bool)
	for range 2 {
		_, phases := b.take(1)
		seen[phases[0]] = true
	}
	if len(seen) != 2 {
		t.Errorf("two claims of one gave %v", seen)
	}
	_, phases = b.take(10, "short")
	b.equal(phases, "2")
}

// TestSubmitClaimRace: a submission that was accepted in time is never overtaken
// by a later phase.
func TestSubmitClaimRace(t *testing.T) {
	for range 300 {
		b := newBench(t, "")
		b.must(b.submit("s", backend.PlanOptions{}, 2))
		var accepted error
		var early []string
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(20)) * time.Microsecond)
			accepted = b.submit("s", backend.PlanOptions{}, 1)
		})
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(20)) * time.Microsecond)
			_, early = b.take(1)
		})
		wg.Wait()
		if accepted == nil && len(early) == 1 && early[0] == "2" {
			t.Fatal("phase 2 was started and phase 1 accepted")
		}
	}
}
