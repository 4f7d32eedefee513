package backend

import (
	"context"
	"time"
)

// RecurringTopic is announced in the place of a queue when a recurring job was defined or resumed.
// Listen and Notify treat it as they do queues.
const RecurringTopic int64 = -2

// RecurringState is the state of a recurring job.
type RecurringState string

// The states. A removed job is kept, so that a program that defines an older revision of it does not
// bring it back.
const (
	RecurringActive  RecurringState = "active"
	RecurringPaused  RecurringState = "paused"
	RecurringRemoved RecurringState = "removed"
)

// RecurringJob is a recurring job, and how far it is. A store keeps all of it unchanged, times to the
// microsecond, and interprets only State and Look.
type RecurringJob struct {
	Name     string
	Revision int64 // of the definition

	// The definition: what is posted, when, and under which policies.
	Queue, Type      string
	Body             []byte
	Cron, Zone       string
	Every            time.Duration
	Jitter, Grace    time.Duration
	CatchUp, Overlap string

	State RecurringState
	Due   time.Time // the first due time that has not been dealt with
	Look  time.Time // when to claim the job for that
	Last  time.Time // the last due time that was posted; zero: none
	// Fired and Skipped count due times: those that were posted, and those at which the job's previous post
	// was pending.
	Fired, Skipped int64
	Failures       int    // since the last due time that was dealt with
	Error          string // the last one of these

	Now time.Time // by the store's clock, when the job was read; not stored
}

// TxRecurring is what happens to recurring jobs inside transactions.
type TxRecurring interface {
	// NextRecurring locks a job until the transaction ends: the active job with the earliest Look that is
	// due and not locked by another transaction. If there is none, it returns nil and the time until the
	// next job is due; zero means that none is known.
	NextRecurring(ctx context.Context) (j *RecurringJob, next time.Duration, err error)
	// LockRecurring locks a job until the transaction ends, and waits for other transactions that have it
	// locked. If there is no job of the name, it adds a removed job of revision 0.
	LockRecurring(ctx context.Context, name string) (*RecurringJob, error)
	// SetRecurring replaces a job that the transaction has locked.
	SetRecurring(ctx context.Context, j RecurringJob) error
}

// Recurring is what can be done to recurring jobs outside transactions.
type Recurring interface {
	// RecurringJobs lists all jobs, those that are removed too.
	RecurringJobs(ctx context.Context) ([]RecurringJob, error)
}
