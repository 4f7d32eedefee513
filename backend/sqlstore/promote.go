package sqlstore

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
)

// Promote implements backend.Tx.
func (t *Tx) Promote(ctx context.Context, p backend.Promotion) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	if p.Group.IsZero() { // a key's stream is all of its group
		if found, err := t.Row(ctx, []any{ID(&p.Group)}, t.s.q.KeyRead, p.Queue, p.Key); err != nil {
			return err
		} else if !found {
			return backend.ErrNoGroup
		}
	}
	queue, err := t.queueOf(ctx, p.Group)
	if err != nil {
		return err
	}
	if queue == 0 {
		return backend.ErrNoGroup
	}
	lasts := onceServed
	switch {
	case p.Sticky:
		lasts = sticky
	case p.UntilEmpty:
		lasts = untilEmpty
	}
	_, err = t.Exec(ctx, t.s.q.PromotionPut, p.Group, queue, p.Level, int64(lasts))
	return err
}

// Lasting is how long a promotion lasts, in the column sticky. Programs that do not know untilEmpty take it for sticky.
type Lasting int64

const (
	onceServed Lasting = iota
	sticky
	untilEmpty
)

// usePromotion removes the promotion that a hold came by, which is not sticky, when it ends.
// It does not if the promotion was replaced or is being replaced: a delete would wait for that.
func (t *Tx) usePromotion(ctx context.Context, h *backend.Hold) error {
	version := heldOf(h).version
	locked, err := t.TryLock(ctx, t.s.q.PromotionTry, h.Group, version)
	if err != nil || !locked {
		return err
	}
	if heldOf(h).lasts == untilEmpty {
		if waits, err := t.groupWaits(ctx, h.Group); err != nil || waits {
			return err
		}
		_, err = t.Exec(ctx, t.s.q.PromotionEmpty, h.Group, version)
		return err
	}
	_, err = t.Exec(ctx, t.s.q.PromotionDelete, h.Group, version)
	return err
}

// emptied ends a promotion until empty of a group that we hold, if nothing waits there any more.
func (t *Tx) emptied(ctx context.Context, group backend.ID) error {
	h := NewHold(backend.ClaimRequest{}, group, 0, onceServed)
	if err := t.ReadPromotion(ctx, h); err != nil || heldOf(h).lasts != untilEmpty {
		return err
	}
	return t.usePromotion(ctx, h)
}

// groupWaits reports whether messages wait in a group.
func (t *Tx) groupWaits(ctx context.Context, group backend.ID) (waits bool, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var witness int
		err := rows.Scan(Bool(&waits), Witness(&witness))
		if err == nil && waits {
			err = errEnough
		}
		return err
	}, t.s.q.GroupWaits, group)
	return waits, err
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
	}
	if g.blocked == 0 {
		_, err = t.readmit(ctx, g)
		return err
	}
	_, _, err = t.unblock(ctx, g, 0)
	return err
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
