package parley_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/parleymq/parley"
)

// Tasks of one phase run together, and those of the next when they are over.
func ExampleScheduler() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	s, err := b.OpenScheduler(ctx, "month-end", nil)
	must(err)
	must(s.Submit(ctx,
		parley.Task{Phase: 100, Type: "close", Body: []byte("north")},
		parley.Task{Phase: 100, Type: "close", Body: []byte("south")},
		parley.Task{Phase: 200, Type: "report"},
	))

	var closed atomic.Int32
	err = s.Run(ctx, parley.TaskHandlers{
		"close": func(ctx context.Context, t *parley.RunningTask) error {
			tx, err := t.Tx(ctx) // the task is done when this commits
			if err != nil {
				return err
			}
			closed.Add(1)
			_, err = tx.Once(ctx, "closed "+string(t.Body))
			return err
		},
		"report": func(ctx context.Context, t *parley.RunningTask) error {
			fmt.Println(closed.Load(), "regions are closed")
			return nil
		},
	}, nil)
	must(err)

	log, err := s.Log(ctx, parley.ID{}, 10)
	must(err)
	for _, t := range log {
		fmt.Println(t.Phase, t.Type, t.State, t.Attempts)
	}
	must(s.Release(ctx))
	// Output:
	// 2 regions are closed
	// 100 close done 1
	// 100 close done 1
	// 200 report done 1
}

// The caller takes the outcomes one by one, each once.
func ExampleScheduler_Next() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	pool, err := b.NewTaskPool(parley.TaskHandlers{
		"": func(ctx context.Context, t *parley.RunningTask) error {
			if string(t.Body) == "odd" {
				return parley.DeadTask(errors.New("it is odd"))
			}
			return nil
		},
	}, &parley.TaskPoolOptions{Workers: 2})
	must(err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- pool.Run(running) }()

	s, err := b.OpenScheduler(ctx, "orders", &parley.SchedulerOptions{Continue: true, MaxActive: 1})
	must(err)
	must(b.InTx(ctx, func(tx *parley.Tx) error { // with the caller's own writes
		return tx.Submit(ctx, s, parley.Task{Phase: 1, Body: []byte("even")}, parley.Task{Phase: 2, Body: []byte("odd")})
	}))
	must(s.Wait(ctx))
	for {
		t, err := s.Next(ctx)
		if errors.Is(err, parley.ErrNoTask) {
			break
		}
		must(err)
		fmt.Printf("%d %s %q\n", t.Phase, t.State, t.Error)
	}
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		t, err := tx.Next(ctx, s) // given with what this transaction writes
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

// A task that is dead halts its schedule until somebody decides.
func ExampleScheduler_Retry() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	s, err := b.OpenScheduler(ctx, "import", nil)
	must(err)
	must(s.Submit(ctx, parley.Task{Phase: 1, Type: "load"}, parley.Task{Phase: 2, Type: "check"}, parley.Task{Phase: 3, Type: "mail"}))
	must(s.Seal(ctx))
	fmt.Println(errors.Is(s.Submit(ctx, parley.Task{}), parley.ErrPhaseClosed))

	broken := true
	handlers := parley.TaskHandlers{"": func(ctx context.Context, t *parley.RunningTask) error {
		if broken && t.Type == "load" {
			return errors.New("the file is missing")
		}
		return nil
	}}
	err = s.Run(ctx, handlers, nil)
	var halted *parley.HaltedError
	fmt.Println(errors.As(err, &halted), errors.Is(err, parley.ErrHalted))
	fmt.Println(err)
	progress, err := s.Progress(ctx)
	must(err)
	fmt.Println(progress.Halted, progress.Phase, progress.ID == s.ID())

	n, err := s.Cancel(ctx) // nobody needs the mail; all that waits
	must(err)
	fmt.Println(n, "cancelled")
	broken = false
	n, err = s.Retry(ctx) // or Skip
	must(err)
	fmt.Println(n, "retried")
	must(s.Run(ctx, handlers, nil))
	status, err := s.Status(ctx)
	must(err)
	fmt.Println(s.Name(), status.Counts[parley.TaskDone], status.Counts[parley.TaskCancelled])
	n, err = s.Skip(ctx)
	must(err)
	fmt.Println(n, "skipped")

	again, err := b.FindScheduler(ctx, "import") // as an operator does
	must(err)
	must(again.Wait(ctx))
	all, err := b.Admin().Schedules(ctx)
	must(err)
	now, err := b.Admin().TaskLog(ctx, parley.TaskQuery{Running: true, Limit: 10})
	must(err)
	fmt.Println(len(all), len(now))
	// Output:
	// true
	// true true
	// parley: wait: schedule "import": the schedule is halted by a task that is dead: the file is missing
	// true 2 true
	// 2 cancelled
	// 1 retried
	// import 1 2
	// 0 skipped
	// 1 0
}

// Statements as tasks, on a database of their own.
func ExampleRunSQL() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", filepath.Join(dir, "numbers.db"))
	must(err)
	defer db.Close()

	s, err := b.OpenScheduler(ctx, "statements", nil)
	must(err)
	must(s.Submit(ctx,
		parley.SQLTask(1, `CREATE TABLE number (n INTEGER)`),
		parley.SQLTask(2, `INSERT INTO number VALUES (1), (2), (3)`),
		parley.SQLTask(3, `DELETE FROM nonsense`),
	))
	err = s.Run(ctx, parley.TaskHandlers{parley.SQLTaskType: parley.RunSQL(db)}, nil)
	fmt.Println(errors.Is(err, parley.ErrHalted))
	var sum int
	must(db.QueryRow(`SELECT sum(n) FROM number`).Scan(&sum))
	fmt.Println(sum)
	// Output:
	// true
	// 6
}
