package recurring

import (
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/memory"
)

// TestClockStepsBack: when the database's clock steps back over a due time that was posted, neither Resume nor a new
// definition makes it due again.
func TestClockStepsBack(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2026, 11, 25, 10, 0, 30, 0, time.UTC)
	b, err := parley.New(ctx, memory.New(&memory.Options{Now: func() time.Time { return now }}).Open(), nil)
	ok(t, err)
	defer b.Close()
	ok(t, b.Migrate(ctx))
	ok(t, b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))
	job := Job{Name: "digest", Queue: "mail", Cron: "* * * * *"}
	ok(t, Define(ctx, b, job))
	now = now.Add(31 * time.Second)
	_, err = fire(ctx, b)
	ok(t, err)
	now = now.Add(-2 * time.Second)

	due := func(after string) {
		t.Helper()
		list, err := List(ctx, b)
		ok(t, err)
		want := time.Date(2026, 11, 25, 10, 2, 0, 0, time.UTC)
		if j := list[0]; j.Fired != 1 || !j.Due.Equal(want) {
			t.Errorf("after %s: fired %d, due at %v, want %v", after, j.Fired, j.Due, want)
		}
	}
	due("the step")
	ok(t, Pause(ctx, b, job.Name))
	ok(t, Resume(ctx, b, job.Name))
	due("Resume")
	job.Revision, job.Cron = 2, "*/1 * * * *"
	ok(t, Define(ctx, b, job))
	due("a new definition")
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
