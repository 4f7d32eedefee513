package sqlstore

import (
	"context"
	"database/sql"
	"math"
	"slices"

	"github.com/parleymq/parley/backend"
)

// listed is a group or post with its place in the list of its queue's groups.
type listed struct {
	backend.Place
	post    bool
	blocked *backend.GroupStatus // of a blocked one, without what is counted
}

// What a list leaves out of the groups that are not blocked.
const (
	leaveNone = iota
	leaveFree // those that no receiver has by lease
	leaveHeld
)

// groupAlone describes a group or post, nil if there is none.
func (r run) groupAlone(ctx context.Context, id backend.ID) (*backend.GroupStatus, error) {
	place := backend.Place{ID: id}
	details, err := r.details(ctx, []listed{{Place: place}, {Place: place, post: true}})
	return details[id], err
}

// groupPage lists groups behind a place. Each list of which it consists is read from an index,
// from that place on.
func (r run) groupPage(ctx context.Context, q backend.GroupQuery) (page []listed, err error) {
	from, to, out := backend.PartPromoted, backend.PartParked, leaveNone
	switch q.State {
	case "ready":
		to, out = backend.PartReady, leaveHeld
	case "held":
		to, out = backend.PartReady, leaveFree
	case "deferred":
		from, to = backend.PartDeferred, backend.PartDeferred
	case "parked":
		from = backend.PartParked
	}
	for part := max(from, q.After.Part); part <= to && len(page) < q.Limit; part++ {
		after := backend.Place{Part: part}
		if q.After.Part == part {
			after = q.After
		}
		some, err := r.groupPart(ctx, q.Queue, after, out, q.Limit-len(page))
		if err != nil {
			return nil, err
		}
		page = append(page, some...)
	}
	return page, nil
}

// groupPart lists groups of one part of the list.
func (r run) groupPart(ctx context.Context, queue int64, after backend.Place, out, limit int) (list []listed, err error) {
	q := &r.s.q
	switch after.Part {
	case backend.PartPromoted:
		err = r.ranked(ctx, &list, q.ListPromoted, q.ListPromotedAfter, queue, after, limit, out, out)
	case backend.PartReady:
		if err = r.ranked(ctx, &list, q.ListReady, q.ListReadyAfter, queue, after, limit, out); err == nil {
			err = r.ranked(ctx, &list, q.ListPosts, q.ListPostsAfter, queue, after, limit, out)
		}
	case backend.PartDeferred:
		err = r.blocked(ctx, &list, deferred, queue, after, limit)
	default:
		err = r.blocked(ctx, &list, parked, queue, after, limit)
	}
	slices.SortFunc(list, func(a, b listed) int { return a.Compare(b.Place) })
	list = slices.CompactFunc(list, func(a, b listed) bool { return a.ID == b.ID }) // markers of the same moment
	return list[:min(limit, len(list))], err
}

// ranked lists what is behind a place, first of its rank and then of the ranks below.
func (r run) ranked(ctx context.Context, list *[]listed, below, within *Stmt, queue int64, after backend.Place, limit int, out ...any) error {
	n := 0
	scan := func(rows *sql.Rows) error {
		x := listed{Place: backend.Place{Part: after.Part}}
		err := rows.Scan(ID(&x.ID), &x.Rank, &x.Since, Bool(&x.post))
		*list = append(*list, x)
		n++
		return err
	}
	rank := math.MaxInt16
	if after.Rank != 0 || after.Since != 0 || !after.ID.IsZero() {
		rank = after.Rank
		args := append([]any{queue, rank, after.Since, after.Since, after.ID}, append(slices.Clip(out), limit)...)
		if err := r.Rows(ctx, scan, within, args...); err != nil || n >= limit {
			return err
		}
	}
	return r.Rows(ctx, scan, below, append([]any{queue, rank}, append(slices.Clip(out), limit-n)...)...)
}

// blocked lists what is deferred or parked behind a place.
func (r run) blocked(ctx context.Context, list *[]listed, state int, queue int64, after backend.Place, limit int) error {
	for _, q := range []*Stmt{r.s.q.ListBlocked, r.s.q.ListBlockedPosts} {
		err := r.Rows(ctx, func(rows *sql.Rows) error {
			x := listed{Place: backend.Place{Part: after.Part}, post: q == r.s.q.ListBlockedPosts}
			g := &backend.GroupStatus{Queue: queue, Post: x.post}
			var since, now int64
			err := rows.Scan(ID(&x.ID), &x.Since, &since, Text(&g.Reason), Text(&g.Service), Text(&g.Key), &now)
			g.Group, g.Place = x.ID, x.Place
			block(g, state, since, x.Since, now)
			x.blocked = g
			*list = append(*list, x)
			return err
		}, q, state, queue, after.Since, after.Since, after.ID, limit)
		if err != nil {
			return err
		}
	}
	return nil
}
