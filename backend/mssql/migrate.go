package mssql

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// hasten limits the session's waits for locks.
func (p *pool) hasten(ctx context.Context, tx backend.Execer) (undo func(), err error) {
	_, err = tx.ExecContext(ctx, "SET LOCK_TIMEOUT 2000")
	return func() { tx.ExecContext(context.WithoutCancel(ctx), "SET LOCK_TIMEOUT -1") }, err
}

// drain waits for the transactions that have locked rows of senders and receivers. Such a
// transaction has an intent lock on the table, which is incompatible with drain's exclusive lock
// ("Transaction locking and row versioning guide"). Later transactions wait behind drain, so it
// gives up after a second and tries again.
func (p *pool) drain(ctx context.Context) error {
	for _, table := range []string{"stream", "grp", "post", "task"} {
		for {
			// The lock ends with the statement, which is a separate transaction.
			_, err := p.db.ExecContext(ctx, fmt.Sprintf(`
				SET LOCK_TIMEOUT 1000;
				DECLARE @one int;
				SELECT TOP (1) @one = 1 FROM %s%s%s WITH (TABLOCKX)`, p.schema(), p.options.Prefix, table))
			if classify(err) != backend.ErrSerialization {
				if err != nil {
					return err
				}
				break
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (p *pool) schema() string {
	if p.options.Schema == "" {
		return ""
	}
	return p.options.Schema + "."
}
