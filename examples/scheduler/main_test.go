package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/phases"
)

func TestScheduler(t *testing.T) {
	names := map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "s.db")}
	if dsn := os.Getenv("PARLEY_TEST_POSTGRES"); dsn != "" {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("parley_prefix", "scheduler_"+parley.NewID().String()[24:]+"_")
		u.RawQuery = q.Encode()
		names["postgres"] = u.String()
	}
	for engine, dsn := range names {
		t.Run(engine, func(t *testing.T) {
			b, err := parley.Open(t.Context(), dsn, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer b.Backend().Uninstall(context.Background())
			var out strings.Builder
			if err := schedule(t.Context(), b, options{unit: slow.By(10 * time.Millisecond), workers: 8, many: 300, active: 3}, &out); err != nil {
				t.Fatal(err)
			}
			for i, group := range groups {
				if n := strings.Count(out.String(), fmt.Sprintf("batch %d: done", i+1)); n != group.Tasks {
					t.Errorf("%d tasks of batch %d are done, want %d", n, i+1, group.Tasks)
				}
			}
			if n := strings.Count(out.String(), "running: caller, phase 0, type wait"); n != 4 {
				t.Errorf("%d tasks are seen to run, want 4", n)
			}
			var most int
			tail := out.String()[strings.Index(out.String(), "300 tasks"):]
			if _, err := fmt.Sscanf(tail, "300 tasks, at most %d at once", &most); err != nil || most < 1 || most > 3 {
				t.Errorf("%q, %v", tail, err)
			}
			left, err := phases.List(t.Context(), b)
			if err != nil || len(left) != 0 {
				t.Errorf("%d plans are left, %v", len(left), err)
			}
		})
	}
}
