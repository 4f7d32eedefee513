package sqlstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// Keep implements backend.Tx: the group, whose row is locked, is leased from the
// commit on.
func (t *Tx) Keep(ctx context.Context, h *backend.Hold, lease time.Duration, owner string) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	if !t.holding(h) {
		return backend.ErrFenced
	}
	q := t.s.q.GroupLease
	if heldOf(h).post {
		q = t.s.q.PostLease
	}
	if _, err := t.Exec(ctx, q, lease, owner, h.Group); err != nil {
		return err
	}
	if heldOf(h).post {
		t.part(h)
		p, err := t.post(ctx, h.Group)
		if err == nil && p == nil {
			err = backend.ErrFenced
		}
		if err == nil {
			h.Fence = p.Fence
		}
		return err
	}
	g, err := t.group(ctx, h.Group)
	if err == nil && g == nil {
		err = backend.ErrFenced
	}
	if err == nil {
		h.Fence = g.fence
	}
	return err
}
