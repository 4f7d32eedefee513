package sample_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/examples/scheduler/sample"
	"github.com/parleymq/parley/internal/demo"
)

func TestScheduler(t *testing.T) {
	names := map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "s.db")}
	if dsn := os.Getenv("PARLEY_TEST_POSTGRES"); dsn != "" {
		names["postgres"] = demo.WithPrefix(dsn, "scheduler_"+parley.NewID().String()[24:]+"_")
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
			if err := sample.Run(t.Context(), b, sample.Options{Unit: 10 * time.Millisecond, Many: 300}, &out); err != nil {
				t.Fatal(err)
			}
			for i, batch := range sample.Batches {
				if n := strings.Count(out.String(), fmt.Sprintf("batch %d: done", i+1)); n != batch.Tasks {
					t.Errorf("%d tasks of batch %d are done, want %d", n, i+1, batch.Tasks)
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
			left, err := b.Admin().Schedules(t.Context())
			if err != nil || len(left) != 0 {
				t.Errorf("%d schedules are left, %v", len(left), err)
			}
		})
	}
}
