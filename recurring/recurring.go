// Package recurring posts messages again and again, by cron expressions or at fixed intervals. The message of a due
// time and the next due time are committed together. So each due time brings one message, whichever process is first,
// and whenever a process dies. No process leads. The due times are those of the database's clock, and nothing is
// posted while no process has called Start. The built-in stores on PostgreSQL, MySQL, MariaDB, SQLite and SQL Server
// have recurring jobs; a plugin may lack them, and then each call returns errors.ErrUnsupported.
//
//	err := recurring.Define(ctx, b, recurring.Job{
//		Name: "invoices", Revision: 1, Queue: "billing", Type: "SendInvoices",
//		Cron: "0 30 2 * * *", Zone: "Europe/Berlin",
//	})
//	err = recurring.Start(ctx, b)
package recurring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// CatchUp says what happens to due times that were missed: those for which no message was posted within Job.Grace.
type CatchUp string

// The policies for missed due times. The zero value is CatchUpSkip.
const (
	CatchUpSkip CatchUp = "skip" // a missed due time brings no message
	CatchUpOnce CatchUp = "once" // if one was missed, one message stands for all due times until now: the latest one's
	CatchUpAll  CatchUp = "all"  // each brings a message, of more than MaxCatchUp the latest ones
)

// MaxCatchUp is the maximum number of due times that are made up for.
const MaxCatchUp = 1000

// Overlap says what happens at a due time when the job's previous message is pending: it waits, or a receiver has
// it in hand.
type Overlap string

// The policies for overlaps. The zero value is OverlapAllow.
const (
	OverlapAllow Overlap = "allow" // the messages may be handled at the same time
	OverlapSkip  Overlap = "skip"  // the due time brings no message
	OverlapQueue Overlap = "queue" // the messages have one key: they are handled one after the other, in their order
)

// Job is the definition of a recurring job: either Cron or Every says when it is due.
type Job struct {
	// Name is the job's name, of 1 to 100 characters.
	Name string

	// Revision counts the definitions of the job. A definition of a lower revision than the stored one changes
	// nothing. A different definition of the same revision gets ErrRevision. Zero means 1.
	Revision int64

	Queue string // where messages are posted
	Type  string // of the messages
	Body  []byte // of each message

	// Cron is an expression of five fields: minute, hour, day of the month, month, day of the week. It may have
	// seconds before them, or be a name such as @daily. docs/recurring.md says what it can contain.
	Cron string

	// Zone is the IANA time zone in which Cron is meant. Empty means UTC.
	Zone string

	// Every is the interval between due times, at least 10 ms. The first one is an interval after the definition.
	Every time.Duration

	// Jitter delays each message by a part of it, which differs by job and due time. The due times stay what they
	// are. At an interval it is at most that.
	Jitter time.Duration

	// CatchUp is the policy for missed due times, and Grace how late a message can be before its due time counts as
	// missed. Zero means one minute.
	CatchUp CatchUp
	Grace   time.Duration

	// Overlap is the policy for messages that are not handled before the next due time.
	Overlap Overlap
}

// Status is a job as it is stored; its fields are explained in package backend.
type Status = backend.RecurringJob

// The states of jobs.
const (
	StateActive = backend.RecurringActive
	StatePaused = backend.RecurringPaused
)

var (
	// ErrNoJob: there is no recurring job of this name, or it was removed.
	ErrNoJob = errors.New("no such recurring job")

	// ErrRevision: the definition differs from the stored one and has the same revision.
	ErrRevision = errors.New("the recurring job is stored with this revision and other contents")

	// ErrPending: the job's previous message is pending, and its policy is OverlapSkip.
	ErrPending = errors.New("the previous message of the recurring job is pending")
)

// Define makes jobs, or replaces their definitions, all or none. A paused job stays paused. The next due time
// stays unless Cron, Zone or Every has changed. A revision lower than the stored one, which a removed job keeps,
// changes nothing, and is logged (recurring.replaced).
func Define(ctx context.Context, b *parley.Broker, jobs ...Job) error {
	// One order of locking for all programs.
	jobs = slices.SortedFunc(slices.Values(jobs), func(a, b Job) int { return strings.Compare(a.Name, b.Name) })
	var old []string
	err := b.Retry(ctx, func(tx *parley.Tx) error {
		old = nil
		be, err := tx.Backend()
		if err != nil {
			return err
		}
		for _, j := range jobs {
			replaced, err := define(ctx, be, j)
			if err != nil {
				return fail("define", j.Name, err)
			}
			if replaced {
				old = append(old, j.Name)
			}
		}
		return tx.Notify(ctx, backend.RecurringTopic)
	})
	if err == nil && len(old) > 0 {
		b.Logger().Warn("parley: definitions of recurring jobs were ignored, since the database has newer ones",
			"event", "recurring.replaced", "jobs", old)
	}
	return fail("define", "", err)
}

// define stores a definition, and reports whether it was left out as an old one.
func define(ctx context.Context, be backend.Tx, j Job) (replaced bool, err error) {
	given, times, err := j.check()
	if err != nil {
		return false, err
	}
	row, err := be.LockRecurring(ctx, j.Name)
	if err != nil {
		return false, err
	}
	removed := row.State == backend.RecurringRemoved
	switch same := sameDefinition(*row, given); {
	case given.Revision < row.Revision, given.Revision == row.Revision && removed:
		return true, nil
	case given.Revision == row.Revision && !same:
		return false, ErrRevision
	case same:
		return false, nil
	}
	if err := known(ctx, be, given); err != nil {
		return false, err
	}
	given.State, given.Due = row.State, row.Due
	given.Last, given.Fired, given.Skipped = row.Last, row.Fired, row.Skipped
	if removed {
		given.State = backend.RecurringActive
	}
	if removed || given.Cron != row.Cron || given.Zone != row.Zone || given.Every != row.Every {
		given.Due = times(row.Now.Truncate(time.Millisecond)).next(passed(*row))
	}
	given.Look = given.Due.Add(jitter(given))
	return false, be.SetRecurring(ctx, given)
}

// sameDefinition reports whether a row has this definition.
func sameDefinition(row, given Status) bool {
	return row.Revision == given.Revision && row.Queue == given.Queue && row.Type == given.Type &&
		bytes.Equal(row.Body, given.Body) && row.Cron == given.Cron && row.Zone == given.Zone &&
		row.Every == given.Every && row.Jitter == given.Jitter && row.Grace == given.Grace &&
		row.CatchUp == given.CatchUp && row.Overlap == given.Overlap
}

// known looks for the queue and the message type in the catalog.
func known(ctx context.Context, be backend.Tx, j Status) error {
	c, err := be.Catalog(ctx, false)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(c.Queues, func(q backend.Queue) bool { return q.Name == j.Queue }):
		return fmt.Errorf("queue %q: %w", j.Queue, parley.ErrUnknownQueue)
	case j.Type == parley.DefaultType:
		return nil
	case !slices.ContainsFunc(c.Types, func(t backend.MessageType) bool { return t.Name == j.Type }):
		return fmt.Errorf("message type %q: %w", j.Type, parley.ErrUnknownType)
	}
	return nil
}

// List returns all jobs by name, but those that were removed.
func List(ctx context.Context, b *parley.Broker) ([]Status, error) {
	list, err := b.Backend().RecurringJobs(ctx)
	list = slices.DeleteFunc(list, func(j Status) bool { return j.State == backend.RecurringRemoved })
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list, fail("list", "", err)
}

// Pause stops a job: its due times bring no messages until Resume.
func Pause(ctx context.Context, b *parley.Broker, name string) error {
	return change(ctx, b, "pause", name, func(_ *parley.Tx, j *Status) error {
		j.State = backend.RecurringPaused
		return nil
	})
}

// Resume lets a paused job continue with its next due time. Due times that passed during the pause are not
// made up for.
func Resume(ctx context.Context, b *parley.Broker, name string) error {
	return change(ctx, b, "resume", name, func(_ *parley.Tx, j *Status) error {
		if j.State == backend.RecurringActive {
			return nil
		}
		times, err := timesOf(*j)
		if err == nil {
			j.State, j.Failures, j.Error = backend.RecurringActive, 0, ""
			j.Due = times(j.Due).next(passed(*j))
			j.Look = j.Due.Add(jitter(*j))
		}
		return err
	})
}

// passed is the time before which no due time comes again. It is now, or the last posted due time if the
// database's clock has stepped back since.
func passed(j Status) time.Time {
	if j.Last.After(j.Now) {
		return j.Last
	}
	return j.Now
}

// Remove removes a job. Messages that it has posted stay. Defining it again requires a higher
// revision.
func Remove(ctx context.Context, b *parley.Broker, name string) error {
	return change(ctx, b, "remove", name, func(_ *parley.Tx, j *Status) error {
		*j = Status{Name: j.Name, Revision: j.Revision, State: backend.RecurringRemoved}
		return nil
	})
}

// RunNow posts a message of the job at once, even if the job is paused, and does not change its due times. It
// returns the message's ID, or with ErrPending the ID of the pending message.
func RunNow(ctx context.Context, b *parley.Broker, name string) (id parley.ID, err error) {
	err = change(ctx, b, "run", name, func(tx *parley.Tx, j *Status) error {
		pending := false
		p := parley.Payload{Type: j.Type, Body: j.Body}
		id, err = tx.Post(ctx, j.Queue, p, postOptions(*j, parley.NewID(), &pending)...)
		if err == nil && pending {
			err = ErrPending
		}
		return err
	})
	return id, err
}

// change changes a job that is locked.
func change(ctx context.Context, b *parley.Broker, op, name string, f func(*parley.Tx, *Status) error) error {
	return fail(op, name, b.Retry(ctx, func(tx *parley.Tx) error {
		be, err := tx.Backend()
		if err != nil {
			return err
		}
		j, err := be.LockRecurring(ctx, name)
		if err == nil && j.State == backend.RecurringRemoved {
			err = ErrNoJob // rolls back the row that locking may have made
		}
		if err == nil {
			err = f(tx, j)
		}
		if err == nil {
			err = be.SetRecurring(ctx, *j)
		}
		if err != nil {
			return err
		}
		return tx.Notify(ctx, backend.RecurringTopic)
	}))
}

func fail(op, name string, err error) error {
	object := ""
	if name != "" {
		object = fmt.Sprintf("recurring job %q", name)
	}
	return parley.WrapError(op, object, err)
}
