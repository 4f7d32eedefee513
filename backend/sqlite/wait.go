package sqlite

import (
	"context"
	"errors"
	"time"
)

// Listen implements backend.Listener. It polls the file's data version on a separate connection.
// "The integer values returned by two invocations of PRAGMA data_version from the same connection
// will be different if changes were committed to the database by any other connection in the
// interim". That includes this process's own commits, and says nothing of what they were.
func (s *Store) Listen(ctx context.Context, wake func(queue int64)) error {
	for {
		err := s.watch(ctx, func() { wake(0) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_ = err // whatever it was: begin again
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// watch calls changed after each change until something goes wrong, and at once:
// a receiver may have looked before it could see changes.
func (s *Store) watch(ctx context.Context, changed func()) error {
	if err := s.pool.open(ctx); err != nil {
		return err
	}
	conn, err := s.pool.read.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stmt, err := conn.PrepareContext(ctx, "PRAGMA data_version")
	if err != nil {
		return err
	}
	defer stmt.Close()
	var last int64
	if err := stmt.QueryRowContext(ctx).Scan(&last); err != nil {
		return err
	}
	changed()
	tick := time.NewTicker(s.pool.options.PollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var v int64
		if err := stmt.QueryRowContext(context.WithoutCancel(ctx)).Scan(&v); err != nil {
			return err
		}
		if v != last {
			last = v
			changed()
		}
	}
}

// Notify implements backend.Listener: listeners find out by themselves.
func (s *Store) Notify(context.Context, []int64) error { return errors.ErrUnsupported }
