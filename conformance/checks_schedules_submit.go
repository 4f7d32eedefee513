package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

func checkScheduleSealed(e *env) {
	be := e.Handle()
	s := e.Name("schedule")
	tskSubmit(e, be, s, backend.PlanOptions{AcceptLate: true}, 1)
	e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error {
		_, _, err := tx.Control(e.Ctx, s, backend.PlanSeal, backend.ID{})
		return err
	}))
	err := tskTx(e.Ctx, be, func(tx backend.Tx) error {
		return tx.Submit(e.Ctx, s, backend.PlanOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 9}})
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

func checkSubmitBesideClaim(e *env) {
	be, other := e.Handle(), e.Handle()
	late := func(s string) error {
		return tskTx(e.Ctx, other, func(tx backend.Tx) error {
			return tx.Submit(e.Ctx, s, backend.PlanOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 100, Type: "task"}})
		})
	}
	for _, commit := range []bool{true, false} {
		s := e.Name(fmt.Sprint("claim first ", commit))
		tskSubmit(e, be, s, backend.PlanOptions{}, 200, 200)
		tx := lckTx(e, be)
		holds, err := tx.ClaimTasks(e.Ctx, backend.TaskClaim{Plans: []string{s}, Max: 1, Lease: time.Minute, Owner: "conformance"})
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

	if !e.ManyWriters() {
		return // a submission that is not committed keeps all others from writing
	}
	s := e.Name("submission first")
	tskSubmit(e, be, s, backend.PlanOptions{}, 200)
	tx := lckTx(e, other)
	e.Must(tx.Submit(e.Ctx, s, backend.PlanOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 100, Type: "task"}}))
	tskWant(e, be, s, "while a submission is not committed")
	e.Must(tx.Commit(e.Ctx))
	tskWant(e, be, s, "after the submission was committed", 100)
}

// checkSubmitRacesClaim submits to an earlier phase while others claim, many
// times, and looks at what both saw.
func checkSubmitRacesClaim(e *env) {
	be, other := e.Handle(), e.Handle()
	accepted, refused := 0, 0
	for i := range 30 {
		s := e.Name(fmt.Sprint(i))
		tskSubmit(e, be, s, backend.PlanOptions{}, 200)
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
					return tx.Submit(e.Ctx, s, backend.PlanOptions{}, []backend.NewTask{{ID: backend.NewID(), Phase: 100, Type: "task"}})
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

func checkScheduleTurns(e *env) {
	be := e.Handle()
	long, short := e.Name("long"), e.Name("short")
	phases := make([]int, 200)
	tskSubmit(e, be, long, backend.PlanOptions{}, phases...)
	tskSubmit(e, be, short, backend.PlanOptions{}, phases[:3]...)
	claim := func(c backend.TaskClaim) (of map[string]int) {
		of = make(map[string]int)
		c.Lease, c.Owner = time.Minute, "conformance"
		e.Must(tskTx(e.Ctx, be, func(tx backend.Tx) error {
			holds, err := tx.ClaimTasks(e.Ctx, c)
			for _, h := range holds {
				of[h.Plan]++
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
	tskSubmit(e, be, short, backend.PlanOptions{}, phases[:3]...)
	shorts = 0
	for range 4 {
		shorts += claim(backend.TaskClaim{Max: 1, Plans: []string{long, short}})[short]
	}
	if shorts == 0 {
		e.Errorf("of 4 claims of one task each of two schedules none was of the short one")
	}
	tskSubmit(e, be, short, backend.PlanOptions{}, phases[:6]...)
	if of := claim(backend.TaskClaim{Max: 10, Plans: []string{long, short}}); of[short] < 5 || of[short]+of[long] != 10 {
		e.Errorf("a claim of 10 tasks of two schedules got %d of the long and %d of the short one", of[long], of[short])
	}
}
