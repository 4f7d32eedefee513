package phases_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

// Tasks of one phase run together, and those of the next when they are over.
func ExamplePlan() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	plan, err := phases.Open(ctx, b, "month-end", nil)
	must(err)
	must(plan.Submit(ctx,
		phases.Task{Phase: 100, Type: "close", Body: []byte("north")},
		phases.Task{Phase: 100, Type: "close", Body: []byte("south")},
		phases.Task{Phase: 200, Type: "report"},
	))

	var closed atomic.Int32
	err = plan.Run(ctx, phases.Handlers{
		"close": func(ctx context.Context, t *phases.Running) error {
			tx, err := t.Tx(ctx) // the task is done when this commits
			if err != nil {
				return err
			}
			closed.Add(1)
			_, err = tx.Once(ctx, "closed "+string(t.Body))
			return err
		},
		"report": func(ctx context.Context, t *phases.Running) error {
			fmt.Println(closed.Load(), "regions are closed")
			return nil
		},
	}, nil)
	must(err)

	log, err := plan.Log(ctx, parley.ID{}, 10)
	must(err)
	for _, t := range log {
		fmt.Println(t.Phase, t.Type, t.State, t.Attempts)
	}
	must(plan.Delete(ctx))
	// Output:
	// 2 regions are closed
	// 100 close done 1
	// 100 close done 1
	// 200 report done 1
}

// The caller takes the outcomes one by one, each once.
func ExamplePlan_Next() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	pool, err := phases.NewPool(b, phases.Handlers{
		"": func(ctx context.Context, t *phases.Running) error {
			if string(t.Body) == "odd" {
				return phases.Dead(errors.New("it is odd"))
			}
			return nil
		},
	}, &phases.PoolOptions{Workers: 2})
	must(err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- pool.Run(running) }()

	plan, err := phases.Open(ctx, b, "orders", &phases.Options{Continue: true, MaxActive: 1})
	must(err)
	must(b.InTx(ctx, func(tx *parley.Tx) error { // with the caller's own writes
		return plan.SubmitTx(ctx, tx, phases.Task{Phase: 1, Body: []byte("even")}, phases.Task{Phase: 2, Body: []byte("odd")})
	}))
	must(plan.Wait(ctx))
	for {
		t, err := plan.Next(ctx)
		if errors.Is(err, phases.ErrNoTask) {
			break
		}
		must(err)
		fmt.Printf("%d %s %q\n", t.Phase, t.State, t.Error)
	}
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		t, err := plan.NextTx(ctx, tx) // given with what this transaction writes
		fmt.Println(t == nil)
		return err
	}))
	stop()
	<-ended
	// Output:
	// 1 done ""
	// 2 dead "it is odd"
	// true
}

// A task that is dead halts its plan until an operator decides.
func ExamplePlan_Retry() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	plan, err := phases.Open(ctx, b, "import", nil)
	must(err)
	must(plan.Submit(ctx, phases.Task{Phase: 1, Type: "load"}, phases.Task{Phase: 2, Type: "check"}, phases.Task{Phase: 3, Type: "mail"}))
	must(plan.Seal(ctx))
	fmt.Println(errors.Is(plan.Submit(ctx, phases.Task{}), phases.ErrClosed))

	broken := true
	handlers := phases.Handlers{"": func(ctx context.Context, t *phases.Running) error {
		if broken && t.Type == "load" {
			return errors.New("the file is missing")
		}
		return nil
	}}
	err = plan.Run(ctx, handlers, nil)
	var halted *phases.HaltedError
	fmt.Println(errors.As(err, &halted), errors.Is(err, phases.ErrHalted))
	fmt.Println(err)
	progress, err := plan.Progress(ctx)
	must(err)
	fmt.Println(progress.Halted, progress.Phase, progress.ID == plan.ID())

	n, err := plan.Cancel(ctx) // the mail is not needed; all that waits
	must(err)
	fmt.Println(n, "cancelled")
	broken = false
	n, err = plan.Retry(ctx) // or Skip
	must(err)
	fmt.Println(n, "retried")
	must(plan.Run(ctx, handlers, nil))
	status, err := plan.Status(ctx)
	must(err)
	fmt.Println(plan.Name(), status.Counts[phases.StateDone], status.Counts[phases.StateCancelled])
	n, err = plan.Skip(ctx)
	must(err)
	fmt.Println(n, "skipped")

	again, err := phases.Find(ctx, b, "import") // as an operator does
	must(err)
	must(again.Wait(ctx))
	all, err := phases.List(ctx, b)
	must(err)
	now, err := phases.Log(ctx, b, phases.Query{Running: true, Limit: 10})
	must(err)
	fmt.Println(len(all), len(now))
	// Output:
	// true
	// true true
	// parley: wait: plan "import": the plan is halted by a task that is dead: the file is missing
	// true 2 true
	// 2 cancelled
	// 1 retried
	// import 1 2
	// 0 skipped
	// 1 0
}

// Statements as tasks, on a separate database.
func ExampleRunSQL() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "numbers.db"))
	must(err)
	defer db.Close()

	plan, err := phases.Open(ctx, b, "statements", nil)
	must(err)
	must(plan.Submit(ctx,
		phases.SQL(1, `CREATE TABLE number (n INTEGER)`),
		phases.SQL(2, `INSERT INTO number VALUES (1), (2), (3)`),
		phases.SQL(3, `DELETE FROM nonsense`),
	))
	err = plan.Run(ctx, phases.Handlers{phases.SQLType: phases.RunSQL(db)}, nil)
	fmt.Println(errors.Is(err, phases.ErrHalted))
	var sum int
	must(db.QueryRow(`SELECT sum(n) FROM number`).Scan(&sum))
	fmt.Println(sum)
	// Output:
	// true
	// 6
}
