package mysql

import (
	"context"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// submit adds tasks to a schedule, many in one statement.
func (p *pool) submit(ctx context.Context, tx *sqlstore.Tx, schedule backend.ID, first int64, caller string, tasks []backend.NewTask) error {
	if len(tasks) == 0 {
		return nil
	}
	rows := make(tuples, len(tasks))
	for i, t := range tasks {
		rows[i] = []any{t.ID, schedule, first + int64(i), t.Phase, t.Type, t.Body, caller, expression(now)}
	}
	return insertRows(ctx, tx, p.hot.submit, rows, 5)
}

// start starts tasks that were never claimed.
func (p *pool) start(ctx context.Context, tx *sqlstore.Tx, c backend.TaskClaim, tasks []backend.ID) (int64, error) {
	return tx.Exec(ctx, p.hot.start, c.Owner, c.Lease, ids(tasks))
}
