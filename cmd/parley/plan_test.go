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
	"github.com/parleymq/parley/phases"
)

// TestPlan looks at a halted plan, retries and skips, and deletes it.
func TestPlan(t *testing.T) {
	ctx := t.Context()
	db := "sqlite:" + filepath.Join(t.TempDir(), "tool.db")
	works(t, "migrate", "--db", db)
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := phases.Open(ctx, b, "night", &phases.Options{MaxActive: 2, Caller: "me"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Submit(ctx, phases.Task{Phase: 1, Type: "load"}, phases.Task{Phase: 1, Type: "fail"}, phases.Task{Phase: 2, Type: "load"})
	if err != nil {
		t.Fatal(err)
	}
	handlers := phases.Handlers{
		"load": func(context.Context, *phases.Running) error { return nil },
		"fail": func(context.Context, *phases.Running) error { return errors.New("disk full\nreally") },
	}
	if err := s.Run(ctx, handlers, nil); !errors.Is(err, phases.ErrHalted) {
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
	says(works(t, "plan", "list", "--db", db), "night", "halted", "disk full")
	says(works(t, "plan", "show", "night", "--db", db), "halted")
	says(works(t, "plan", "log", "night", "--db", db), "dead", "done", "queued", "me", "disk full")
	says(works(t, "plan", "running", "--db", db), "TASK")
	var log []phases.TaskStatus
	if err := json.Unmarshal([]byte(works(t, "plan", "log", "night", "--json", "--db", db)), &log); err != nil || len(log) != 3 {
		t.Fatalf("%d tasks, %v", len(log), err)
	}
	says(works(t, "plan", "retry", "night", log[1].ID.String(), "--db", db), "retry: 1 tasks")
	if err := s.Run(ctx, handlers, nil); !errors.Is(err, phases.ErrHalted) {
		t.Fatal(err)
	}
	says(works(t, "plan", "skip", "night", "--db", db), "skip: 1 tasks")
	says(works(t, "plan", "cancel", "night", "--db", db), "cancel: 1 tasks")
	works(t, "plan", "seal", "night", "--db", db)
	says(works(t, "plan", "show", "night", "--db", db), "over, sealed")
	works(t, "plan", "delete", "night", "--db", db)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"plan"}, 2, "which verb"},
		{[]string{"plan", "fly", "night"}, 2, `unknown command "fly"`},
		{[]string{"plan", "retry"}, 2, "NAME"},
		{[]string{"plan", "show", "night"}, 1, "no such plan"},
		{[]string{"plan", "log", "night"}, 1, "no such plan"},
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
