package sqlstore

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/parleymq/parley/backend"
)

// NextRecurring implements backend.TxRecurring.
func (t *Tx) NextRecurring(ctx context.Context) (*backend.RecurringJob, time.Duration, error) {
	if err := t.ready(ctx); err != nil {
		return nil, 0, err
	}
	var due []string
	var next time.Duration
	err := t.look(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var name string
			var us int64
			if err := rows.Scan(&name, &us); err != nil {
				return err
			}
			if us > 0 {
				next = time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
				return errEnough
			}
			due = append(due, name)
			return nil
		}, r.s.q.RecurringLook)
	})
	if err != nil {
		return nil, 0, err
	}
	for _, name := range due {
		had, err := t.TryLock(ctx, t.s.q.RecurringTry, name)
		if err != nil {
			return nil, 0, err
		}
		if !had {
			continue
		}
		j, err := t.recurring(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		if j != nil && j.State == backend.RecurringActive && !j.Look.After(j.Now) {
			return j, 0, nil
		}
	}
	return nil, next, nil
}

// LockRecurring implements backend.TxRecurring.
func (t *Tx) LockRecurring(ctx context.Context, name string) (*backend.RecurringJob, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		if _, err := t.TryLock(ctx, t.s.q.RecurringLock, name); err != nil {
			return nil, err
		}
		if j, err := t.recurring(ctx, name); err != nil || j != nil || try > 0 {
			return j, err
		}
		if _, err := t.Exec(ctx, t.s.q.RecurringInsert, name); err != nil {
			return nil, err
		}
	}
}

// SetRecurring implements backend.TxRecurring.
func (t *Tx) SetRecurring(ctx context.Context, j backend.RecurringJob) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.RecurringUpdate, j.Revision, j.Queue, j.Type, j.Body, j.Cron, j.Zone, j.Every,
		j.Jitter, j.Grace, j.CatchUp, j.Overlap, string(j.State), micros(j.Due), micros(j.Look), micros(j.Last),
		j.Fired, j.Skipped, j.Failures, j.Error, j.Name)
	return err
}

// micros is what a column has of an instant: 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// RecurringJobs implements backend.Recurring.
func (s *Store) RecurringJobs(ctx context.Context) (list []backend.RecurringJob, err error) {
	err = s.reading(ctx, func(r run) error {
		list, err = r.recurringJobs(ctx, s.q.RecurringList)
		return err
	})
	return list, err
}

// recurring reads a job, nil if there is none.
func (r run) recurring(ctx context.Context, name string) (*backend.RecurringJob, error) {
	list, err := r.recurringJobs(ctx, r.s.q.RecurringRead, name)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

func (r run) recurringJobs(ctx context.Context, q *Stmt, args ...any) (list []backend.RecurringJob, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var j backend.RecurringJob
		var every, jitter, grace, due, look, last, now int64
		err := rows.Scan(Text(&j.Name), &j.Revision, Text(&j.Queue), Text(&j.Type), Body(&j.Body), Text(&j.Cron),
			Text(&j.Zone), &every, &jitter, &grace, Text(&j.CatchUp), Text(&j.Overlap), Text((*string)(&j.State)), &due, &look, &last,
			&j.Fired, &j.Skipped, &j.Failures, Text(&j.Error), &now)
		if err == nil {
			j.Every, j.Jitter = time.Duration(every)*time.Microsecond, time.Duration(jitter)*time.Microsecond
			j.Grace = time.Duration(grace) * time.Microsecond
			j.Due, j.Look, j.Last, j.Now = instant(due), instant(look), instant(last), instant(now)
			list = append(list, j)
		}
		return err
	}, q, args...)
	return list, err
}
