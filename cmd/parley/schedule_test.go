package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
)

// TestSchedule looks at a halted schedule, retries and skips, and releases it.
func TestSchedule(t *testing.T) {
	ctx := t.Context()
	db := "sqlite:" + filepath.Join(t.TempDir(), "tool.db")
	works(t, "migrate", "--db", db)
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.OpenScheduler(ctx, "night", &parley.SchedulerOptions{MaxActive: 2, Caller: "me"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Submit(ctx, parley.Task{Phase: 1, Type: "load"}, parley.Task{Phase: 1, Type: "fail"}, parley.Task{Phase: 2, Type: "load"})
	if err != nil {
		t.Fatal(err)
	}
	handlers := parley.TaskHandlers{
		"load": func(context.Context, *parley.RunningTask) error { return nil },
		"fail": func(context.Context, *parley.RunningTask) error { return errors.New("disk full\nreally") },
	}
	if err := s.Run(ctx, handlers, nil); !errors.Is(err, parley.ErrHalted) {
		t.Fatal(err)
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("printed\n%s\nwant %q in it", out, w)
			}
		}
	}
	says(works(t, "schedule", "list", "--db", db), "night", "halted", "disk full")
	says(works(t, "schedule", "show", "night", "--db", db), "halted")
	says(works(t, "schedule", "log", "night", "--db", db), "dead", "done", "queued", "me", "disk full")
	says(works(t, "schedule", "running", "--db", db), "TASK")
	var log []parley.TaskStatus
	if err := json.Unmarshal([]byte(works(t, "schedule", "log", "night", "--json", "--db", db)), &log); err != nil || len(log) != 3 {
		t.Fatalf("%d tasks, %v", len(log), err)
	}
	says(works(t, "schedule", "retry", "night", log[1].ID.String(), "--db", db), "retry: 1 tasks")
	if err := s.Run(ctx, handlers, nil); !errors.Is(err, parley.ErrHalted) {
		t.Fatal(err)
	}
	says(works(t, "schedule", "skip", "night", "--db", db), "skip: 1 tasks")
	says(works(t, "schedule", "cancel", "night", "--db", db), "cancel: 1 tasks")
	works(t, "schedule", "seal", "night", "--db", db)
	says(works(t, "schedule", "show", "night", "--db", db), "over, sealed")
	works(t, "schedule", "release", "night", "--db", db)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"schedule"}, 2, "VERB"},
		{[]string{"schedule", "fly", "night"}, 2, "VERB"},
		{[]string{"schedule", "retry"}, 2, "VERB"},
		{[]string{"schedule", "show", "night"}, 1, "no such schedule"},
		{[]string{"schedule", "log", "night"}, 1, "no such schedule"},
	} {
		code, _, errs := tool(t, append(test.args, "--db", db)...)
		if code != test.code || !strings.Contains(errs, test.says) {
			t.Errorf("parley %v: exit code %d, %q", test.args, code, errs)
		}
	}
}

func TestLocks(t *testing.T) {
	ctx := t.Context()
	db := "sqlite:" + filepath.Join(t.TempDir(), "tool.db")
	works(t, "migrate", "--db", db)
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := applock.Open(ctx, b, &applock.Options{Owner: "me"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"stock", "stuck"} {
		if _, err := s.Lock(ctx, name, applock.Update, 0); err != nil {
			t.Fatal(err)
		}
	}
	out := works(t, "locks", "stu", "--db", db)
	if !strings.Contains(out, "stuck") || strings.Contains(out, "stock") || !strings.Contains(out, "Update") || !strings.Contains(out, "me") {
		t.Errorf("locks prints\n%s", out)
	}
}
