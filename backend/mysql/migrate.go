package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// hasten limits the session's waits for locks.
func (p *pool) hasten(ctx context.Context, tx backend.Execer) (undo func(), err error) {
	a, ok := tx.(application)
	if !ok {
		return nil, errors.New("parley: mysql: a migration needs a separate transaction")
	}
	conn := a.t.conn
	_, err = conn.ExecContext(ctx, `
		SET @parley_lock_wait = @@SESSION.lock_wait_timeout, @parley_row_wait = @@SESSION.innodb_lock_wait_timeout,
		    SESSION lock_wait_timeout = 2, SESSION innodb_lock_wait_timeout = 2`)
	return func() {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), `
			SET SESSION lock_wait_timeout = @parley_lock_wait, SESSION innodb_lock_wait_timeout = @parley_row_wait`)
		if err != nil {
			a.t.discard() // it shall not go back to the pool
		}
	}, err
}

// drain waits for the transactions that have read the table meta, as all that send or claim do. It
// changes the table's definition, which needs exclusive access for a moment. Later transactions
// wait behind it, so it gives up after a second and tries again.
func (p *pool) drain(ctx context.Context) error {
	for {
		err := p.barrier(ctx)
		if number(err) != 1205 { // ER_LOCK_WAIT_TIMEOUT
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *pool) barrier(ctx context.Context) error {
	conn, s, err := p.conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `
		SET @parley_lock_wait = @@SESSION.lock_wait_timeout, SESSION lock_wait_timeout = 1`); err != nil {
		return err
	}
	return p.guarded(ctx, s, func(ctx context.Context) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("ALTER TABLE %smeta ALTER COLUMN min_program SET DEFAULT 0", p.prefix))
		_, undone := conn.ExecContext(ctx, "SET SESSION lock_wait_timeout = @parley_lock_wait")
		return errors.Join(err, undone)
	})
}
