package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// cancelRequest is a row of the table cancel.
type cancelRequest struct {
	backend.CancelRequest
	key backend.ID // with the ID
}

// RequestCancel implements backend.TxCancels.
func (t *Tx) RequestCancel(ctx context.Context, queue int64, ids []backend.ID) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := t.Exec(ctx, t.s.q.CancelInsert, id, backend.NewID(), queue); err != nil {
			return err
		}
	}
	return nil
}

// CancelRequests implements backend.Cancels.
func (s *Store) CancelRequests(ctx context.Context) (list []backend.CancelRequest, err error) {
	rows, err := s.cancelRequests(ctx)
	for _, r := range rows {
		list = append(list, r.CancelRequest)
	}
	return list, err
}

func (s *Store) cancelRequests(ctx context.Context) (list []cancelRequest, err error) {
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var c cancelRequest
			var age int64
			err := rows.Scan(ID(&c.ID), ID(&c.key), &c.Queue, &age)
			c.Age = max(time.Duration(age)*time.Microsecond, 0)
			list = append(list, c)
			return err
		}, s.q.CancelList)
	})
	return list, err
}

// maintainCancels cancels what waits again, and removes requests that are met.
func (s *Store) maintainCancels(ctx context.Context, limit int) (moved int, err error) {
	list, err := s.cancelRequests(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range list {
		met := false
		err := s.atomically(ctx, func(tx *Tx) error {
			if c.Queue == 0 {
				met, err = tx.cancelTask(ctx, c.ID)
			} else {
				met, err = tx.cancelAgain(ctx, c.Queue, c.ID)
			}
			if err == nil && met {
				_, err = tx.Exec(ctx, s.q.CancelDelete, c.ID, c.key)
			}
			return err
		})
		if err != nil {
			return moved, err
		}
		if met {
			moved++
		}
		if moved == limit {
			break
		}
	}
	return moved, nil
}

// cancelAgain cancels a post that waits, and reports whether no receiver has it in hand. A job may
// move the post from one table to the next between two looks, but not twice.
func (t *Tx) cancelAgain(ctx context.Context, queue int64, id backend.ID) (met bool, err error) {
	for range 2 {
		err = t.Cancel(ctx, queue, id)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, backend.ErrGroupBusy):
			return false, nil
		case !errors.Is(err, backend.ErrNotPending):
			return false, err
		}
	}
	return true, nil
}

// cancelTask cancels a task that waits, and reports whether no worker has it in hand.
func (t *Tx) cancelTask(ctx context.Context, id backend.ID) (met bool, err error) {
	var plan string
	found, err := t.Row(ctx, []any{Text(&plan)}, t.s.q.CancelPlan, id)
	if err != nil || !found {
		return err == nil, err
	}
	if had, err := t.TryLock(ctx, t.s.q.ScheduleTry, plan); err != nil || !had {
		return false, err
	}
	n, _, err := t.Control(ctx, plan, backend.PlanCancel, id)
	return n > 0, err
}

// PendingPosts implements backend.Cancels.
func (s *Store) PendingPosts(ctx context.Context, q backend.PendingQuery) (list []backend.PendingPost, err error) {
	limit := max(q.Limit, 1)
	err = s.reading(ctx, func(r run) error {
		page := func(stmt *Stmt, args ...any) error {
			return r.Rows(ctx, func(rows *sql.Rows) error {
				var p backend.PendingPost
				err := rows.Scan(ID(&p.ID), Text(&p.Key), Text(&p.Type))
				list = append(list, p)
				return err
			}, stmt, args...)
		}
		if q.Key != "" {
			err := page(s.q.PendingDelayedOfKey, q.Queue, q.Key, q.After, limit)
			if err == nil {
				err = page(s.q.PendingOfKey, q.Queue, q.Key, q.After, limit)
			}
			return err
		}
		for _, stmt := range []*Stmt{s.q.PendingDelayed, s.q.PendingPosts, s.q.PendingKeyed} { // a post may join its queue meanwhile
			if err := page(stmt, q.Queue, q.After, limit); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b backend.PendingPost) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	list = slices.CompactFunc(list, func(a, b backend.PendingPost) bool { return a.ID == b.ID }) // it joined its queue
	return list[:min(len(list), limit)], err
}
