package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// detailed is how many groups or posts a statement describes.
const detailed = 50

// details describes those of the listed groups and posts that are still there.
func (r run) details(ctx context.Context, list []listed) (map[backend.ID]*backend.GroupStatus, error) {
	var groups, posts []backend.ID
	for _, x := range list {
		if x.post {
			posts = append(posts, x.ID)
		} else {
			groups = append(groups, x.ID)
		}
	}
	found := make(map[backend.ID]*backend.GroupStatus, len(list))
	for ids := range slices.Chunk(groups, detailed) {
		if err := r.groupDetails(ctx, ids, found); err != nil {
			return nil, err
		}
	}
	for ids := range slices.Chunk(posts, detailed) {
		if err := r.postDetails(ctx, ids, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// groupDetails describes groups. The statement counts messages up to a bound, which is one for all its groups, or
// (PostgreSQL) one for each. If the sum is that bound, some messages may not be counted, and groupDetails describes the
// groups by halves. A larger sum shows that each group has its bound.
func (r run) groupDetails(ctx context.Context, ids []backend.ID, found map[backend.ID]*backend.GroupStatus) error {
	messages := 0
	err := r.Rows(ctx, func(rows *sql.Rows) error {
		var g backend.GroupStatus
		var d detail
		err := rows.Scan(slices.Concat([]any{ID(&g.Group), &g.Service, &g.Key}, d.columns(&g), []any{Int(&g.Messages), Int(&d.oldest), Int(&g.Stranded)})...)
		d.tell(&g)
		messages += g.Messages
		found[g.Group] = &g
		return err
	}, r.s.q.GroupDetails, append(padded(ids), padded(ids)...)...)
	if half := len(ids) / 2; err == nil && half > 0 && messages == backend.CountLimit {
		if err = r.groupDetails(ctx, ids[:half], found); err == nil {
			err = r.groupDetails(ctx, ids[half:], found)
		}
	}
	return err
}

func (r run) postDetails(ctx context.Context, ids []backend.ID, found map[backend.ID]*backend.GroupStatus) error {
	return r.Rows(ctx, func(rows *sql.Rows) error {
		g := backend.GroupStatus{Post: true, Messages: 1}
		var d detail
		err := rows.Scan(slices.Concat([]any{ID(&g.Group)}, d.columns(&g), []any{&d.oldest})...)
		d.tell(&g)
		found[g.Group] = &g
		return err
	}, r.s.q.PostDetails, padded(ids)...)
}

// padded are ids, and zeros up to as many as a statement takes.
func padded(ids []backend.ID) []any {
	args := make([]any, detailed)
	for i := range args {
		args[i] = backend.ID{}
		if i < len(ids) {
			args[i] = ids[i]
		}
	}
	return args
}

// detail is what a status is worked out from.
type detail struct {
	lease, held, since, until, now, oldest int64
	blocked                                int
	level                                  sql.NullInt64
	lasts                                  Lasting
}

// columns are those that groups and posts have.
func (d *detail) columns(g *backend.GroupStatus) []any {
	return []any{&g.Queue, &d.lease, &d.held, Text(&g.Owner), &d.blocked, &d.since, &d.until, Text(&g.Reason), &d.now, &d.level, Int(&d.lasts), Int(&g.Priority)}
}

func (d *detail) tell(g *backend.GroupStatus) {
	g.Promoted, g.Level = d.level.Valid, int(d.level.Int64)
	g.Sticky, g.UntilEmpty = d.lasts == sticky, d.lasts == untilEmpty
	if d.oldest > 0 {
		g.Oldest = span(d.oldest, d.now)
	}
	switch {
	case d.blocked != 0:
		g.Stranded = 0
		block(g, d.blocked, d.since, d.until, d.now)
	case d.lease > d.now:
		g.State, g.Since, g.Until = "held", span(d.held, d.now), span(d.now, d.lease)
	default:
		g.State, g.Owner = "ready", ""
	}
}
