package recurring

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

const (
	// atOnce is how many due times of a job are dealt with in one transaction.
	atOnce = 100
	// patience is how long posting for a job may take. A transaction in its way, such as an open
	// acknowledgement of the previous message, must not stop the other jobs.
	patience = 10 * time.Second
)

// Start posts messages of all jobs as they fall due, until the Broker is closed. Every program whose role may post
// can call it: one of them handles each due time, once. Errors are logged; List and parley doctor show the errors of
// jobs, too.
func Start(ctx context.Context, b *parley.Broker) error {
	if _, err := b.Backend().RecurringJobs(ctx); err != nil {
		return fail("start recurring jobs", "", err)
	}
	if !b.Go(func(ctx context.Context) { run(ctx, b) }) {
		return fail("start recurring jobs", "", parley.ErrClosed)
	}
	return nil
}

func run(ctx context.Context, b *parley.Broker) {
	for trouble := 0; ctx.Err() == nil; {
		woken, forget := b.Watch(backend.RecurringTopic)
		pause, err := fire(ctx, b)
		switch {
		case err == nil:
			trouble = 0
		case ctx.Err() != nil:
		case errors.Is(err, parley.ErrNewerSchema):
			b.Logger().Error("parley: recurring jobs stop: the database has the schema of a newer Parley", "error", err)
			forget()
			return
		default:
			b.Logger().Warn("parley: recurring jobs cannot be read", "event", "recurring.trouble", "error", err)
			pause = wait.Jitter(min(time.Second<<min(trouble, 6), time.Minute))
			trouble++
		}
		if pause > 0 {
			sleep(ctx, pause, woken)
		}
		forget()
	}
}

func sleep(ctx context.Context, pause time.Duration, woken <-chan struct{}) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-woken:
	case <-ctx.Done():
	}
}

// PostDue posts the messages of all jobs that are due, and returns. It is for tests, and for programs that are
// themselves started at intervals. It skips jobs that another process is handling. Errors of a job are logged and
// shown by List, as with Start.
func PostDue(ctx context.Context, b *parley.Broker) error {
	for {
		pause, err := fire(ctx, b)
		if err != nil || pause > 0 {
			return fail("post due messages", "", err)
		}
	}
}

// fire handles the due times of one job, and returns how long to wait for the next job. Zero means that another
// one may already be due.
func fire(ctx context.Context, b *parley.Broker) (pause time.Duration, err error) {
	var j *Status
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		be, err := tx.Backend()
		if err != nil {
			return err
		}
		var next time.Duration
		if j, next, err = be.NextRecurring(ctx); err != nil {
			return err
		}
		if j == nil {
			// Another process may define a job without a notification, or die with one in hand.
			if pause = wait.Jitter(b.Options().Poll); next > 0 {
				pause = min(pause, max(next, time.Millisecond))
			}
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		after := *j
		if err := post(ctx, b, tx, &after); err != nil {
			return err
		}
		return be.SetRecurring(ctx, after)
	})
	if err != nil && j != nil && ctx.Err() == nil {
		// Nothing of it has happened, or all of it if the commit was cut off: then the job is another one by now.
		return 0, failed(ctx, b, *j, err)
	}
	return pause, err
}

// failed puts a job off whose messages could not be posted, so that the others have their turns.
func failed(ctx context.Context, b *parley.Broker, j Status, why error) error {
	b.Logger().Warn("parley: a recurring job could not post", "event", "recurring.failed",
		"job", j.Name, "due", j.Due, "error", why)
	return b.InTx(ctx, func(tx *parley.Tx) error {
		be, err := tx.Backend()
		if err != nil {
			return err
		}
		now, err := be.LockRecurring(ctx, j.Name)
		if err != nil || now.Revision != j.Revision || !now.Due.Equal(j.Due) || !now.Look.Equal(j.Look) {
			return err
		}
		now.Failures++
		now.Error = backend.CleanText(why.Error(), guard.MaxReason)
		now.Look = now.Now.Add(wait.Jitter(min(time.Second<<min(now.Failures-1, 6), time.Minute)))
		return be.SetRecurring(ctx, *now)
	})
}

// post posts the messages of the due times that have come, and says what comes after them.
func post(ctx context.Context, b *parley.Broker, tx *parley.Tx, j *Status) error {
	t, err := timesOf(*j)
	if err != nil {
		return err
	}
	list, next := outstanding(*j, t(j.Due))
	if len(list) == 0 || !list[0].Equal(j.Due) {
		b.Logger().Warn("parley: due times of a recurring job were missed, and bring no messages",
			"event", "recurring.missed", "job", j.Name, "from", j.Due, "before", append(list, next)[0])
	}
	posts := make([]parley.Posting, len(list))
	pending := make([]bool, len(list))
	for i, due := range list {
		posts[i] = parley.Posting{
			Payload: parley.Payload{Type: j.Type, Body: j.Body},
			Options: postOptions(*j, messageID(j.Name, due), &pending[i]),
		}
	}
	if _, err := tx.PostBatch(ctx, j.Queue, posts); err != nil {
		return err
	}
	for i, due := range list {
		if pending[i] {
			j.Skipped++
		} else {
			j.Fired, j.Last = j.Fired+1, due
		}
	}
	j.Due, j.Failures, j.Error = next, 0, ""
	j.Look = next.Add(jitter(*j))
	return nil
}

func postOptions(j Status, id parley.ID, pending *bool) []parley.PostOption {
	o := []parley.PostOption{parley.PostID(id)}
	switch Overlap(j.Overlap) {
	case OverlapSkip:
		o = append(o, parley.Unique("recurring "+j.Name), parley.Duplicate(pending))
	case OverlapQueue:
		o = append(o, parley.Key("recurring "+j.Name))
	}
	return o
}

// messageID is the ID of a due time, whichever process posts its message.
func messageID(name string, due time.Time) parley.ID {
	return backend.DerivedID(due, "recurring "+name)
}

// DueTime is the due time of a job's message, to the millisecond. For a message of RunNow it is the time of that
// call, and for a dead letter that was put back the time when that was done.
func DueTime(m *parley.Message) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(m.ID[:8]) >> 16)).UTC()
}
