package mssql

import (
	"context"
	"errors"
	"time"
)

// Listen implements backend.Listener. SQL Server cannot notify a client of a commit, but it has
// counters. Messages and posts have a rowversion. @@DBTS grows when a row is written.
// MIN_ACTIVE_ROWVERSION, "the lowest active rowversion value in the current database", grows when
// the oldest transaction that has written one ends. A receiver that is woken too early finds a
// message that is not yet committed, and looks again soon. Neither value says what was written, and
// neither reads a table.
func (s *Store) Listen(ctx context.Context, wake func(queue int64)) error {
	tick := time.NewTicker(s.pool.options.PollEvery)
	defer tick.Stop()
	var last []byte
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, err := s.pool.version(ctx)
		if err != nil {
			last = nil // something may be missed
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
			}
			continue
		}
		if string(now) != string(last) {
			last = now
			wake(0)
		}
	}
}

func (p *pool) version(ctx context.Context) (v []byte, err error) {
	err = p.db.QueryRowContext(ctx, "SELECT @@DBTS + MIN_ACTIVE_ROWVERSION()").Scan(&v)
	return v, err
}

// Notify implements backend.Listener: listeners find out by themselves.
func (s *Store) Notify(context.Context, []int64) error { return errors.ErrUnsupported }
