package mssql

import (
	"context"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// submit adds tasks to a schedule in one statement.
func (p *pool) submit(ctx context.Context, tx *sqlstore.Tx, schedule backend.ID, first int64, caller string, tasks []backend.NewTask) error {
	rows := make([]batchRow, len(tasks))
	for i, t := range tasks {
		rows[i] = batchRow{
			N: int32(i + 1), Stream: schedule[:], Seq: int64(t.Phase), ID: t.ID[:], Type: t.Type, Body: t.Body, Group: schedule[:],
		}
	}
	_, err := tx.Exec(ctx, p.many.Submit, p.batchTable(rows), schedule, first, caller)
	return err
}
