// Package doctor finds out why messages, groups, conversations and tasks do not move, and what is
// wrong with a store's set-up. docs/doctor.md explains its findings.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// Finding is something that keeps messages from moving, or will.
type Finding struct {
	// Code is the kind of finding, which stays the same: "queue.disabled",
	// "group.parked", …
	Code string `json:"code"`
	// Bad findings keep messages from moving; others are worth knowing.
	Bad    bool   `json:"bad"`
	Object string `json:"object"`
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

// Diagnose examines the whole store if what is empty. Otherwise it explains why the object called
// what does not move. Name a queue or a plan by its name, and a group, message, conversation or
// task by its id. No finding means that there is no visible reason. With an error it returns the
// findings so far.
func Diagnose(ctx context.Context, b *parley.Broker, what string) ([]Finding, error) {
	d := &diagnosis{b: b, be: b.Backend()}
	err := d.all(ctx, what)
	return d.found, parley.WrapError("diagnose", what, err)
}

type diagnosis struct {
	b       *parley.Broker
	be      parley.Backend
	found   []Finding
	queues  []parley.QueueStatus
	workers []parley.WorkerStatus
	catalog *parley.Catalog // as soon as it is needed
	ahead   *time.Duration  // the store's clock, as soon as it is known
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
	switch err := d.be.Check(ctx); {
	case errors.Is(err, parley.ErrNotMigrated):
		d.add(true, codeMissing, "store", "parley migrate", "%v", err)
		return nil
	case errors.Is(err, parley.ErrNewerSchema), errors.Is(err, parley.ErrUnknownSchema):
		d.add(true, codeNewer, "store", "update this program", "%v", err)
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
	d.add(true, codeUnreadable, "store", "", "the rest cannot be read: %v", err)
	return nil
}

func (d *diagnosis) look(ctx context.Context, what string) (err error) {
	if d.queues, err = backend.Offered(d.b.Admin().Queues(ctx)); err != nil {
		return err
	}
	if d.workers, err = backend.Offered(d.b.Admin().Workers(ctx)); err != nil {
		return err
	}
	if i := slices.IndexFunc(d.queues, func(q parley.QueueStatus) bool { return q.Name == what }); i >= 0 {
		d.queue(d.queues[i])
		return d.groups(ctx, d.queues[i])
	}
	if what != "" {
		id, err := parley.ParseID(what)
		if err == nil {
			return d.one(ctx, id)
		}
		list, err := backend.Offered(d.be.Plans(ctx, what))
		if errors.Is(err, backend.ErrNoPlan) {
			return fmt.Errorf("%q is neither a queue nor a plan nor an id: %w", what, parley.ErrUnknownQueue)
		}
		for _, s := range list {
			err = errors.Join(err, d.plan(ctx, s))
		}
		return err
	}
	for _, q := range d.queues {
		d.queue(q)
		if err := d.groups(ctx, q); err != nil {
			return err
		}
	}
	for _, look := range []func(context.Context) error{d.astray, d.withheld, d.promotions, d.jobs, d.conversations, d.plans, d.locks, d.recurring} {
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
	info, err := d.b.Info(ctx)
	after := time.Now()
	if err != nil {
		return err
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
		d.add(false, codeClock, "store", "set the clocks by NTP",
			"the store's clock is %s %s this program's; what is due is due by the store's", round(d.ahead.Abs()), how)
	}
	return nil
}

// now is the store's time.
func (d *diagnosis) now(ctx context.Context) (time.Time, error) {
	if d.ahead == nil {
		info, err := d.be.Info(ctx)
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

// lateFactor is how many of its usual periods a maintenance job may be late before it
// counts as stopped.
const lateFactor = 10

// withheldLate is how late the delivery of withheld messages may be before that
// counts as stopped.
const withheldLate = 20 * time.Second

// jobs looks for overdue maintenance.
func (d *diagnosis) jobs(ctx context.Context) error {
	overdue, err := backend.Offered(d.be.Overdue(ctx))
	if err != nil {
		return err
	}
	for job := range backend.Job(backend.JobCount) {
		if late := overdue[job]; late > lateFactor*job.Period() {
			d.stopped(job.String(), late)
		}
	}
	return nil
}

func (d *diagnosis) stopped(job string, late time.Duration) {
	who := "no worker runs: start a program that opens a Broker, without Options.NoMaintenance"
	for _, w := range d.workers {
		if w.Left >= 0 {
			who = "see the logs of " + w.Owner + ", which runs, for jobs that fail, and look for transactions that stay open"
		}
	}
	d.add(true, codeMaintenance, "job "+job, who, "what this background job does has been due for %s", round(late))
}

func round(t time.Duration) time.Duration {
	if t < 10*time.Second {
		return t.Round(time.Millisecond)
	}
	return t.Round(time.Second)
}

func objQueue(name string) string { return fmt.Sprintf("queue %q", name) }
func objGroup(g parley.ID) string { return "group " + g.String() }
