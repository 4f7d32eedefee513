package mysql

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// claim finds groups or posts and locks them, and then reads what there is in the
// groups.
func (p *pool) claim(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	if !r.Group.IsZero() || !r.Handle.IsZero() {
		return p.claimOne(ctx, tx, r)
	}
	f, err := p.find(ctx, tx, r)
	if err != nil {
		return c, err
	}
	switch {
	case f.promotedPost != backend.ID{}:
		c.Holds, err = tx.ClaimPosts(ctx, r, []backend.ID{f.promotedPost})
	case len(f.posts) > 0:
		c.Holds, err = p.holdPosts(ctx, tx, r, f.posts)
	case len(f.groups) > 0:
		if c, err = p.read(ctx, tx, r, f.groups); err == nil && len(c.Holds) == 0 && c.Discarded == 0 {
			c.Contended = true // another receiver has just taken what was found
		}
	default:
		c.Contended = f.waiting
	}
	return c, err
}

// found is what a claim has locked.
type found struct {
	groups       []backend.ID
	posts        []*sqlstore.Post
	promotedPost backend.ID
	waiting      bool // nothing is locked, but something is there that is not blocked
}

// nowhere is after all places in the order.
const nowhere = math.MaxInt64

// find locks what ranks first. Streams and posts are two orders. A transaction cannot release a
// lock before its end, nor see which rows others have locked. So a walk in one order ends where the
// next entry of the other order would precede. If receivers hold everything up to there, the walk
// continues in the other order.
func (p *pool) find(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (f found, err error) {
	if f, err = p.findAlone(ctx, tx, r); err != nil || len(f.posts)+len(f.groups) > 0 {
		return f, err
	}
	var version int64
	var enabled, ready, post sql.NullInt64
	var promotions, streams, posts bool
	_, err = tx.Row(ctx, []any{&version, &enabled, sqlstore.Bool(&promotions), &ready, &post,
		sqlstore.Bool(&streams), sqlstore.Bool(&posts)},
		p.hot.Head, r.Queue, r.Queue, r.Queue, r.Queue, r.Queue, r.Queue)
	if err == nil {
		err = sqlstore.CatalogState(version, enabled, r.Version)
	}
	if err != nil {
		return f, err
	}
	f.waiting = streams || posts
	if promotions {
		var id backend.ID
		var isPost bool
		ok, err := tx.Row(ctx, []any{sqlstore.ID(&id), sqlstore.Bool(&isPost)}, p.hot.Promoted, r.Queue, 1)
		if err != nil {
			return f, err
		}
		if ok && isPost {
			f.promotedPost = id
			return f, nil
		}
		if ok {
			f.groups = []backend.ID{id}
			return f, nil
		}
	} else if streams != posts {
		memo := &p.flow
		if posts {
			memo = &p.plain
		}
		memo.Store(r.Queue, true)
	}
	at, next := place(ready), place(post)
	for at < nowhere || next < nowhere {
		if at <= next {
			if f.groups, err = p.walk(ctx, tx, r, next); err != nil || len(f.groups) > 0 || next == nowhere {
				return f, err
			}
			at, err = p.after(ctx, tx, p.hot.ReadyAfter, r.Queue, next)
		} else {
			if f.posts, err = p.takePosts(ctx, tx, r, at); err != nil || len(f.posts) > 0 || at == nowhere {
				return f, err
			}
			next, err = p.after(ctx, tx, p.hot.PostAfter, r.Queue, at)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// place is a place in the order; what is not there comes after all.
func place(n sql.NullInt64) int64 {
	if n.Valid {
		return n.Int64
	}
	return nowhere
}

func (p *pool) after(ctx context.Context, tx *sqlstore.Tx, q *sqlstore.Stmt, queue, at int64) (int64, error) {
	next := int64(nowhere)
	_, err := tx.Row(ctx, []any{&next}, q, queue, at)
	return next, err
}

// walk locks groups of streams that do not come after a place.
func (p *pool) walk(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, to int64) (groups []backend.ID, err error) {
	list, err := tx.IDs(ctx, p.hot.Walk, r.Queue, to, r.MaxGroups)
	return once(list), err
}

// once takes out repetitions: a group with several streams stands in the order
// several times.
func once(list []backend.ID) (ids []backend.ID) {
	for _, id := range list {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// takePosts locks posts that do not come after a place.
func (p *pool) takePosts(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, to int64) (posts []*sqlstore.Post, err error) {
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		po, err := scanPost(rows)
		posts = append(posts, po)
		return err
	}, p.hot.Posts, r.Queue, to, r.MaxGroups)
	return posts, err
}

// scanPost reads a post and what else is in the row.
func scanPost(rows *sql.Rows, more ...any) (*sqlstore.Post, error) {
	po := new(sqlstore.Post)
	columns := []any{sqlstore.ID(&po.ID), &po.Queue, &po.Priority, &po.Since, sqlstore.Int(&po.Sent), sqlstore.Text(&po.Type), sqlstore.Body(&po.Body),
		sqlstore.Text(&po.Headers), &po.Uniq, &po.Now, &po.Fence, &po.Lease, &po.Attempts, &po.Deaths, sqlstore.Text(&po.LastError),
		sqlstore.Attempts(&po.Errors)}
	return po, rows.Scan(append(columns, more...)...)
}

// findAlone is find in one statement, for a queue in which the last claim found only posts, or only
// streams. It finds nothing if that has changed.
func (p *pool) findAlone(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (f found, err error) {
	var version int64
	var enabled sql.NullInt64
	if _, ok := p.plain.Load(r.Queue); ok {
		err = tx.Rows(ctx, func(rows *sql.Rows) error {
			po, err := scanPost(rows, &version, &enabled)
			f.posts = append(f.posts, po)
			return err
		}, p.hot.PostsOnly, r.Queue, r.Queue, r.Queue, r.Queue, r.MaxGroups)
	} else if _, ok := p.flow.Load(r.Queue); ok {
		err = tx.Rows(ctx, func(rows *sql.Rows) error {
			var id backend.ID
			err := rows.Scan(sqlstore.ID(&id), &version, &enabled)
			f.groups = append(f.groups, id)
			return err
		}, p.hot.Flow, r.Queue, r.Queue, r.Queue, r.Queue, r.MaxGroups)
		f.groups = once(f.groups)
	}
	if err == nil && len(f.posts)+len(f.groups) > 0 {
		err = sqlstore.CatalogState(version, enabled, r.Version)
	} else {
		p.plain.Delete(r.Queue)
		p.flow.Delete(r.Queue)
	}
	return f, err
}

// claimOne claims the group that the request names.
func (p *pool) claimOne(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	var version int64
	var enabled sql.NullInt64
	var seen backend.ID
	ok, err := tx.Row(ctx, []any{&version, &enabled, sqlstore.ID(&seen)},
		p.hot.ClaimOne, r.Queue, sqlstore.Null(r.Handle), sqlstore.Null(r.Group), sqlstore.Null(r.Group), r.Queue)
	if err != nil {
		return c, err
	}
	if !ok {
		return c, backend.ErrNotMigrated
	}
	if err := sqlstore.CatalogState(version, enabled, r.Version); err != nil {
		return c, err
	}
	if !seen.IsZero() {
		locked, err := tx.IDs(ctx, p.hot.LockOne, seen)
		if err != nil {
			return c, err
		}
		if len(locked) == 0 {
			c.Contended = true
			return c, nil
		}
		return p.read(ctx, tx, r, locked)
	}
	return tx.ClaimNamedPost(ctx, r)
}

// holdPosts makes holds of posts that are locked, as many as have room.
func (p *pool) holdPosts(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, posts []*sqlstore.Post) ([]*backend.Hold, error) {
	holds, leases := sqlstore.HoldPosts(r, posts)
	if len(leases) == 0 {
		return holds, nil
	}
	owner := r.Owner
	if r.Lease <= 0 {
		owner = ""
	}
	_, err := execAll(ctx, tx, p.hot.LeaseLocked, leases, r.Lease, r.Lease, r.Lease, owner)
	return holds, err
}

// content is what there is in a group that is locked.
type content struct {
	id             backend.ID
	name           string
	fence, lease   int64
	level, version sql.NullInt64
	lasts          sqlstore.Lasting
	streams        []*stream
}

// stream is one of a group's streams from which we may receive.
type stream struct {
	kind     int64
	common   backend.Message // what its messages have in common
	next     int64           // no message has this number or a greater one
	since    int64           // the time of the first message
	messages []message
}

func turnOf(s *stream) sqlstore.Turn {
	return sqlstore.Turn{
		Priority: s.common.Priority, Since: s.since, Handle: s.common.Handle, Kind: s.kind, Stream: s.common.Stream,
	}
}

type message struct {
	*backend.Message
	uniq string
}

// read reads what there is in groups that are locked. Their messages follow in
// further statements, where there is more than one in a stream.
func (p *pool) read(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, groups []backend.ID) (c backend.Claim, err error) {
	all, astray, vain, err := p.contents(ctx, tx, r, groups)
	if err != nil {
		return c, err
	}
	if vain && r.Alone && r.Lease == 0 {
		// The transaction must release its locks: the owner of a group that it locked
		// without result would wait for it.
		c.Contended = true
		return c, nil
	}
	if !r.LockOnly {
		if err := p.more(ctx, tx, r, all); err != nil {
			return c, err
		}
	}
	var leased, tokens []backend.ID
	room, full := r.MaxBytes, false
	for _, g := range all {
		hold := sqlstore.NewHold(r, g.id, g.version.Int64, g.lasts)
		hold.Promoted, hold.Level = g.version.Valid, int(g.level.Int64)
		for _, s := range g.streams {
			for _, m := range s.messages {
				if full = full || len(hold.Messages) < r.MaxMessages && len(c.Holds)+len(hold.Messages) > 0 && size(m) > room; full {
					break
				}
				if len(hold.Messages) < r.MaxMessages {
					room -= size(m)
					sqlstore.AddMessage(hold, m.Message, g.name, m.uniq)
				}
			}
		}
		if len(hold.Messages) == 0 && !r.LockOnly {
			continue
		}
		if r.Lease > 0 {
			hold.Fence = g.fence + 1
			leased = append(leased, g.id)
		} else if g.lease != 0 {
			tokens = append(tokens, g.id)
		}
		if g.lease != 0 { // a receiver died
			if err := tx.Suspect(ctx, hold); err != nil {
				return c, err
			}
		}
		c.Holds = append(c.Holds, hold)
	}
	if len(leased) > 0 {
		_, err = execAll(ctx, tx, p.hot.LeaseGroups, leased, r.Lease, r.Owner)
	}
	if err == nil && len(tokens) > 0 {
		_, err = execAll(ctx, tx, p.hot.UnleaseGroups, tokens)
	}
	if err != nil {
		return c, err
	}
	c.Discarded, err = tx.ClearAstray(ctx, astray)
	return c, err
}

// contents reads what there is in groups, in their order. Groups that were
// blocked or leased before we locked them are left out: locking them had no result.
func (p *pool) contents(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, groups []backend.ID) (list []*content, astray []sqlstore.Source, vain bool, err error) {
	byID := make(map[backend.ID]*content, len(groups))
	q, two := p.hot.Read, len(groups) == 1 && r.MaxMessages > 1 && !r.LockOnly
	if two {
		q = p.hot.ReadTwo
	}
	err = rowsAll(ctx, tx, func(rows *sql.Rows) error {
		var g content
		var blocked, leased bool
		var s stream
		f := &s.common
		var streamKind, priority, next, closed sql.NullInt64
		var at backend.ID // the endpoint's group
		var m, second messageRow
		columns := []any{sqlstore.ID(&g.id), sqlstore.Text(&g.name), &g.fence, &g.lease, sqlstore.Bool(&blocked), sqlstore.Bool(&leased),
			&g.level, &g.version, sqlstore.Int(&g.lasts),
			sqlstore.ID(&f.Stream), &streamKind, &priority, sqlstore.ID(&f.Handle), sqlstore.ID(&at), sqlstore.ID(&f.Conversation),
			sqlstore.Bool(&f.Initiator), sqlstore.Text(&f.Service), sqlstore.Text(&f.FarService), sqlstore.Text(&f.Contract), &closed, &next}
		if columns = append(columns, m.columns()...); two {
			columns = append(columns, second.columns()...)
		}
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		if blocked || leased {
			vain = true
			return nil
		}
		c := byID[g.id]
		if c == nil {
			c = &g
			byID[g.id] = c
		}
		if f.Stream.IsZero() || r.LockOnly {
			return nil
		}
		if !f.Handle.IsZero() && (at != g.id || closed.Valid) {
			astray = append(astray, sqlstore.Source{
				ID: f.Stream, Kind: streamKind.Int64, Group: g.id, Handle: f.Handle, Ended: at.IsZero() || closed.Valid,
			})
			return nil
		}
		if !m.seq.Valid || !r.Handle.IsZero() && f.Handle != r.Handle {
			return nil
		}
		f.Group, f.Priority = g.id, int(priority.Int64)
		s.kind, s.next, s.since = streamKind.Int64, next.Int64, m.since
		s.add(m)
		if second.seq.Valid {
			s.add(second)
		}
		c.streams = append(c.streams, &s)
		return nil
	}, q, groups)
	for _, id := range groups {
		if c := byID[id]; c != nil {
			sqlstore.SortByTurn(c.streams, turnOf)
			list = append(list, c)
		}
	}
	return list, astray, vain, err
}

// size is what a message takes of a claim's bytes.
func size(m message) int { return len(m.Body) + len(m.Headers) }

// messageRow is a message as it is read.
type messageRow struct {
	backend.Message
	seq, kind sql.NullInt64
	since     int64
	uniq      string
}

func (m *messageRow) columns() []any {
	return []any{&m.seq, sqlstore.ID(&m.ID), &m.kind, sqlstore.Text(&m.Type), sqlstore.Body(&m.Body), sqlstore.Text(&m.Headers),
		sqlstore.Int(&m.since), sqlstore.Text(&m.uniq), sqlstore.Int(&m.Attempts), sqlstore.Int(&m.Deaths), sqlstore.Text(&m.LastError),
		sqlstore.Attempts(&m.Errors)}
}

// add completes a message and adds it.
func (s *stream) add(m messageRow) {
	whole := s.common
	whole.ID, whole.Type, whole.Body, whole.Headers = m.ID, m.Type, m.Body, m.Headers
	whole.Attempts, whole.Deaths, whole.LastError, whole.Errors = m.Attempts, m.Deaths, m.LastError, m.Errors
	whole.Seq, whole.Kind, whole.Enqueued = m.seq.Int64, backend.Kind(m.kind.Int64), time.UnixMicro(m.since)
	s.messages = append(s.messages, message{&whole, m.uniq})
}

// page is the least number of messages that are read at once.
const page = 16

// more reads the messages after the first of each stream, as far as they are
// asked for. How many go into the bytes that are wanted is guessed by the size of
// those that are known.
func (p *pool) more(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, groups []*content) error {
	type rest struct {
		*stream
		from, to int64
	}
	var left []rest
	byID := make(map[backend.ID]*stream)
	known, largest := 0, 1
	for _, g := range groups {
		room := int64(r.MaxMessages)
		for _, s := range g.streams {
			if room <= 0 {
				break
			}
			for _, m := range s.messages {
				known += size(m)
				largest = max(largest, size(m))
			}
			first, last := s.messages[0], s.messages[len(s.messages)-1]
			n := min(room, s.next-first.Seq)
			room -= max(n, 1)
			if to := first.Seq + n - 1; last.Seq < to {
				left = append(left, rest{s, last.Seq + 1, to})
				byID[first.Stream] = s
			}
		}
	}
	for len(left) > 0 && known <= r.MaxBytes {
		want := either{columns: []string{"m.stream_id", "m.seq"}}
		room := int64(max(page, 2*(r.MaxBytes-known)/largest))
		for len(left) > 0 && room > 0 && len(want.rows) < 1000 {
			x := &left[0]
			to := min(x.to, x.from+room-1)
			want.rows = append(want.rows, []any{x.messages[0].Stream, span{x.from, to}})
			room -= to - x.from + 1
			if x.from = to + 1; x.from > x.to {
				left = left[1:]
			}
		}
		err := tx.Rows(ctx, func(rows *sql.Rows) error {
			var id backend.ID
			var m messageRow
			if err := rows.Scan(append([]any{sqlstore.ID(&id)}, m.columns()...)...); err != nil {
				return err
			}
			s := byID[id]
			s.add(m)
			known += size(s.messages[len(s.messages)-1])
			largest = max(largest, size(s.messages[len(s.messages)-1]))
			return nil
		}, p.hot.Messages, want)
		if err != nil {
			return err
		}
	}
	return nil
}
