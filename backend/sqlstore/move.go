package sqlstore

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// Move implements backend.Tx.
func (t *Tx) Move(ctx context.Context, handle, group backend.ID, newGroup bool) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	h, err := t.home(ctx, handle)
	switch {
	case err != nil:
		return err
	case h == nil:
		return backend.ErrNoConversation
	case h.ended:
		return backend.ErrEnded
	case h.group == group:
		return nil
	}
	if newGroup {
		n, err := t.Exec(ctx, t.s.q.GroupInsert, group, h.queue, h.service, "")
		if err != nil {
			return err
		}
		if n == 0 {
			return backend.ErrGroupBusy
		}
	} else {
		g, err := t.group(ctx, group)
		if err != nil {
			return err
		}
		if g == nil {
			return backend.ErrNoGroup
		}
		if g.queue != h.queue || g.service != h.service {
			return backend.ErrGroupElsewhere
		}
	}
	// The guard of the peer's stream is not waited for: the mover would hold two
	// groups meanwhile, and later senders would queue behind it. The other
	// streams have no writers.
	streams, err := t.streamsOf(ctx, h.group, handle)
	if err != nil {
		return err
	}
	for _, s := range streams {
		locked, err := t.TryLock(ctx, t.s.q.GuardTry, s.ID)
		if err != nil {
			return err
		}
		if !locked {
			return backend.ErrStreamBusy
		}
	}
	for _, s := range streams {
		if err := t.rehome(ctx, h, s.ID, group); err != nil {
			return err
		}
	}
	_, err = t.Exec(ctx, t.s.q.EndpointMove, group, handle)
	return err
}

// rehome makes group the home of a stream whose guard is ours.
func (t *Tx) rehome(ctx context.Context, h *home, id, group backend.ID) error {
	if _, err := t.Exec(ctx, t.s.q.StreamMove, group, id); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, t.s.q.MarkerMove, group, h.group, id); err != nil {
		return err
	}
	// A stream that comes out of a blocked group has no marker, or the marker of a later
	// send, at the place of that message. Only we, with the guard, can put that right.
	return t.remark(ctx, Stream{ID: id, Queue: h.queue, Group: group, Priority: h.priority}, 0)
}

// remark puts a stream whose guard is ours into the ready order, at the place
// of its first message, if it has one, or at a later one.
func (t *Tx) remark(ctx context.Context, s Stream, returned int64) error {
	var seq, since int64
	found, err := t.Row(ctx, []any{&seq, &since}, t.s.q.MessageFirst, s.ID)
	if err != nil || !found {
		return err
	}
	if err := t.mark(ctx, s); err != nil {
		return err
	}
	since = max(since, returned)
	_, err = t.Exec(ctx, t.s.q.MarkerSince, since, s.Group, s.ID, since)
	return err
}
