package parley

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Finding is something that keeps messages from moving, or will.
type Finding struct {
	// Code says what, and stays the same: "queue.disabled", "group.parked", …
	Code string `json:"code"`
	// Bad findings keep messages from moving; others should be known.
	Bad    bool   `json:"bad"`
	Object string `json:"object"`
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

// WorkerStatus is the record of a reader of a worker.
type WorkerStatus = backend.AttendanceStatus

// Workers lists the records of workers' readers, those of dead workers as well.
func (b *Broker) Workers(ctx context.Context) ([]WorkerStatus, error) {
	return read(b, "workers", func() ([]WorkerStatus, error) { return b.be.Attendances(ctx) })
}

// Diagnose says why things do not move, and what is wrong with the set-up; or, if
// what is not empty, why that does not: a queue or a schedule, by its name, or a
// group, message, conversation's handle or task, by its id. No finding means that
// there is no reason to be seen. What was found before an error comes with it.
func (b *Broker) Diagnose(ctx context.Context, what string) ([]Finding, error) {
	d := &diagnosis{b: b}
	err := b.check()
	if err == nil {
		err = d.all(ctx, what)
	}
	return d.found, fail("diagnose", what, err)
}

type diagnosis struct {
	b       *Broker
	found   []Finding
	workers []WorkerStatus
	catalog *catalogView   // as soon as it is needed
	ahead   *time.Duration // the store's clock, as soon as it is known
}

func (d *diagnosis) add(bad bool, code, object, hint, format string, args ...any) {
	d.found = append(d.found, Finding{Code: code, Bad: bad, Object: object, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (d *diagnosis) all(ctx context.Context, what string) error {
	if what == "" {
		if err := d.store(ctx); err != nil {
			return err
		}
	}
	switch err := d.b.be.Check(ctx); {
	case errors.Is(err, ErrNotMigrated):
		d.add(true, reasonMissing, "store", "parley migrate", "%v", err)
		return nil
	case tooOld(err):
		d.add(true, reasonNewer, "store", "update this program", "%v", err)
		return nil
	case err != nil:
		return d.unreadable(err)
	}
	return d.unreadable(d.look(ctx, what))
}

// unreadable takes an error for a finding if the set-up has been found to be bad:
// then it is what comes of that.
func (d *diagnosis) unreadable(err error) error {
	if err == nil || !slices.ContainsFunc(d.found, func(f Finding) bool { return f.Bad }) {
		return err
	}
	d.add(true, reasonUnreadable, "store", "", "the rest cannot be looked at: %v", err)
	return nil
}

func (d *diagnosis) look(ctx context.Context, what string) (err error) {
	queues, err := d.b.Queues(ctx)
	if err != nil {
		return err
	}
	if d.workers, err = d.b.Workers(ctx); err != nil {
		return err
	}
	if i := slices.IndexFunc(queues, func(q QueueStatus) bool { return q.Name == what }); i >= 0 {
		d.queue(queues[i])
		return d.groups(ctx, queues[i])
	}
	if what != "" {
		id, err := ParseID(what)
		if err == nil {
			return d.one(ctx, queues, id)
		}
		list, err := d.b.be.Schedules(ctx, what)
		if errors.Is(err, ErrNoSchedule) {
			return fmt.Errorf("%q is neither a queue nor a schedule nor an id: %w", what, ErrUnknownQueue)
		}
		for _, s := range list {
			err = errors.Join(err, d.schedule(ctx, s))
		}
		return err
	}
	for _, q := range queues {
		d.queue(q)
		if err := d.groups(ctx, q); err != nil {
			return err
		}
	}
	for _, look := range []func(context.Context) error{d.withheld, d.promotions, d.duties, d.conversations, d.schedules, d.locks} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mayDiffer is how far the clocks of this process and the store may be apart.
const mayDiffer = 2 * time.Second

// store looks at the set-up.
func (d *diagnosis) store(ctx context.Context) error {
	before := time.Now()
	info, err := d.b.be.Info(ctx)
	after := time.Now()
	if err != nil {
		return err
	}
	if d.b.admitted.starving() {
		d.add(false, reasonPool, "pool", "raise the pool's limit, or have fewer readers",
			"this process had no connection free in time: its workers hold by lease what they would hold in transactions")
	}
	for _, w := range info.Warnings {
		object := info.Engine
		if w.Object != "" {
			object = w.Object
		}
		d.add(w.Bad, w.Code, object, w.Hint, "%s", w.Text)
	}
	d.ahead = new(time.Duration)
	if info.Clock.IsZero() {
		return nil
	}
	*d.ahead = info.Clock.Sub(before.Add(after.Sub(before) / 2))
	if d.ahead.Abs()-after.Sub(before) > mayDiffer {
		how := "ahead of"
		if *d.ahead < 0 {
			how = "behind"
		}
		d.add(false, reasonClock, "store", "set the clocks by NTP",
			"the store's clock is %s %s this program's; what is due is due by the store's", round(d.ahead.Abs()), how)
	}
	return nil
}

// now is the store's time.
func (d *diagnosis) now(ctx context.Context) (time.Time, error) {
	if d.ahead == nil {
		info, err := d.b.be.Info(ctx)
		if err != nil {
			return time.Time{}, err
		}
		d.ahead = new(time.Duration)
		if !info.Clock.IsZero() {
			*d.ahead = time.Until(info.Clock)
		}
	}
	return time.Now().Add(*d.ahead), nil
}

// lateFactor is how many of its usual periods a duty may be late before it
// counts as stopped.
const lateFactor = 10

// duties looks for what should have been done by now.
func (d *diagnosis) duties(ctx context.Context) error {
	overdue, err := d.b.be.Overdue(ctx)
	if err != nil {
		return err
	}
	for duty := range backend.Duty(backend.DutyCount) {
		if late := overdue[duty]; late > lateFactor*every[duty] {
			d.stopped(duty.String(), late)
		}
	}
	return nil
}

func (d *diagnosis) stopped(duty string, late time.Duration) {
	who := "no worker runs: start a program that opens a Broker, without Options.NoDuties"
	for _, w := range d.workers {
		if w.Left >= 0 {
			who = "see the logs of " + w.Owner + ", which runs, for duties that fail, and look for transactions that stay open"
		}
	}
	d.add(true, reasonDuty, "duty "+duty, who, "what this background duty does has been due for %s", round(late))
}

func round(t time.Duration) time.Duration {
	if t < 10*time.Second {
		return t.Round(time.Millisecond)
	}
	return t.Round(time.Second)
}
