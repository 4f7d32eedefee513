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

// Diagnose says why messages do not move: of all queues, or, if what is not
// empty, of the queue of that name, or of the group, message or handle with that
// id. No finding means that there is no reason to be seen.
func (b *Broker) Diagnose(ctx context.Context, what string) ([]Finding, error) {
	d := &diagnosis{b: b, what: what}
	err := d.all(ctx)
	return d.found, fail("diagnose", what, err)
}

type diagnosis struct {
	b       *Broker
	what    string
	found   []Finding
	workers []WorkerStatus
}

func (d *diagnosis) add(bad bool, code, object, hint, format string, args ...any) {
	d.found = append(d.found, Finding{Code: code, Bad: bad, Object: object, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (d *diagnosis) all(ctx context.Context) error {
	switch err := d.b.be.Check(ctx); {
	case errors.Is(err, ErrNotMigrated):
		d.add(true, "schema.missing", "database", "parley migrate", "%v", err)
		return nil
	case errors.Is(err, ErrNewerSchema):
		d.add(true, "schema.newer", "database", "update this program", "%v", err)
		return nil
	case err != nil:
		return err
	}
	queues, err := d.b.Queues(ctx)
	if err != nil {
		return err
	}
	if d.workers, err = d.b.Workers(ctx); err != nil {
		return err
	}
	named := slices.ContainsFunc(queues, func(q QueueStatus) bool { return q.Name == d.what })
	var id ID
	if d.what != "" && !named {
		if id, err = ParseID(d.what); err != nil {
			return fmt.Errorf("%q is neither a queue nor an id: %w", d.what, ErrUnknownQueue)
		}
	}
	if d.what == "" {
		info, err := d.b.Info(ctx)
		if err != nil {
			return err
		}
		for _, w := range info.Warnings {
			d.add(false, "store.warning", info.Engine, "", "%s", w)
		}
	}
	known := false
	for _, q := range queues {
		if named && q.Name != d.what {
			continue
		}
		groups, err := d.groups(ctx, q, id)
		if err != nil {
			return err
		}
		if !id.IsZero() && groups == 0 {
			continue
		}
		known = true
		d.queue(q)
	}
	if err := d.withheld(ctx, id, &known); err != nil {
		return err
	}
	if !id.IsZero() && !known {
		return d.gone(ctx, id)
	}
	return nil
}

// queue looks at one queue and who serves it.
func (d *diagnosis) queue(q QueueStatus) {
	obj := objQueue(q.Name)
	if q.Disabled {
		d.add(true, "queue.disabled", obj, "Broker.EnableQueue", "the queue is disabled: nothing is received, and what is sent to it is withheld")
	}
	alive := 0
	for _, w := range d.workers {
		if w.Queue != q.ID {
			continue
		}
		if w.Left < 0 {
			d.add(false, "worker.dead", obj, "", "a worker of %s gave its last sign %s ago; it had %d groups in hand", w.Owner, round(-w.Left+aliveFor), len(w.InHand))
			continue
		}
		alive++
	}
	if alive == 0 && q.Depth > 0 {
		d.add(true, "worker.none", obj, "start a worker", "%d messages wait, the oldest for %s, and no worker serves the queue", q.Depth, round(q.Oldest))
	}
}

func round(t time.Duration) time.Duration { return t.Round(time.Second) }

// groups looks at the blocked and held groups of a queue, or at one of them, and
// returns how many it found.
func (d *diagnosis) groups(ctx context.Context, q QueueStatus, id ID) (n int, err error) {
	const page, most = 500, 100
	for offset := 0; ; offset += page {
		list, err := d.b.Groups(ctx, q.Name, offset, page)
		if err != nil {
			return n, err
		}
		for _, g := range list {
			if !id.IsZero() && g.Group != id {
				continue
			}
			n++
			obj := objGroup(g.Group) + " of " + objQueue(q.Name)
			switch g.State {
			case "parked":
				d.add(true, "group.parked", obj, "parley parked show, retry, skip or discard "+g.Group.String(),
					"parked for %s, with %d messages: %s", round(g.Since), g.Messages, g.Reason)
			case "deferred":
				d.add(false, "group.deferred", obj, "", "put off for another %s, with %d messages: %s", round(g.Until), g.Messages, g.Reason)
			case "held":
				d.add(false, "group.held", obj, "", "held by %s for %s; its lease lasts another %s", g.Owner, round(g.Since), round(g.Until))
			}
			if id.IsZero() && len(d.found) >= most {
				d.add(false, "more", objQueue(q.Name), "parley groups "+q.Name, "there may be more")
				return n, nil
			}
		}
		if len(list) < page {
			break
		}
	}
	for _, w := range d.workers {
		if w.Queue != q.ID || len(w.InHand) == 0 || w.Left < 0 {
			continue
		}
		if id.IsZero() && w.Since > 10*time.Second || slices.Contains(w.InHand, id) {
			d.add(false, "message.inhand", objQueue(q.Name), "", "a reader of %s has %d groups in hand, or had, since %s", w.Owner, len(w.InHand), round(w.Since))
			if slices.Contains(w.InHand, id) {
				n++
			}
		}
	}
	return n, nil
}

// withheld looks at messages that wait for their target.
func (d *diagnosis) withheld(ctx context.Context, id ID, known *bool) error {
	if d.what != "" && id.IsZero() {
		return nil
	}
	list, err := d.b.Withheld(ctx, 100)
	if err != nil {
		return err
	}
	for _, s := range list {
		if !id.IsZero() && s.From.Handle != id && s.From.Conversation != id {
			continue
		}
		*known = true
		d.add(true, "message.withheld", objConv(s.From.Handle), "define or enable the service's queue", "%d messages for service %q wait for %s: %s", s.Count, s.From.Far, round(s.Waiting), s.Status)
	}
	return nil
}

// gone says what became of an id that is nowhere in a queue.
func (d *diagnosis) gone(ctx context.Context, id ID) error {
	dead, err := d.b.DeadLetters(ctx, "", 1000)
	if err != nil {
		return err
	}
	for _, x := range dead {
		if x.Message.ID == id || x.Message.Group == id {
			d.add(true, "message.dead", "message "+x.Message.ID.String(), "parley dead requeue or discard", "a dead letter for %s: %s", round(x.Age), x.Reason)
		}
	}
	if len(d.found) == 0 {
		d.add(false, "unknown", id.String(), "", "nothing with this id waits: it was handled, or has never been there")
	}
	return nil
}
