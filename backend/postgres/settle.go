package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// settle removes what was settled: posts in one statement, messages in one,
// which takes the guards of their streams as well.
func (p *pool) settle(ctx context.Context, tx *sqlstore.Tx, s *sqlstore.Settlement) error {
	if tx.Dropped() {
		// A conversation was ended in this transaction: messages may be gone.
		return sqlstore.SettleRows(ctx, tx, s)
	}
	// What hides groups comes before the finish looks at them.
	if err := tx.LeaveBehind(ctx, s); err != nil {
		return err
	}
	if err := p.keepCopies(ctx, tx, s); err != nil {
		return err
	}
	if len(s.Posts) > 0 {
		ids := make([]backend.ID, len(s.Posts))
		for i, r := range s.Posts {
			ids[i] = r.Message.ID
		}
		n, err := tx.Exec(ctx, p.hot.removePosts, uuids(ids))
		if err != nil {
			return err
		}
		if int(n) != len(ids) {
			return backend.ErrFenced
		}
	}
	if len(s.Messages) == 0 {
		return nil
	}
	streams, seqs := make([]backend.ID, len(s.Messages)), make([]int64, len(s.Messages))
	for i, r := range s.Messages {
		streams[i], seqs[i] = r.Message.Stream, r.Message.Seq
	}
	guards := sqlstore.SortIDs(append(append([]backend.ID(nil), streams...), s.Touched()...))
	if tx.Joined() || s.Consumed {
		guards = nil // user code follows
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
	}, p.hot.remove, uuids(streams), ints(seqs), uuids(guards))
	if err != nil {
		return err
	}
	if removed != len(streams) {
		return backend.ErrFenced
	}
	tx.Guarded(guards, locked)
	return nil
}

// keepCopies keeps what is to be kept of messages before they are removed.
func (p *pool) keepCopies(ctx context.Context, tx *sqlstore.Tx, s *sqlstore.Settlement) error {
	var handles, streams []backend.ID
	var seqs []int64
	type keeping struct {
		queue int64
		keep  time.Duration
	}
	posts := make(map[keeping][]backend.ID)
	type keyed struct {
		streams []backend.ID
		seqs    []int64
		names   []string
	}
	keys := make(map[keeping]*keyed)
	for _, r := range s.Messages {
		m := r.Message
		switch {
		case r.Dead:
			if err := tx.Bury(ctx, r); err != nil {
				return err
			}
		case r.Retain && !m.Handle.IsZero():
			handles, streams, seqs = append(handles, m.Handle), append(streams, m.Stream), append(seqs, m.Seq)
		case r.Keep > 0 && m.Handle.IsZero():
			k := keeping{r.Hold.Queue, r.Keep}
			if keys[k] == nil {
				keys[k] = new(keyed)
			}
			keys[k].streams = append(keys[k].streams, m.Stream)
			keys[k].seqs = append(keys[k].seqs, m.Seq)
			keys[k].names = append(keys[k].names, m.Key)
		}
		if err := tx.Forget(ctx, r); err != nil {
			return err
		}
	}
	for _, r := range s.Posts {
		switch {
		case r.Dead:
			if err := tx.Bury(ctx, r); err != nil {
				return err
			}
		case r.Keep > 0:
			k := keeping{r.Hold.Queue, r.Keep}
			posts[k] = append(posts[k], r.Message.ID)
		}
		if err := tx.Forget(ctx, r); err != nil {
			return err
		}
	}
	if len(handles) > 0 {
		if _, err := tx.Exec(ctx, p.hot.retain, uuids(handles), uuids(streams), ints(seqs)); err != nil {
			return err
		}
	}
	for k, ids := range posts {
		if _, err := tx.Exec(ctx, p.hot.keepPosts, uuids(ids), k.keep); err != nil {
			return err
		}
	}
	for k, x := range keys {
		if _, err := tx.Exec(ctx, p.hot.keep, uuids(x.streams), ints(x.seqs), texts(x.names), k.queue, k.keep); err != nil {
			return err
		}
	}
	return nil
}

// finish puts the ready order right: one statement if settle has taken the
// guards, else one more that takes them.
func (p *pool) finish(ctx context.Context, tx *sqlstore.Tx, streams []backend.ID) (again bool, err error) {
	locked, all := tx.TakeGuarded(streams)
	if !all {
		if locked, err = tx.IDs(ctx, p.hot.guards, uuids(streams)); err != nil {
			return false, err
		}
	}
	if len(locked) > 0 {
		if _, err := tx.Exec(ctx, p.hot.finish, uuids(locked)); err != nil {
			return false, err
		}
	}
	return len(locked) < len(streams), nil
}

// extend prolongs leases.
func (p *pool) extend(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold, d time.Duration) (lost int, err error) {
	_, err = tx.Row(ctx, []any{&lost}, p.hot.extend, append(fences(holds), d)...)
	return lost, err
}

// reclaim takes leases into the transaction and returns those that it had.
func (p *pool) reclaim(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold) ([]backend.ID, error) {
	return tx.IDs(ctx, p.hot.reclaim, fences(holds)...)
}

// fences are holds as arguments: groups and their fences, posts and theirs.
func fences(holds []*backend.Hold) []any {
	var groups, posts []backend.ID
	var groupFences, postFences []int64
	for _, h := range holds {
		if sqlstore.IsPost(h) {
			posts, postFences = append(posts, h.Group), append(postFences, h.Fence)
		} else {
			groups, groupFences = append(groups, h.Group), append(groupFences, h.Fence)
		}
	}
	return []any{uuids(groups), ints(groupFences), uuids(posts), ints(postFences)}
}
