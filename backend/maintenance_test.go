package backend_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	_ "github.com/parleymq/parley/backend/memory"
	_ "github.com/parleymq/parley/backend/sqlite"
)

// wrongJobs says which of so many maintenance jobs have no name, the name of another, or no period. Without a
// period a job would run all the time.
func wrongJobs(count int, name func(backend.Job) string, period func(backend.Job) time.Duration) (wrong []string) {
	names := make(map[string]bool)
	for job := range backend.Job(count) {
		if n := name(job); n == "" || names[n] || period(job) <= 0 {
			wrong = append(wrong, fmt.Sprintf("job %d is called %q and has the period %v", job, n, period(job)))
		}
		names[name(job)] = true
	}
	return wrong
}

// TestJobs: each maintenance job has a name, which no other job has, and a period.
func TestJobs(t *testing.T) {
	for _, wrong := range wrongJobs(backend.JobCount, backend.Job.String, backend.Job.Period) {
		t.Error(wrong)
	}
}

// TestForgottenJob: TestJobs fails for a new job without a name or a period, or with the name of another.
func TestForgottenJob(t *testing.T) {
	const added = backend.Job(backend.JobCount)
	for _, c := range []struct {
		name   string
		period time.Duration
		wrong  int
	}{{"new", time.Second, 0}, {"", time.Second, 1}, {"new", 0, 1}, {backend.JobTimers.String(), time.Second, 1}} {
		name := func(j backend.Job) string {
			if j == added {
				return c.name
			}
			return j.String()
		}
		period := func(j backend.Job) time.Duration {
			if j == added {
				return c.period
			}
			return j.Period()
		}
		wrong := wrongJobs(backend.JobCount+1, name, period)
		if len(wrong) != c.wrong || c.wrong > 0 && !strings.HasPrefix(wrong[0], fmt.Sprintf("job %d ", added)) {
			t.Errorf("a new job with the name %q and the period %v: %v, want %d complaints", c.name, c.period, wrong, c.wrong)
		}
	}
}

// TestJobsAreDone: each store does each maintenance job, and refuses a job for which Maintain has no case.
func TestJobsAreDone(t *testing.T) {
	for _, dsn := range []string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "test.db")} {
		be, err := backend.Open(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		if err := be.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for job := range backend.Job(backend.JobCount) {
			if err := do(t.Context(), be, job); err != nil {
				t.Errorf("%s: %v: %v", dsn, job, err)
			}
		}
		if err := do(t.Context(), be, backend.Job(backend.JobCount)); err == nil {
			t.Errorf("%s: a job without a case does nothing, without an error", dsn)
		}
	}
}

func do(ctx context.Context, be backend.Backend, job backend.Job) error {
	_, err := be.Maintain(ctx, job, 10)
	return err
}
