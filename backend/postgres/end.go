package postgres

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// endFirst ends the side of a conversation that ends first, in one statement.
func (p *pool) endFirst(ctx context.Context, tx *sqlstore.Tx, end backend.End) (queue int64, unread []sqlstore.Unread, err error) {
	done, queue, err := p.ended(ctx, tx, p.hot.EndFirst, uuids([]backend.ID{end.Handle}), uuids([]backend.ID{end.MessageID}), backend.TypeEndDialog)
	return queue, done[end.Handle], err
}

// endMany ends sides together: those that end first in one statement, and the others in two.
func (p *pool) endMany(ctx context.Context, tx *sqlstore.Tx, list []sqlstore.LateEnd) (rest []sqlstore.LateEnd, err error) {
	var first, words, last, guards []backend.ID
	for _, x := range list {
		if !x.Heard {
			first, words = append(first, x.Handle), append(words, x.MessageID)
		} else {
			last, guards = append(last, x.Handle), append(guards, x.Handle, x.Far)
		}
	}
	done := make(map[backend.ID][]sqlstore.Unread)
	if len(first) > 0 {
		if done, _, err = p.ended(ctx, tx, p.hot.EndFirst, uuids(first), uuids(words), backend.TypeEndDialog); err != nil {
			return nil, err
		}
	}
	if len(last) > 0 {
		locked, err := tx.IDs(ctx, p.hot.Guards, uuids(sqlstore.SortIDs(guards)))
		if err != nil {
			return nil, err
		}
		free := func(id backend.ID) bool { return slices.Contains(locked, id) }
		last = last[:0]
		for _, x := range list {
			if x.Heard && free(x.Handle) && free(x.Far) {
				last = append(last, x.Handle)
			}
		}
		gone, _, err := p.ended(ctx, tx, p.hot.EndLast, uuids(last))
		if err != nil {
			return nil, err
		}
		maps.Copy(done, gone)
	}
	for _, x := range list {
		unread, ok := done[x.Handle]
		if !ok {
			rest = append(rest, x)
			continue
		}
		tx.Ended(x, unread)
	}
	return rest, nil
}

// ended returns what a statement has removed of messages for sides that it has ended, and the queue of a side's target.
func (p *pool) ended(ctx context.Context, tx *sqlstore.Tx, q *sqlstore.Stmt, args ...any) (done map[backend.ID][]sqlstore.Unread, queue int64, err error) {
	done = make(map[backend.ID][]sqlstore.Unread)
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var handle backend.ID
		var u sqlstore.Unread
		var kind, seq sql.NullInt64
		err := rows.Scan(sqlstore.ID(&handle), &queue, sqlstore.ID(&u.Stream), &kind, &seq)
		list := done[handle]
		if u.Kind, u.Seq = kind.Int64, seq.Int64; seq.Valid {
			list = append(list, u)
		}
		done[handle] = list
		return err
	}, q, args...)
	return done, queue, err
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
