package postgres

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// settle removes what was settled: posts in one statement, messages in one,
// which takes the guards of their streams as well.
func (p *pool) settle(ctx context.Context, tx *sqlstore.Tx, s *sqlstore.Settlement) error {
	// What hides groups comes before the finish looks at them.
	if err := tx.LeaveBehind(ctx, s); err != nil {
		return err
	}
	if err := p.keepCopies(ctx, tx, s); err != nil {
		return err
	}
	if err := tx.RemovePosts(ctx, s.Posts); err != nil {
		return err
	}
	if len(s.Messages) == 0 {
		return nil
	}
	streams, seqs := keysOf(s.Messages)
	dropped := make([]int64, len(s.Messages))
	want := len(s.Messages)
	for i, r := range s.Messages {
		if tx.Dropped(r) {
			dropped[i] = 1
			want--
		}
	}
	guards := slices.DeleteFunc(sqlstore.SortIDs(slices.Concat(streams, s.Touched())), tx.Vanished)
	if tx.Joined() || s.Consumed {
		guards = nil // user code follows
	}
	if want == 0 && len(guards) == 0 && !tx.Returned() {
		return nil
	}
	removed := 0
	var locked []backend.ID
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		var id backend.ID
		err := rows.Scan(&removed, sqlstore.ID(&id))
		if !id.IsZero() {
			locked = append(locked, id)
		}
		return err
	}, p.hot.Remove, uuids(streams), ints(seqs), uuids(guards), ints(dropped))
	if err != nil {
		return err
	}
	if removed != want {
		return backend.ErrFenced
	}
	tx.Guarded(guards, locked)
	return nil
}

// keysOf are the primary keys of messages.
func keysOf(list []sqlstore.Removal) (streams []backend.ID, seqs []int64) {
	for _, r := range list {
		streams, seqs = append(streams, r.Message.Stream), append(seqs, r.Message.Seq)
	}
	return streams, seqs
}

// keeping is what is kept in the same way.
type keeping struct {
	queue int64
	keep  time.Duration
}

// keepCopies keeps what is to be kept of messages before they are removed.
func (p *pool) keepCopies(ctx context.Context, tx *sqlstore.Tx, s *sqlstore.Settlement) error {
	c, err := tx.CopiesOf(ctx, s)
	if err != nil {
		return err
	}
	if len(c.Retained) > 0 {
		var handles []backend.ID
		for _, r := range c.Retained {
			handles = append(handles, r.Message.Handle)
		}
		streams, seqs := keysOf(c.Retained)
		if _, err := tx.Exec(ctx, p.hot.Retain, uuids(handles), uuids(streams), ints(seqs)); err != nil {
			return err
		}
	}
	posts := make(map[keeping][]backend.ID)
	for _, r := range c.Posts {
		k := keeping{r.Hold.Queue, r.Keep}
		posts[k] = append(posts[k], r.Message.ID)
	}
	for k, ids := range posts {
		if _, err := tx.Exec(ctx, p.hot.KeepPosts, uuids(ids), k.keep); err != nil {
			return err
		}
	}
	keyed := make(map[keeping][]sqlstore.Removal)
	for _, r := range c.Keyed {
		k := keeping{r.Hold.Queue, r.Keep}
		keyed[k] = append(keyed[k], r)
	}
	for k, list := range keyed {
		var names []string
		for _, r := range list {
			names = append(names, r.Message.Key)
		}
		streams, seqs := keysOf(list)
		if _, err := tx.Exec(ctx, p.hot.Keep, uuids(streams), ints(seqs), texts(names), k.queue, k.keep); err != nil {
			return err
		}
	}
	return nil
}

// removePosts removes posts in one statement.
func (p *pool) removePosts(ctx context.Context, tx *sqlstore.Tx, ids []backend.ID) (int64, error) {
	return tx.Exec(ctx, p.hot.RemovePosts, uuids(ids))
}

// finish puts the ready order right: one statement if settle has taken the
// guards, else one more that takes them.
func (p *pool) finish(ctx context.Context, tx *sqlstore.Tx, streams []backend.ID) (again bool, err error) {
	locked, all := tx.TakeGuarded(streams)
	if !all {
		if locked, err = tx.IDs(ctx, p.hot.Guards, uuids(streams)); err != nil {
			return false, err
		}
	}
	if len(locked) > 0 {
		if _, err := tx.Exec(ctx, p.hot.Finish, uuids(locked)); err != nil {
			return false, err
		}
	}
	return len(locked) < len(streams), nil
}

// restore puts streams to their places in the ready order.
func (p *pool) restore(
	ctx context.Context, tx *sqlstore.Tx, group backend.ID, streams []backend.ID, returned int64,
) (had int, err error) {
	locked, err := tx.IDs(ctx, p.hot.Guards, uuids(streams))
	if err == nil && len(locked) > 0 {
		_, err = tx.Exec(ctx, p.hot.Restore, uuids(locked), group, returned)
	}
	return len(locked), err
}

// extend extends leases.
func (p *pool) extend(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold, d time.Duration) (lost int, err error) {
	_, err = tx.Row(ctx, []any{&lost}, p.hot.Extend, append(fences(holds), d)...)
	return lost, err
}

// reclaim takes leases into the transaction and returns those that it had.
func (p *pool) reclaim(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold) ([]backend.ID, error) {
	return tx.IDs(ctx, p.hot.Reclaim, fences(holds)...)
}

// fences are holds as arguments: groups and their fences, posts and theirs.
func fences(holds []*backend.Hold) (args []any) {
	groups, posts := sqlstore.SplitHolds(holds)
	for _, list := range [][]*backend.Hold{groups, posts} {
		var ids []backend.ID
		var fences []int64
		for _, h := range list {
			ids, fences = append(ids, h.Group), append(fences, h.Fence)
		}
		args = append(args, uuids(ids), ints(fences))
	}
	return args
}
