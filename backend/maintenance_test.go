package backend_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestJobs: each maintenance job has its own name, and a period. Without a period it would run all the time.
func TestJobs(t *testing.T) {
	names := make(map[string]bool)
	for job := range backend.Job(backend.JobCount) {
		if name := job.String(); name == "" || names[name] || job.Period() <= 0 {
			t.Errorf("job %d is called %q and has the period %v", job, name, job.Period())
		}
		names[job.String()] = true
	}
}
