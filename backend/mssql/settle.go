package mssql

import (
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// settle removes what was settled: posts in one statement and messages in one, if
// nothing else is to be done with them.
func (p *pool) settle(ctx context.Context, tx *sqlstore.Tx, x *sqlstore.Settlement) error {
	if !plain(x.Messages) || !plain(x.Posts) || slices.ContainsFunc(x.Messages, tx.Dropped) {
		return sqlstore.SettleRows(ctx, tx, x)
	}
	for _, part := range []struct {
		list []sqlstore.Removal
		q    *sqlstore.Stmt
	}{{x.Messages, p.many.Remove}, {x.Posts, p.many.RemovePosts}} {
		if len(part.list) == 0 {
			continue
		}
		rows := make([]idRow, len(part.list))
		for i, r := range part.list {
			rows[i] = idRow{int32(i + 1), r.Message.Stream[:], r.Message.Seq}
		}
		n, err := tx.Exec(ctx, part.q, p.idTable(rows))
		if err != nil {
			return err
		}
		if int(n) != len(part.list) {
			return backend.ErrFenced
		}
	}
	return tx.LeaveBehind(ctx, x)
}

// plain reports whether messages leave nothing behind, are not kept, and are no
// streams by themselves, which go with their messages.
func plain(list []sqlstore.Removal) bool {
	for _, r := range list {
		m := r.Message
		if r.Dead || r.Retain || r.Keep > 0 || r.Uniq() != "" || sqlstore.HasFailed(m) || m.Kind <= backend.KindError {
			return false
		}
	}
	return true
}

// finish corrects the ready order.
func (p *pool) finish(ctx context.Context, tx *sqlstore.Tx, streams []backend.ID) (again bool, err error) {
	var ours int
	_, err = tx.Row(ctx, []any{&ours}, p.many.Finish, p.idTable(idRows(streams, nil)))
	return ours < len(streams), err
}

// extend extends leases.
func (p *pool) extend(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold, d time.Duration) (lost int, err error) {
	groups, posts := p.fences(holds)
	_, err = tx.Row(ctx, []any{&lost}, p.many.Extend, groups, posts, d)
	return lost, err
}

// reclaim takes leases into the transaction and returns those that it got.
func (p *pool) reclaim(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold) ([]backend.ID, error) {
	groups, posts := p.fences(holds)
	return tx.IDs(ctx, p.many.Reclaim, groups, posts)
}

// fences are holds as arguments: groups with their fences, and posts with theirs.
func (p *pool) fences(holds []*backend.Hold) (groups, posts any) {
	groupHolds, postHolds := sqlstore.SplitHolds(holds)
	table := func(list []*backend.Hold) any {
		rows := make([]idRow, len(list)) // not nil, of which the driver makes no table
		for i, h := range list {
			rows[i] = idRow{int32(i + 1), h.Group[:], h.Fence}
		}
		return p.idTable(rows)
	}
	return table(groupHolds), table(postHolds)
}
