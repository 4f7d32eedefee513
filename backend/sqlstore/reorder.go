package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Guards of many streams are taken in slices, because senders wait for them until the transaction
// ends. Where streams are looked at one by one, sliceTime is how long a slice may take after its
// first stream.
const (
	slice     = 100
	sliceTime = 10 * time.Millisecond
)

// briefly calls f for the first of ids, as many as make a slice, and returns the
// others.
func briefly(ids []backend.ID, f func(backend.ID) error) (rest []backend.ID, err error) {
	begun := time.Now()
	for n, id := range ids {
		if n == slice || n > 0 && time.Since(begun) > sliceTime {
			return ids[n:], nil
		}
		if err := f(id); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// unblock makes a group that we hold ready again, and puts a slice of its streams in their places
// in the ready order. None is before returned, the end of a deferral. It returns the streams that
// are left and whether a guard was busy; in both cases the group is marked for another look
// (JobDeferred).
//
// A marker that we can see cannot go while we hold the group, and a stream without messages gets
// one from its next sender. So it looks only at streams with messages that have no marker, or one
// at another place. If a stream's guard is busy, a sender is in flight that may have made
// a marker, and may yet roll back. Inserting markers blindly would wait for that sender.
func (t *Tx) unblock(ctx context.Context, g *group, returned int64) (rest []backend.ID, busy bool, err error) {
	rest, err = t.IDs(ctx, t.s.q.MarkersAstray, g.id, returned, returned)
	if err != nil {
		return nil, false, err
	}
	if len(rest) > 0 {
		if rest, busy, err = t.restore(ctx, g, rest, returned); err != nil {
			return nil, false, err
		}
	}
	_, err = t.Exec(ctx, t.s.q.GroupUnblock, returned, busy || len(rest) > 0, g.id)
	return rest, busy, err
}

// restore puts a slice of the streams of a group that we hold to their places.
func (t *Tx) restore(
	ctx context.Context, g *group, streams []backend.ID, returned int64,
) (rest []backend.ID, busy bool, err error) {
	if t.s.d.Restore != nil {
		some := streams[:min(slice, len(streams))]
		had, err := t.s.d.Restore(ctx, t, g.id, SortIDs(slices.Clone(some)), returned)
		return streams[len(some):], had < len(some), err
	}
	rest, err = briefly(streams, func(id backend.ID) error {
		s, err := t.guard(ctx, id)
		switch {
		case err == backend.ErrStreamBusy:
			busy = true
			return nil
		case err != nil || s == nil || s.Group != g.id:
			return err
		}
		return t.remark(ctx, *s, returned)
	})
	return rest, busy, err
}

// reopen makes a due group ready, and puts all its streams in their places, in transactions that
// each hold the guards of one slice. A receiver that takes the group meanwhile is left alone: the
// group stays marked for another look.
func (s *Store) reopen(ctx context.Context, id backend.ID) (queue int64, moved bool, err error) {
	var rest []backend.ID
	busy, again := false, true
	for again && err == nil {
		again = false
		err = s.holding(ctx, id, func(tx *Tx, g *group) (err error) {
			// It may have been received and deferred again since it was listed.
			due, err := tx.Row(ctx, []any{new(any)}, s.q.GroupDue, id)
			if err != nil || !due {
				return err
			}
			queue = g.queue
			if len(rest) == 0 {
				rest, busy, err = tx.unblock(ctx, g, g.until)
				again = len(rest) > 0
				moved = moved || g.blocked != 0 || !busy // else it is as it was
				return err
			}
			var missed bool
			rest, missed, err = tx.restore(ctx, g, rest, g.until)
			busy = busy || missed
			again = len(rest) > 0 || !busy // with none left: to find that out
			return err
		})
	}
	return queue, moved, err
}

// holding does work in a separate transaction that holds a group, unless another
// one does or there is no such group.
func (s *Store) holding(ctx context.Context, id backend.ID, work func(*Tx, *group) error) error {
	return s.atomically(ctx, func(tx *Tx) error {
		g, locked, err := tx.take(ctx, id)
		if err != nil || g == nil || !locked {
			return err
		}
		return work(tx, g)
	})
}

// takeOut takes the markers of a blocked group out of the ready order, a slice of
// them in each transaction. Where a guard is busy the marker stays.
func (s *Store) takeOut(ctx context.Context, id backend.ID) (moved int, err error) {
	var rest []backend.ID
	again := true
	for listed := false; again && err == nil; listed = true {
		again = false
		err = s.holding(ctx, id, func(tx *Tx, g *group) (err error) {
			if g.blocked == 0 {
				return nil
			}
			if !listed {
				if rest, err = tx.IDs(ctx, s.q.MarkerRead, id); err != nil {
					return err
				}
			}
			rest, err = briefly(rest, func(stream backend.ID) error {
				ok, err := tx.TryLock(ctx, s.q.GuardTry, stream)
				if err != nil || !ok {
					return err
				}
				n, err := tx.takeMarker(ctx, id, stream)
				moved += n
				return err
			})
			again = len(rest) > 0
			return err
		})
	}
	return moved, err
}
