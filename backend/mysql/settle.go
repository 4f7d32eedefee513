package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// fewMessages is how many are removed together with their markers. More are removed at once: the longer statement would
// take them more time than the shorter one and a round trip.
const fewMessages = 16

// settle removes what was settled: posts in one statement, messages in one, or with their markers.
func (p *pool) settle(ctx context.Context, tx *sqlstore.Tx, s *sqlstore.Settlement) error {
	if err := p.keepCopies(ctx, tx, s); err != nil {
		return err
	}
	if err := tx.RemovePosts(ctx, s.Posts); err != nil {
		return err
	}
	var sure, dropped []sqlstore.Removal
	for _, r := range s.Messages {
		if tx.Dropped(r) {
			dropped = append(dropped, r)
		} else {
			sure = append(sure, r)
		}
	}
	if s.Finished && len(sure) <= fewMessages {
		tx.RemoveLater(sure)
	} else if len(sure) > 0 {
		n, err := tx.Exec(ctx, p.hot.Remove, table(keysOf(sure)))
		if err != nil {
			return err
		}
		if int(n) != len(sure) {
			return backend.ErrFenced
		}
	}
	if len(dropped) > 0 && tx.Returned() {
		if _, err := tx.Exec(ctx, p.hot.Remove, table(keysOf(dropped))); err != nil {
			return err
		}
	}
	return tx.LeaveBehind(ctx, s)
}

// drop removes messages in one statement.
func (p *pool) drop(ctx context.Context, tx *sqlstore.Tx, streams []backend.ID, seqs []int64) (int64, error) {
	e := either{columns: []string{"stream_id", "seq"}}
	for i, id := range streams {
		e.rows = append(e.rows, []any{id, seqs[i]})
	}
	return tx.Exec(ctx, p.hot.Remove, table(e))
}

// keysOf are the primary keys of messages.
func keysOf(list []sqlstore.Removal) either {
	e := either{columns: []string{"stream_id", "seq"}}
	for _, r := range list {
		e.rows = append(e.rows, []any{r.Message.Stream, r.Message.Seq})
	}
	return e
}

// keeping is what is kept in the same way.
type keeping struct {
	queue int64
	name  string
	keep  time.Duration
}

// keepCopies keeps what is to be kept of messages before they are removed.
func (p *pool) keepCopies(ctx context.Context, tx *sqlstore.Tx, s *sqlstore.Settlement) error {
	c, err := tx.CopiesOf(ctx, s)
	if err != nil {
		return err
	}
	retained := make(map[backend.ID][]sqlstore.Removal)
	for _, r := range c.Retained {
		retained[r.Message.Handle] = append(retained[r.Message.Handle], r)
	}
	for handle, list := range retained {
		if _, err := tx.Exec(ctx, p.hot.Retain, handle, keysOf(list)); err != nil {
			return err
		}
	}
	keyed := make(map[keeping][]sqlstore.Removal)
	for _, r := range c.Keyed {
		k := keeping{r.Hold.Queue, r.Message.Key, r.Keep}
		keyed[k] = append(keyed[k], r)
	}
	for k, list := range keyed {
		if _, err := tx.Exec(ctx, p.hot.Keep, k.queue, k.name, k.keep, keysOf(list)); err != nil {
			return err
		}
	}
	posts := make(map[time.Duration][]backend.ID)
	for _, r := range c.Posts {
		posts[r.Keep] = append(posts[r.Keep], r.Message.ID)
	}
	for keep, list := range posts {
		if _, err := execAll(ctx, tx, p.hot.KeepPosts, list, keep); err != nil {
			return err
		}
	}
	return nil
}

// removePosts removes posts in one statement.
func (p *pool) removePosts(ctx context.Context, tx *sqlstore.Tx, list []backend.ID) (int64, error) {
	return tx.Exec(ctx, p.hot.RemovePosts, tableOf("post_id", list))
}

// finish puts the ready order right: the guards, then a look, then what it says. What is to be removed
// with it counts as gone.
func (p *pool) finish(ctx context.Context, tx *sqlstore.Tx, streams []backend.ID) (again bool, err error) {
	var keys clearing
	// The sum keeps the condition from being one on the index, by which the whole table could be read.
	gone := either{columns: []string{"m.stream_id", "m.seq + 0"}, rows: keysOf(tx.Late()).rows}
	for _, r := range tx.Late() {
		keys.message(r.Message.Stream, r.Message.Seq)
	}
	if len(gone.rows) == 0 {
		gone.rows = [][]any{{"", -1}} // which there is not
	}
	var locked []backend.ID
	err = rowsAll(ctx, tx, func(rows *sql.Rows) error {
		var id backend.ID
		err := rows.Scan(sqlstore.ID(&id))
		locked = append(locked, id)
		return err
	}, p.hot.Guards, streams)
	if err != nil {
		return false, err
	}
	stand := either{columns: []string{"group_id", "stream_id"}}
	since := choice{column: "stream_id"}
	err = rowsAll(ctx, tx, func(rows *sql.Rows) error {
		var id, group backend.ID
		var kind, blocked int64
		var witness int64
		var stands, first sql.NullInt64
		err := rows.Scan(sqlstore.ID(&id), &kind, sqlstore.ID(&group), &stands, &first, &blocked, sqlstore.Witness(&witness))
		if err != nil {
			return err
		}
		if kind < 2 && !first.Valid {
			keys.stream(id)
		}
		switch {
		case !stands.Valid:
		case !first.Valid || blocked != 0:
			keys.marker(group, id)
		case first.Int64 > stands.Int64: // else its group has come back from a deferral later
			stand.rows = append(stand.rows, []any{group, id})
			since.when, since.then = append(since.when, id), append(since.then, first.Int64)
		}
		return nil
	}, p.hot.Look, locked, gone)
	if err == nil && len(keys.rows) > 0 {
		var n int64
		if n, err = tx.Exec(ctx, p.hot.Clear, keys.table()); err == nil && n < int64(len(keys.rows)) {
			err = backend.ErrFenced // the markers and the streams were there just now
		}
	}
	if err == nil && len(stand.rows) > 0 {
		_, err = tx.Exec(ctx, p.hot.Restand, since, stand)
	}
	return len(locked) < len(streams), err
}

// restore puts streams to their places in the ready order.
func (p *pool) restore(
	ctx context.Context, tx *sqlstore.Tx, group backend.ID, streams []backend.ID, returned int64,
) (had int, err error) {
	locked, err := tx.IDs(ctx, p.hot.Guards, ids(streams))
	if err != nil || len(locked) == 0 {
		return 0, err
	}
	var rows tuples
	err = tx.Rows(ctx, func(r *sql.Rows) error {
		var id backend.ID
		var queue, priority, witness int64
		var first sql.NullInt64
		err := r.Scan(&queue, sqlstore.ID(&id), &priority, &first, sqlstore.Witness(&witness))
		if first.Valid {
			rows = append(rows, []any{queue, group, id, priority, max(first.Int64, returned)})
		}
		return err
	}, p.hot.Belong, group, ids(locked))
	if err == nil && len(rows) > 0 {
		_, err = tx.Exec(ctx, p.hot.Restore, rows)
	}
	return len(locked), err
}

// fences are holds of groups, or of posts, as a condition.
func fences(id string, holds []*backend.Hold) either {
	e := either{columns: []string{id, "fence"}}
	for _, h := range holds {
		e.rows = append(e.rows, []any{h.Group, h.Fence})
	}
	return e
}

// reclaim takes leases into the transaction and returns those that it had.
func (p *pool) reclaim(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold) (had []backend.ID, err error) {
	groups, posts := sqlstore.SplitHolds(holds)
	for _, x := range []struct {
		fences     either
		lock, took *sqlstore.Stmt
	}{
		{fences("group_id", groups), p.hot.ReclaimGroups, p.hot.TookGroups},
		{fences("post_id", posts), p.hot.ReclaimPosts, p.hot.TookPosts},
	} {
		if len(x.fences.rows) == 0 {
			continue
		}
		locked, err := tx.IDs(ctx, x.lock, x.fences)
		if err != nil {
			return nil, err
		}
		if len(locked) == 0 {
			continue
		}
		if _, err := execAll(ctx, tx, x.took, locked); err != nil {
			return nil, err
		}
		had = append(had, locked...)
	}
	return had, nil
}

// extend extends leases. A locked row is in its owner's own transaction, or in that of a receiver
// that has taken it over. So extend does not wait for it.
func (p *pool) extend(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold, d time.Duration) (lost int, err error) {
	groups, posts := sqlstore.SplitHolds(holds)
	for _, x := range []struct {
		fences               either
		lock, extend, leased *sqlstore.Stmt
	}{
		{fences("group_id", groups), p.hot.ReclaimGroups, p.hot.ExtendGroups, p.hot.LeasedGroups},
		{fences("post_id", posts), p.hot.ReclaimPosts, p.hot.ExtendPosts, p.hot.LeasedPosts},
	} {
		if len(x.fences.rows) == 0 {
			continue
		}
		locked, err := tx.IDs(ctx, x.lock, x.fences)
		if err != nil {
			return 0, err
		}
		if len(locked) > 0 {
			if _, err := execAll(ctx, tx, x.extend, locked, d); err != nil {
				return 0, err
			}
		}
		ours := make(map[backend.ID]bool)
		for _, id := range locked {
			ours[id] = true
		}
		if len(locked) < len(x.fences.rows) {
			there, err := tx.IDs(ctx, x.leased, x.fences)
			if err != nil {
				return 0, err
			}
			for _, id := range there {
				ours[id] = true
			}
		}
		lost += len(x.fences.rows) - len(ours)
	}
	return lost, nil
}

// later is the time of the statement and i microseconds.
func later(i int) expression { return after(time.Duration(i) * time.Microsecond) }

// after is the time of the statement and a duration.
func after(d time.Duration) expression {
	var b builder
	b.string(now + " + ")
	b.int(d.Microseconds())
	return expression(b.text)
}
