package sqlstore

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/parleymq/parley/backend"
)

// maintainMarkers removes entries from the head of the ready orders that are in the
// way of claims.
func (s *Store) maintainMarkers(ctx context.Context, limit int) (moved int, err error) {
	var queues []int64
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			queues = append(queues, id)
			return err
		}, s.q.ReadyQueues)
	})
	if err != nil {
		return 0, err
	}
	for _, queue := range queues {
		n, err := s.maintainStale(ctx, queue)
		moved += n
		if err != nil || moved >= limit {
			return moved, err
		}
	}
	return moved, nil
}

func (s *Store) maintainStale(ctx context.Context, queue int64) (moved int, err error) {
	blocked := make(map[backend.ID]bool)     // groups
	empty := make(map[backend.ID]backend.ID) // streams, with their groups
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var id, group backend.ID
			var state sql.NullInt64
			if err := rows.Scan(ID(&id), ID(&group), &state); err != nil {
				return err
			}
			if state.Int64 != 0 {
				blocked[group] = true
			} else {
				empty[id] = group
			}
			return nil
		}, s.q.Stale, queue)
	})
	if err != nil {
		return 0, err
	}
	for group := range blocked {
		n, err := s.takeOut(ctx, group)
		moved += n
		if err != nil {
			return moved, err
		}
	}
	if len(empty) == 0 {
		return moved, nil
	}
	// No group is needed for these: who holds the guard of a stream without
	// messages knows that there will be none until he lets go.
	rest := SortIDs(slices.Collect(maps.Keys(empty)))
	for len(rest) > 0 && err == nil {
		err = s.atomically(ctx, func(tx *Tx) (err error) {
			rest, err = briefly(rest, func(id backend.ID) error {
				n, err := tx.sweep(ctx, empty[id], id)
				moved += n
				return err
			})
			return err
		})
	}
	return moved, err
}

// sweep removes a marker if its stream has no message.
func (t *Tx) sweep(ctx context.Context, group, id backend.ID) (int, error) {
	s, err := t.guard(ctx, id)
	if err == backend.ErrStreamBusy {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if s != nil {
		var seq, since int64
		found, err := t.Row(ctx, []any{&seq, &since}, t.s.q.MessageFirst, id)
		if err != nil || found {
			return 0, err
		}
	}
	return t.takeMarker(ctx, group, id)
}

// takeMarker removes a marker unless another transaction has locked it.
func (t *Tx) takeMarker(ctx context.Context, group, id backend.ID) (int, error) {
	if free, err := t.TryLock(ctx, t.s.q.MarkerTry, group, id); err != nil || !free {
		return 0, err
	}
	n, err := t.Exec(ctx, t.s.q.MarkerDelete, group, id)
	return int(n), err
}
