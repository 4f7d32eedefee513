package postgres

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// endFirst ends the side of a conversation that ends first, in one statement.
func (p *pool) endFirst(ctx context.Context, tx *sqlstore.Tx, end backend.End) (queue int64, unread []sqlstore.Unread, err error) {
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var u sqlstore.Unread
		var kind, seq sql.NullInt64
		err := rows.Scan(&queue, sqlstore.ID(&u.Stream), &kind, &seq)
		if u.Kind, u.Seq = kind.Int64, seq.Int64; seq.Valid {
			unread = append(unread, u)
		}
		return err
	}, p.hot.EndFirst, end.Handle, end.MessageID, backend.TypeEndDialog)
	return queue, unread, err
}

// endGuards locks the guards of both sides. It waits for the first only.
func (p *pool) endGuards(ctx context.Context, tx *sqlstore.Tx, handle, far backend.ID) (farLocked bool, err error) {
	return tx.Row(ctx, []any{new(int)}, p.hot.EndGuards, handle, far)
}

// dropUnread removes what a side has not read, in one statement.
func (p *pool) dropUnread(ctx context.Context, tx *sqlstore.Tx, group, handle backend.ID) (unread []sqlstore.Unread, err error) {
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var u sqlstore.Unread
		var seq sql.NullInt64
		err := rows.Scan(sqlstore.ID(&u.Stream), &u.Kind, &seq)
		if u.Seq = seq.Int64; seq.Valid {
			unread = append(unread, u)
		}
		return err
	}, p.hot.DropUnread, group, handle)
	return unread, err
}

// removeSides removes both sides of a conversation in one statement.
func (p *pool) removeSides(ctx context.Context, tx *sqlstore.Tx, handle, far backend.ID) (bool, error) {
	return tx.Row(ctx, []any{new(int)}, p.hot.RemoveSides, handle, far)
}
