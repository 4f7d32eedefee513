package sqlstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// Tend implements backend.Backend.
func (s *Store) Tend(ctx context.Context, duty backend.Duty, limit int) (moved int, next time.Duration, err error) {
	if s.closed.Load() {
		return 0, 0, backend.ErrClosed
	}
	if err := s.admitAgain(ctx); err != nil {
		return 0, 0, err
	}
	limit = max(limit, 1)
	switch duty {
	case backend.DutyDelayed:
		moved, next, err = s.tendFalling(ctx, s.delayed(), limit)
	case backend.DutyTimers:
		moved, next, err = s.tendFalling(ctx, s.timers(duty, timerDialog), limit)
	case backend.DutyLifetimes:
		moved, next, err = s.tendFalling(ctx, s.timers(duty, timerLifetime), limit)
	case backend.DutyDeferred:
		moved, next, err = s.tendDeferred(ctx, limit)
	case backend.DutyMarkers:
		moved, err = s.tendMarkers(ctx, limit)
	case backend.DutyClosed:
		moved, next, err = s.tendClosed(ctx, limit)
	case backend.DutyGroups:
		moved, next, err = s.tendGroups(ctx, limit)
	case backend.DutyWorkers:
		moved, err = s.tendWorkers(ctx)
	case backend.DutyProcessed:
		if moved, err = s.tendProcessed(ctx, limit); err == nil {
			next, err = s.next(ctx, s.q.NextProcessed)
		}
	case backend.DutyOnce:
		moved, err = s.tendOnce(ctx, limit)
	}
	return moved, next, err
}

// soon is when to look again at what is due but was locked.
const soon = 50 * time.Millisecond

// next is in how long the first of something is due, zero if there is none.
func (s *Store) next(ctx context.Context, q *Stmt, args ...any) (next time.Duration, err error) {
	err = s.reading(ctx, func(r run) error {
		var us int64
		found, err := r.Row(ctx, []any{&us}, q, args...)
		if found {
			next = max(time.Duration(us)*time.Microsecond, soon)
		}
		return err
	})
	return next, err
}

// due lists ids of what is due.
func (s *Store) due(ctx context.Context, q *Stmt, args ...any) (ids []backend.ID, err error) {
	err = s.reading(ctx, func(r run) (err error) {
		ids, err = r.IDs(ctx, q, args...)
		return err
	})
	return ids, err
}
