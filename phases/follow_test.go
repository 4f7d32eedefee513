package phases_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/phases"
)

// TestRunTellsHowItEnded: the result of a plan's Run tells how it ended. The plan is finished or halted,
// the context has ended, or the store's schema is no longer this program's.
func TestRunTellsHowItEnded(t *testing.T) {
	b, cleanup := open()
	defer cleanup()
	run := func(ctx context.Context, name string, tasks int, f func(ctx context.Context) error) (*phases.Plan, error) {
		limited, end := context.WithTimeout(ctx, slow.By(30*time.Second))
		defer end()
		plan, err := phases.Open(t.Context(), b, name, nil)
		must(err)
		must(plan.Submit(t.Context(), make([]phases.Task, tasks)...))
		return plan, plan.Run(limited, phases.Handlers{"": func(ctx context.Context, _ *phases.Running) error { return f(ctx) }}, nil)
	}
	want := func(name string, plan *phases.Plan, got, want error, over bool) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: Run returned %v, want %v", name, got, want)
		}
		if now, err := plan.Progress(t.Context()); err != nil || now.Over != over {
			t.Errorf("%s: all tasks are over: %t, %v; want %t", name, now.Over, err, over)
		}
	}
	done := func(context.Context) error { return nil }
	untilStopped := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}

	plan, err := run(t.Context(), "finished", 3, done)
	want("finished", plan, err, nil, true)

	cancelled, cancel := context.WithCancel(t.Context())
	plan, err = run(cancelled, "cancelled", 3, func(ctx context.Context) error {
		cancel()
		return untilStopped(ctx)
	})
	want("cancelled", plan, err, context.Canceled, false)
	plan, err = run(cancelled, "cancelled", 0, done)
	want("cancelled before", plan, err, context.Canceled, false)
	plan, err = run(t.Context(), "cancelled", 0, done)
	want("the next Run", plan, err, nil, true)

	late, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer end()
	plan, err = run(late, "too late", 3, untilStopped)
	want("too late", plan, err, context.DeadlineExceeded, false)

	var halted *phases.HaltedError
	_, err = run(t.Context(), "halted", 1, func(context.Context) error { return phases.Dead(errors.New("no")) })
	if !errors.As(err, &halted) || halted.Plan != "halted" {
		t.Errorf("halted: Run returned %v", err)
	}

	db, err := sql.Open("sqlite", databaseOf(t, b))
	must(err)
	defer db.Close()
	var migrate sync.Once
	plan, err = run(t.Context(), "outdated", 200, func(ctx context.Context) error {
		migrate.Do(func() {
			_, err := db.Exec("UPDATE parley_meta SET schema_version = 1000")
			must(err)
			err = b.Backend().Check(ctx) // which maintenance does every few seconds
			if !errors.Is(err, parley.ErrNewerSchema) {
				t.Errorf("the schema is accepted: %v", err)
			}
		})
		return nil
	})
	want("outdated", plan, err, parley.ErrNewerSchema, false)
}
