package backend

import (
	"context"
	"slices"
	"time"
)

// Maintenance is the background work.
type Maintenance interface {
	// Maintain does one job, at most about limit items of it, in short, separate transactions,
	// skipping what is locked. Many processes call it at once. After an error Moved and Queues
	// still tell what was done before it.
	Maintain(ctx context.Context, job Job, limit int) (Maintained, error)
}

// Maintained is what a call of Maintain has done.
type Maintained struct {
	// Moved is the number of items.
	Moved int

	// Next is the time until the next item is due; zero means that none is known. During a walk
	// through a whole table, it is the time until its next step.
	Next time.Duration

	// Queues are those in which messages became receivable, each once. Their receivers are woken,
	// or all if none is named although something has moved.
	Queues []int64
}

// Give counts an item that became receivable in a queue.
func (m *Maintained) Give(queue int64) {
	m.Moved++
	m.In(queue)
}

// In adds a queue in which messages became receivable.
func (m *Maintained) In(queue int64) {
	if !slices.Contains(m.Queues, queue) {
		m.Queues = append(m.Queues, queue)
	}
}

// Job is a kind of background work.
type Job int

// The maintenance jobs.
const (
	JobDelayed   Job = iota // delayed posts that are due join their queue
	JobTimers               // conversation timers that are due become messages
	JobLifetimes            // conversations beyond their lifetime get an error on both sides
	JobDeferred             // deferred groups that are due, and those marked for another look, become ready
	JobMarkers              // blocked groups leave the ready order; left-over entries are removed
	JobClosed               // conversations that both sides ended are removed
	JobGroups               // groups and keys that nothing refers to are removed, with their promotions
	JobWorkers              // records of workers that died an hour ago, or five minutes with nothing in hand, are removed
	JobProcessed            // processed posts beyond the time for which they are kept are removed
	JobOnce                 // keys of Once beyond that time are removed
	JobCancels              // posts and tasks that were to be cancelled and wait again are cancelled; requests that are met are removed
	JobCount     int = iota
)

// jobs has the name of each maintenance job, and how often it runs even if nothing is known to be
// due.
var jobs = [JobCount]struct {
	name   string
	period time.Duration
}{
	JobDelayed:   {"delayed", time.Second},
	JobTimers:    {"timers", time.Second},
	JobLifetimes: {"lifetimes", time.Second},
	JobDeferred:  {"deferred", time.Second},
	JobMarkers:   {"markers", 5 * time.Second},
	JobClosed:    {"closed", 10 * time.Second},
	JobGroups:    {"groups", time.Minute},
	JobWorkers:   {"workers", time.Minute},
	JobProcessed: {"processed", time.Minute},
	JobOnce:      {"once", time.Minute},
	JobCancels:   {"cancels", 5 * time.Second},
}

func (d Job) String() string { return jobs[d].name }

// Period is the longest time between two runs of the maintenance job.
func (d Job) Period() time.Duration { return jobs[d].period }
