package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// claim is a claim in two statements, or one if it finds posts or nothing.
func (p *pool) claim(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	if !r.Group.IsZero() || !r.Handle.IsZero() {
		return p.claimOne(ctx, tx, r)
	}
	w := sqlstore.WalkOf(r)
	f, ok, err := p.look(ctx, tx, r, w)
	if err == nil && ok && f.promotionsEnd.Valid {
		if f, err = p.walkPromotions(ctx, tx, r, w, f.promotionsEnd.Int64); err == nil && w.Promoted {
			f, ok, err = p.look(ctx, tx, r, w)
		}
	}
	if err == nil && ok && f.end.Valid && !f.vain {
		f, err = p.walkOrder(ctx, tx, r, w, f)
	}
	if err != nil {
		return c, err
	}
	switch {
	case f.rest != nil:
		c.Contended, c.Walk = true, f.rest
		return c, nil
	case !ok || f.vain && r.Alone && r.Lease == 0:
		// The transaction must release its locks: the owner of a group that it locked
		// without result would wait for it.
		c.Contended = true
		return c, nil
	case f.nothing():
		c.Contended = f.waiting || f.vain
		return c, nil
	case len(f.posts) > 0:
		c.Holds, err = p.holdPosts(ctx, tx, r, f.posts)
		c.More = len(f.posts) == limits[limit(r.MaxGroups)]
		return c, err
	case len(f.walkedPosts) > 0:
		c.Holds, err = tx.ClaimPosts(ctx, r, f.walkedPosts)
		c.More, c.Contended = true, len(c.Holds) == 0
		return c, err
	}
	c, err = p.read(ctx, tx, r, f.groups)
	c.More = f.more || len(f.groups) == limits[limit(r.MaxGroups)] || len(c.Holds) > 0 && c.Holds[0].Promoted
	if err == nil && len(c.Holds) == 0 && c.Discarded == 0 {
		c.Contended = true // another receiver has just taken what was found
	}
	return c, err
}

// kind is what a queue has been found to hold. Claims are quicker if it is one
// kind of thing, and notice if it is so no more.
type kind int

const (
	unknown kind = iota // nothing yet
	streams
	posts
	both // or promotions
)

// look finds what ranks first, by the statement for the queue's kind of entries. If the kind is not
// yet known, it tries both statements, the one for streams first.
func (p *pool) look(
	ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, w *sqlstore.Walk,
) (f *found, ok bool, err error) {
	v, _ := p.kinds.Load(r.Queue)
	k, _ := v.(kind)
	if k == unknown || k == streams {
		f, err = p.find(ctx, r, &p.hot.StreamClaims, func(q *sqlstore.Stmt) (*found, error) {
			return p.walkStreams(ctx, tx, r, q)
		})
		if err != nil || f != nil {
			return f, err == nil, err
		}
	}
	if k == unknown || k == posts {
		if f, err = p.findPosts(ctx, tx, r); f != nil && k == unknown {
			p.kinds.Store(r.Queue, posts)
		}
		if err != nil || f != nil {
			return f, err == nil, err
		}
	}
	f, ok, err = p.lookBoth(ctx, tx, r, w)
	if err == nil && f.kind() != k {
		p.kinds.Store(r.Queue, f.kind())
	}
	return f, ok, err
}

// lookBoth finds what ranks first of streams, posts and promotions. A receiver may hold the head of
// one order, which no snapshot shows, and the next entry may rank below the other order. Then
// lookBoth tries the other order, and takes the better of both. A rollback to a savepoint releases
// what was locked on the way. A transaction for a single claim has a savepoint only on queues where
// this has happened before. Otherwise ok is false, and the transaction has to be given up instead.
func (p *pool) lookBoth(
	ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, w *sqlstore.Walk,
) (f *found, ok bool, err error) {
	find := func(prefer int) (*found, error) {
		if w.Promoted {
			prefer += noPromotions
		}
		return p.find(ctx, r, &p.hot.Claims, func(q *sqlstore.Stmt) (*found, error) {
			return p.walk(ctx, tx, r, q, prefer)
		})
	}
	const point = "parley_look"
	_, mixed := p.mixed.Load(r.Queue)
	if mixed || !r.Alone {
		if err := tx.Savepoint(ctx, point); err != nil {
			return nil, false, err
		}
	}
	f, err = find(preferHead)
	if err != nil || !f.outranked() {
		if err == nil && mixed && f.kind() != both {
			p.mixed.Delete(r.Queue)
		}
		return f, err == nil, err
	}
	p.mixed.Store(r.Queue, true)
	if !mixed && r.Alone {
		return f, false, nil
	}
	first, other := preferStreams, preferPosts
	if len(f.posts) > 0 {
		first, other = preferPosts, preferStreams
	}
	if err := tx.RollbackTo(ctx, point); err != nil {
		return nil, false, err
	}
	g, err := find(other)
	if err != nil || g.first.before(f.first) {
		return g, err == nil, err
	}
	if err := tx.RollbackTo(ctx, point); err != nil {
		return nil, false, err
	}
	f, err = find(first)
	return f, err == nil, err
}

// Which order a claim takes from.
const (
	preferHead = iota // the one whose head ranks higher
	preferStreams
	preferPosts
	_
	noPromotions // no promotion is free behind the first of them; added to the others
)

// place is where something stands in the order.
type place struct{ priority, since sql.NullInt64 }

func (a place) before(b place) bool {
	switch {
	case !a.since.Valid || !b.since.Valid:
		return a.since.Valid
	case a.priority != b.priority:
		return a.priority.Int64 > b.priority.Int64
	}
	return a.since.Int64 < b.since.Int64
}

// found is what a claim's first statement locked.
type found struct {
	groups              []backend.ID
	walkedPosts         []backend.ID // promoted, or found by a walk; without what they are
	posts               []*sqlstore.Post
	vain                bool  // a group is locked that another receiver has just taken
	first               place // of the first group or post that is not promoted
	stream, post        place // the heads of both orders, locked or not
	streams, promotions bool  // there are some, though they may be in flight
	waiting             bool  // something is there that is not blocked

	// Where the window ended, if nothing was found and there may be more behind it. It is the
	// window of the promotions or, if there are no more of these, that of the streams.
	promotionsEnd, end sql.NullInt64
	rest               *sqlstore.Walk // what a walk has left for the next claim
	more               bool           // found by a walk, which knows nothing of what follows
}

// group takes in a group that is locked. One with several streams stands in the
// order several times.
func (f *found) group(id backend.ID) {
	if !slices.Contains(f.groups, id) {
		f.groups = append(f.groups, id)
	}
}

// kind is what the queue holds, as far as that can be claimed. Posts that are held
// by lease do not make it both, but streams in a receiver's hands do.
func (f *found) kind() kind {
	switch {
	case f.promotions || f.streams && f.post.since.Valid:
		return both
	case f.streams:
		return streams
	case f.post.since.Valid:
		return posts
	}
	return unknown
}

// outranked reports whether the head of the order from which nothing was taken
// comes before what was taken.
func (f *found) outranked() bool {
	if !f.first.since.Valid {
		return false
	}
	if len(f.posts) > 0 {
		return f.stream.since.Valid && f.stream.before(f.first)
	}
	return f.post.since.Valid && f.post.before(f.first)
}

// nothing reports whether nothing was found.
func (f *found) nothing() bool {
	return len(f.groups) == 0 && len(f.walkedPosts) == 0 && len(f.posts) == 0
}

// find is a claim's first statement. It looks only at the head of the order. It looks farther if
// all of the head is in flight, or was a moment ago, unless it continues a walk.
func (p *pool) find(ctx context.Context, r backend.ClaimRequest, w *walks, walk func(*sqlstore.Stmt) (*found, error)) (*found, error) {
	n := limit(r.MaxGroups)
	if r.Walk != nil || p.shortcuts.Has(r.Queue) {
		return walk(w[near][n])
	}
	if p.deep.has(r.Queue) {
		return walk(w[deep][n])
	}
	f, err := walk(w[near][n])
	if err != nil || f == nil || !f.end.Valid {
		return f, err
	}
	p.deep.note(r.Queue)
	return walk(w[deep][n])
}

// walkPromotions looks for a promotion behind those that the first statement has seen. If
// none is free, w.Promoted is set.
func (p *pool) walkPromotions(
	ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, w *sqlstore.Walk, from int64,
) (f *found, err error) {
	f = new(found)
	page := func(at int64, width int) (found, next sql.NullInt64, err error) {
		return p.page(ctx, tx, f, p.hot.Promotions[width], r.Queue, at)
	}
	f.rest, err = p.shortcuts.Promotions(r.Queue, w, from, page)
	return f, err
}

// walkOrder looks for streams and posts behind those that the first statement has seen.
func (p *pool) walkOrder(
	ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, w *sqlstore.Walk, near *found,
) (f *found, err error) {
	f = &found{}
	w.Waiting = w.Waiting || near.waiting
	from := near.end.Int64
	if near.post.since.Valid {
		from = min(from, sqlstore.Place(near.post.priority.Int64, near.post.since.Int64))
	}
	page := func(at int64, width int) (found, next sql.NullInt64, err error) {
		found, next, err = p.page(ctx, tx, f, p.hot.Pages[width], r.Queue, at, r.MaxGroups)
		w.Waiting = w.Waiting || f.waiting
		return found, next, err
	}
	f.rest, err = p.shortcuts.Order(r.Queue, w, from, page)
	f.waiting = w.Waiting
	return f, err
}

// page looks at a page and adds what it finds to f.
func (p *pool) page(
	ctx context.Context, tx *sqlstore.Tx, f *found, q *sqlstore.Stmt, queue, at int64, more ...any,
) (found, next sql.NullInt64, err error) {
	level, since := sqlstore.AtPlace(at)
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var what, place sql.NullInt64
		var id backend.ID
		err := rows.Scan(&next, sqlstore.Bool(&f.waiting), &what, sqlstore.ID(&id), &place)
		if err != nil || !what.Valid {
			return err
		}
		if !found.Valid {
			found = place
		}
		switch f.more = true; what.Int64 {
		case 0:
			f.group(id)
		case 1:
			f.walkedPosts = append(f.walkedPosts, id)
		default:
			f.vain = true
		}
		return nil
	}, q, append([]any{queue, level, since}, more...)...)
	return found, next, err
}

// walkStreams is walk for a queue that holds nothing but streams. It returns nil
// if that is not so.
func (p *pool) walkStreams(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, q *sqlstore.Stmt) (*found, error) {
	var f found
	var version int64
	var enabled sql.NullInt64
	some := false
	q, args := p.fixed(q, r.Queue)
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		some = true
		var group backend.ID
		var free sql.NullBool
		err := rows.Scan(&version, &enabled, &f.end, sqlstore.Bool(&f.waiting), sqlstore.ID(&group), &free)
		switch {
		case err != nil || !free.Valid:
		case !free.Bool:
			f.vain = true
		default:
			f.group(group)
		}
		return err
	}, q, args...)
	if err != nil || !some {
		return nil, err
	}
	return &f, sqlstore.CatalogState(version, enabled, r.Version)
}

// findPosts is find for a queue that holds nothing but posts. It returns nil if
// that is not so.
func (p *pool) findPosts(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (*found, error) {
	var f found
	var version int64
	var enabled sql.NullInt64
	some := false
	q, args := p.fixed(p.hot.PostClaims[limit(r.MaxGroups)], r.Queue, bytesOf(r))
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		some = true
		po := new(sqlstore.Post)
		err := rows.Scan(&version, &enabled, sqlstore.Bool(&f.waiting), sqlstore.ID(&po.ID), sqlstore.Int(&po.Priority),
			sqlstore.Int(&po.Since), sqlstore.Text(&po.Type), sqlstore.Body(&po.Body), sqlstore.Text(&po.Headers), (*seldom)(po))
		if err == nil && !po.ID.IsZero() {
			f.posts = append(f.posts, po)
		}
		return err
	}, q, args...)
	if err != nil || !some {
		return nil, err
	}
	return &f, sqlstore.CatalogState(version, enabled, r.Version)
}

// seldom is a destination for the columns that few posts have, of PostClaims. Most have none of them.
type seldom sqlstore.Post

func (s *seldom) Scan(src any) error {
	var text string
	if err := sqlstore.Text(&text).(sql.Scanner).Scan(src); err != nil || text == "" {
		return err
	}
	var uniq *string
	var attempts string
	err := json.Unmarshal([]byte(text),
		&[]any{&s.Sent, &uniq, &s.Attempts, &s.Deaths, &s.LastError, &attempts, &s.Fence, &s.Lease})
	if uniq != nil {
		s.Uniq = sql.NullString{String: *uniq, Valid: true}
	}
	s.Errors = backend.DecodeAttempts(attempts)
	return err
}

// bytesOf is how much of the bodies a claim's first statement returns.
func bytesOf(r backend.ClaimRequest) int64 {
	if r.LockOnly {
		return 0
	}
	return int64(max(r.MaxBytes, 0))
}

// walk runs a claim's first statement.
func (p *pool) walk(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, q *sqlstore.Stmt, prefer int) (*found, error) {
	var f found
	var version int64
	var enabled sql.NullInt64
	q, args := p.fixed(q, r.Queue, bytesOf(r), int64(prefer))
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		var what sql.NullInt64
		var at place
		po := new(sqlstore.Post)
		err := rows.Scan(&version, &enabled, &f.stream.priority, &f.stream.since, &f.post.priority, &f.post.since,
			&f.streams, &f.promotions, &f.promotionsEnd, &f.end, sqlstore.Bool(&f.waiting),
			&what, sqlstore.ID(&po.ID), &at.priority, &at.since,
			sqlstore.Int(&po.Sent), sqlstore.Text(&po.Type), sqlstore.Body(&po.Body), sqlstore.Text(&po.Headers), &po.Uniq, sqlstore.Int(&po.Attempts), sqlstore.Int(&po.Deaths),
			sqlstore.Text(&po.LastError), sqlstore.Attempts(&po.Errors), sqlstore.Int(&po.Fence), sqlstore.Int(&po.Lease))
		if err != nil || !what.Valid {
			return err
		}
		po.Priority, po.Since = int(at.priority.Int64), at.since.Int64
		if !f.first.since.Valid && what.Int64 != 3 {
			f.first = at
		}
		switch what.Int64 {
		case 0:
			if len(f.walkedPosts) == 0 {
				f.group(po.ID)
			}
		case 1:
			if len(f.groups) == 0 {
				f.walkedPosts = append(f.walkedPosts, po.ID)
			}
		case 3:
			f.vain = true
		default:
			f.posts = append(f.posts, po)
		}
		return nil
	}, q, args...)
	if err != nil {
		return nil, err
	}
	return &f, sqlstore.CatalogState(version, enabled, r.Version)
}

// claimOne claims the group that the request names.
func (p *pool) claimOne(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	var version int64
	var enabled sql.NullInt64
	var seen, group backend.ID
	found, err := tx.Row(ctx, []any{&version, &enabled, sqlstore.ID(&seen), sqlstore.ID(&group)},
		p.hot.ClaimOne, r.Queue, sqlstore.Null(r.Group), sqlstore.Null(r.Handle))
	if err != nil {
		return c, err
	}
	if !found {
		return c, backend.ErrNotMigrated
	}
	if err := sqlstore.CatalogState(version, enabled, r.Version); err != nil {
		return c, err
	}
	if !group.IsZero() {
		return p.read(ctx, tx, r, []backend.ID{group})
	}
	if !seen.IsZero() {
		c.Contended = true
		return c, nil
	}
	return tx.ClaimNamedPost(ctx, r)
}

// holdPosts makes holds of posts that are locked.
func (p *pool) holdPosts(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, posts []*sqlstore.Post) ([]*backend.Hold, error) {
	holds, leases := sqlstore.HoldPosts(r, posts)
	if len(leases) == 0 {
		return holds, nil
	}
	_, err := tx.Exec(ctx, p.hot.LeaseLocked, uuids(leases), r.Lease, r.Owner)
	return holds, err
}

// read is the second statement of a claim, for groups that are locked. It is tried in the form for the usual case, unless
// that was not so in this queue a moment ago.
func (p *pool) read(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, groups []backend.ID) (backend.Claim, error) {
	most := 0
	if r.MaxMessages > mostRead {
		most = 1
	}
	args := []any{uuids(groups), r.MaxMessages, max(r.MaxBytes, 0)}
	if r.Lease == 0 && !r.LockOnly && r.Handle.IsZero() && !p.unusual.has(r.Queue) {
		c, err := tx.ReadHolds(ctx, r, groups, p.hot.ReadUsual[most], args...)
		if !errors.Is(err, sqlstore.ErrUnusual) {
			return c, err
		}
		p.unusual.note(r.Queue)
	}
	return tx.ReadHolds(ctx, r, groups, p.hot.Read[most],
		append(args, sqlstore.Null(r.Handle), r.Lease, r.Owner, r.LockOnly)...)
}

// lately is what was so in queues within the last second.
type lately struct{ at sync.Map }

func (l *lately) note(queue int64) { l.at.Store(queue, time.Now()) }

func (l *lately) has(queue int64) bool {
	at, ok := l.at.Load(queue)
	if !ok {
		return false
	}
	if time.Since(at.(time.Time)) < time.Second {
		return true
	}
	l.at.Delete(queue)
	return false
}

// window is how far a claim of n groups walks into an order at first. If all of that
// is in flight, a statement with a window of deepWindow follows, and then pages of
// pageWindow from there on.
func window(n int) int { return 8*n + 50 }

const (
	deepWindow = 5000
	pageWindow = 2000
)

// limits are the numbers of groups that a claim can ask for. There is a statement for each, with
// the limit and the window in its text. The planner assumes that a limit in a parameter is a tenth
// of the rows. So with a million rows it plans again for each execution. Or it expects the
// statement to be so costly that it compiles it first (jit_above_cost), which takes half a second.
// Without a limit it prefers sorting all rows to walking an index. Each text costs the server
// nearly a megabyte in every session that uses it.
var limits = [...]int{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000}

// limit returns which of the limits is the greatest that is not above n.
func limit(n int) int {
	i, _ := slices.BinarySearch(limits[:], n+1)
	return max(i-1, 0)
}

// mostRead is how many messages of each group a read may ask for without being planned each time.
// With a limit in a parameter the planner expects a tenth of a stream. A stream of 100,000 messages
// then makes the generic plan so expensive that it is never chosen. So the parameter is hidden
// behind a limit that the planner can see.
const mostRead = 1000
