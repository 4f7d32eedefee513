package sqlstore

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// Promote implements backend.Tx.
func (t *Tx) Promote(ctx context.Context, p backend.Promotion) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	queue, err := t.queueOf(ctx, p.Group)
	if err != nil {
		return err
	}
	if queue == 0 {
		return backend.ErrNoGroup
	}
	_, err = t.Exec(ctx, t.s.q.PromotionPut, p.Group, queue, p.Level, p.Sticky)
	return err
}

// queueOf returns the queue of a group or of a post without key, delayed ones
// included; 0 if there is none.
func (r run) queueOf(ctx context.Context, id backend.ID) (queue int64, err error) {
	g, err := r.group(ctx, id)
	if err != nil || g != nil {
		if g != nil {
			queue = g.queue
		}
		return queue, err
	}
	p, err := r.post(ctx, id)
	if err != nil || p != nil {
		if p != nil {
			queue = p.Queue
		}
		return queue, err
	}
	d, err := r.delayed(ctx, id)
	if err == nil && d != nil && d.Key == "" {
		queue = d.Queue
	}
	return queue, err
}

// Demote implements backend.Tx.
func (t *Tx) Demote(ctx context.Context, group backend.ID) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.PromotionDrop, group)
	return err
}

// Unpark implements backend.Tx.
func (t *Tx) Unpark(ctx context.Context, id backend.ID) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	g, locked, err := t.take(ctx, id)
	switch {
	case err != nil:
		return err
	case g == nil:
		return t.unparkPost(ctx, id)
	case !locked:
		return backend.ErrGroupBusy
	case g.blocked == 0:
		return nil
	}
	return t.unblock(ctx, g)
}

func (t *Tx) unparkPost(ctx context.Context, id backend.ID) error {
	locked, err := t.TryLock(ctx, t.s.q.PostFree, id)
	if err != nil {
		return err
	}
	p, err := t.post(ctx, id)
	switch {
	case err != nil:
		return err
	case p == nil:
		return backend.ErrNoGroup
	case !locked || p.leased():
		return backend.ErrGroupBusy
	}
	_, err = t.Exec(ctx, t.s.q.PostUnblock, id)
	return err
}

// unblock makes a group that we hold ready again. A marker that we can see
// cannot go while we hold the group, so only streams without one are looked at.
// A stream whose guard cannot be had has a sender in flight that may or may not
// have made a marker, and may yet roll back: the group is marked for another
// look (DutyDeferred). To insert markers blindly would wait for that sender.
func (t *Tx) unblock(ctx context.Context, g *group) error {
	streams, err := t.IDs(ctx, t.s.q.MarkersMissing, g.id)
	if err != nil {
		return err
	}
	var ours []*Stream
	missed := false
	for _, id := range streams {
		s, err := t.guard(ctx, id)
		switch {
		case err == backend.ErrStreamBusy:
			missed = true
		case err != nil:
			return err
		case s != nil:
			ours = append(ours, s)
		}
	}
	for _, s := range ours {
		if err := t.remark(ctx, *s); err != nil {
			return err
		}
	}
	if err := t.restandAll(ctx, g); err != nil {
		return err
	}
	_, err = t.Exec(ctx, t.s.q.GroupUnblock, missed, g.id)
	return err
}

// restandAll gives streams that got a marker while their group was blocked the
// place of their first message. Where a guard is busy it stays as it is.
func (t *Tx) restandAll(ctx context.Context, g *group) error {
	streams, err := t.IDs(ctx, t.s.q.MarkerRead, g.id)
	if err != nil {
		return err
	}
	for _, id := range streams {
		s, err := t.guard(ctx, id)
		if err == backend.ErrStreamBusy || s == nil && err == nil {
			continue
		}
		if err == nil {
			err = t.remark(ctx, *s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
