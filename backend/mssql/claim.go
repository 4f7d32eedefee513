package mssql

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// candidate is something that may be claimed.
type candidate struct {
	what     int64 // 0 promoted group, 1 promoted post, 2 group, 3 post
	id       backend.ID
	priority int64 // or level
	since    int64
}

// kind is 0 for a group and 1 for a post.
func (c candidate) kind() int64 { return c.what & 1 }

// promoted candidates come before all others.
func (c candidate) promoted() bool { return c.what < 2 }

// place is where it stands in its order.
func (c candidate) place() int64 { return sqlstore.Place(c.priority, c.since) }

// claim walks the orders without locking, locks the groups that rank first by a second statement,
// and reads their messages by a third. It reads only the heads of the orders. If everything there
// is in flight, it goes on page by page.
func (p *pool) claim(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	if !r.Group.IsZero() || !r.Handle.IsZero() {
		return p.claimOne(ctx, tx, r)
	}
	l := looking{p: p, ctx: ctx, tx: tx, r: r, w: sqlstore.WalkOf(r)}
	near := part{8*r.MaxGroups + 50, first}
	promotions, order, err := p.walk(ctx, tx, r, near, near)
	var rest *sqlstore.Walk
	if err == nil {
		rest, err = l.look(promotions, order)
	}
	switch {
	case err != nil || l.found():
	case rest != nil:
		l.c.Contended, l.c.Walk = true, rest
	default:
		var one any
		l.c.Contended, err = tx.Row(ctx, []any{&one}, tx.Q().Waiting, r.Queue, r.Queue)
	}
	return l.c, err
}

// looking is a claim at work.
type looking struct {
	p   *pool
	ctx context.Context
	tx  *sqlstore.Tx
	r   backend.ClaimRequest
	w   *sqlstore.Walk
	c   backend.Claim
}

// found reports whether there is an answer, even if only that another receiver was quicker.
func (l *looking) found() bool { return len(l.c.Holds) > 0 || l.c.Contended || l.c.Discarded > 0 }

// look takes the free groups at the heads of both orders, or else those that follow.
func (l *looking) look(promotions, order *page) (rest *sqlstore.Walk, err error) {
	_, next, err := l.take(promotions)
	if err == nil && !l.found() && next.Valid && !l.w.Promoted {
		rest, err = l.p.shortcuts.Promotions(l.r.Queue, l.w, next.Int64, l.promotions)
	}
	if err != nil || rest != nil || l.found() {
		return rest, err
	}
	_, next, err = l.take(order)
	if err == nil && !l.found() && next.Valid {
		rest, err = l.p.shortcuts.Order(l.r.Queue, l.w, next.Int64, l.order)
	}
	return rest, err
}

// promotions looks at a page of promotions, as order does at one of streams and posts.
func (l *looking) promotions(at int64, width int) (found, next sql.NullInt64, err error) {
	p, _, err := l.p.walk(l.ctx, l.tx, l.r, part{widths[width], at}, part{})
	if err != nil {
		return found, next, err
	}
	return l.take(p)
}

func (l *looking) order(at int64, width int) (found, next sql.NullInt64, err error) {
	_, p, err := l.p.walk(l.ctx, l.tx, l.r, part{}, part{widths[width], at})
	if err != nil {
		return found, next, err
	}
	return l.take(p)
}

// take takes the free groups of a page.
func (l *looking) take(p *page) (found, next sql.NullInt64, err error) {
	if len(p.list) > 0 {
		l.c, err = l.p.take(l.ctx, l.tx, l.r, p.list)
	}
	if l.found() {
		found = sql.NullInt64{Int64: p.list[0].place(), Valid: true}
	}
	return found, p.next, err
}

// first is before all places.
const first = -900 * sqlstore.Rank

// widths are how many entries of an order make a page.
var widths = [sqlstore.Widths]int{2000, 20_000, 200_000, 2_000_000, 20_000_000}

// part says how much of an order to walk, and from what place on.
type part struct {
	window int
	from   int64
}

// page is what a walk has found, in order and without duplicates. If there may be more, another
// page begins at next.
type page struct {
	list []candidate
	next sql.NullInt64
}

// walk lists candidates: promotions, and streams with posts.
func (p *pool) walk(
	ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, promotions, order part,
) (promoted, ordered *page, err error) {
	var version int64
	var enabled sql.NullInt64
	var kinds [4][]candidate
	level, levelSince := sqlstore.AtPlace(promotions.from)
	priority, since := sqlstore.AtPlace(order.from)
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var c candidate
		var what sql.NullInt64
		err := rows.Scan(&version, &enabled, &what, sqlstore.ID(&c.id), sqlstore.Int(&c.priority), sqlstore.Int(&c.since))
		if err == nil && what.Valid {
			c.what = what.Int64
			kinds[c.what] = append(kinds[c.what], c)
		}
		return err
	}, p.many.Walk, r.Queue, promotions.window, level, levelSince, order.window, priority, since)
	if err == nil {
		err = sqlstore.CatalogState(version, enabled, r.Version)
	}
	promoted = merged(promotions.window, slices.Concat(kinds[0], kinds[1]))
	return promoted, merged(order.window, kinds[2], kinds[3]), err
}

// merged makes a page of lists in one order. It ends where the first of those ends that
// may have more.
func merged(window int, lists ...[]candidate) *page {
	var p page
	for _, list := range lists {
		slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.place(), b.place()) })
		p.list = append(p.list, list...)
		if n := len(list); n > 0 && n >= window {
			if at := list[n-1].place(); !p.next.Valid || at < p.next.Int64 {
				p.next = sql.NullInt64{Int64: at, Valid: true}
			}
		}
	}
	slices.SortStableFunc(p.list, func(a, b candidate) int { return cmp.Compare(a.place(), b.place()) })
	// A group with several streams stands in the order several times.
	seen := make(map[backend.ID]bool)
	p.list = slices.DeleteFunc(p.list, func(c candidate) bool {
		drop := seen[c.id] || p.next.Valid && c.place() > p.next.Int64
		seen[c.id] = true
		return drop
	})
	return &p
}

// take locks candidates, or leases them, and reads what they have.
func (p *pool) take(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, list []candidate) (c backend.Claim, err error) {
	rows := make([]idRow, len(list))
	for i, x := range list {
		rows[i] = idRow{int32(i + 1), x.id[:], x.kind()}
	}
	q, args := p.many.Take, []any{p.idTable(rows), r.MaxGroups}
	if r.Lease > 0 {
		q, args = p.many.Lease, append(args, r.Lease, r.Owner)
	}
	var kind int64
	var had []backend.ID
	var orphans []int64
	vain := false
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var id backend.ID
		var free bool
		var orphan int64 // a lease ran out
		err := rows.Scan(&kind, sqlstore.ID(&id), sqlstore.Bool(&free), &orphan)
		if free {
			had, orphans = append(had, id), append(orphans, orphan)
		} else {
			vain = true
		}
		return err
	}, q, args...)
	if err != nil || len(had) == 0 {
		c.Contended = vain
		return c, err
	}
	if vain && r.Alone {
		// The transaction must release its locks: the owner of a group that it locked
		// without result would wait for it.
		c.Contended = true
		return c, nil
	}
	if kind == 1 {
		c.Holds, err = p.readPosts(ctx, tx, r, had, list[0].promoted())
		return c, err
	}
	return p.read(ctx, tx, r, had, orphans)
}

// read makes holds of groups that are ours. Those that turned out to have nothing are
// given back.
func (p *pool) read(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, had []backend.ID, orphans []int64) (c backend.Claim, err error) {
	grown := int64(0)
	if r.Lease > 0 {
		grown = 1
	}
	c, err = tx.ReadHolds(ctx, r, had, p.many.Read,
		p.idTable(idRows(had, orphans)), max(r.MaxMessages, 1), max(r.MaxBytes, 0), sqlstore.Null(r.Handle), r.LockOnly, grown)
	if err != nil || len(c.Holds) == len(had) {
		return c, err
	}
	for _, id := range had {
		if !slices.ContainsFunc(c.Holds, func(h *backend.Hold) bool { return h.Group == id }) {
			if r.Lease > 0 {
				if _, err := tx.Exec(ctx, tx.Q().GroupUnlease, id); err != nil {
					return c, err
				}
			}
			c.Contended = len(c.Holds) == 0
		}
	}
	return c, nil
}

// readPosts makes holds of posts that are ours, up to the limit of bytes.
func (p *pool) readPosts(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, had []backend.ID, promoted bool) (holds []*backend.Hold, err error) {
	var posts []*sqlstore.Post
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		post := new(sqlstore.Post)
		err := post.Scan(rows)
		posts = append(posts, post)
		return err
	}, p.many.Held, p.idTable(idRows(had, nil)))
	if err != nil {
		return nil, err
	}
	left := r.MaxBytes
	for i, post := range posts {
		left -= len(post.Body) + len(post.Headers)
		if i > 0 && left < 0 && !r.LockOnly { // it does not fit: give it back
			if r.Lease > 0 {
				if _, err := tx.Exec(ctx, tx.Q().PostUnlease, post.ID); err != nil {
					return nil, err
				}
			}
			continue
		}
		if r.Lease > 0 {
			post.Fence-- // as it was before the claim
		}
		h := post.Hold(r)
		if promoted {
			if err := tx.ReadPromotion(ctx, h); err != nil {
				return nil, err
			}
		}
		holds = append(holds, h)
	}
	return holds, nil
}

// claimOne claims the group that the request names.
func (p *pool) claimOne(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	id, post, err := tx.FindOne(ctx, r)
	if err != nil || id.IsZero() {
		return c, err
	}
	x := candidate{what: 0, id: id}
	if post {
		x.what = 1
	}
	c, err = p.take(ctx, tx, r, []candidate{x})
	if err == nil && len(c.Holds) == 0 && c.Discarded == 0 {
		c.Contended = true
	}
	return c, err
}
