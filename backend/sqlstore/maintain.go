package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// Maintain implements backend.Backend.
func (s *Store) Maintain(ctx context.Context, job backend.Job, limit int) (done backend.Maintained, err error) {
	if s.closed.Load() {
		return done, backend.ErrClosed
	}
	if err := s.admitAgain(ctx); err != nil {
		return done, err
	}
	limit = max(limit, 1)
	switch job {
	case backend.JobDelayed:
		done, err = s.maintainFalling(ctx, s.delayed(), limit)
	case backend.JobTimers:
		done, err = s.maintainFalling(ctx, s.timers(job, timerDialog), limit)
	case backend.JobLifetimes:
		done, err = s.maintainFalling(ctx, s.timers(job, timerLifetime), limit)
	case backend.JobDeferred:
		done, err = s.maintainDeferred(ctx, limit)
	case backend.JobMarkers:
		done.Moved, err = s.maintainMarkers(ctx, limit)
	case backend.JobClosed:
		done.Moved, done.Next, err = s.maintainClosed(ctx, limit)
	case backend.JobGroups:
		done.Moved, done.Next, err = s.maintainGroups(ctx, limit)
	case backend.JobWorkers:
		done.Moved, err = s.maintainWorkers(ctx)
	case backend.JobProcessed:
		if done.Moved, err = s.maintainProcessed(ctx, limit); err == nil {
			done.Next, err = s.next(ctx, s.q.NextProcessed)
		}
	case backend.JobOnce:
		done.Moved, err = s.maintainOnce(ctx, limit)
	case backend.JobCancels:
		done.Moved, err = s.maintainCancels(ctx, limit)
	default:
		err = fmt.Errorf("there is no maintenance job %d", job)
	}
	return done, err
}

// soon is when to look again at what is due but was locked.
const soon = 50 * time.Millisecond

// next returns the time until the first row of a query is due, zero if there is none.
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
