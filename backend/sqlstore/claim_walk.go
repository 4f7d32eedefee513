package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// pick is a group, or a post without key, that was found in the order and, if
// the engine locks as it walks, locked.
type pick struct {
	id    backend.ID
	kind  pickKind
	post  *Post  // if it has been read already,
	group *group // as the other
	// leased: the post has been marked as held already.
	leased bool
	// ordinary: it is not promoted, as has been found out already.
	ordinary bool
}

type pickKind int

const (
	pickGroup pickKind = iota
	pickPost
)

// walk finds what to claim. Promotions come first. Then follows the head of the ready order or that
// of the posts, whichever ranks higher. If nothing is free there, walk tries the other one.
func (t *Tx) walk(ctx context.Context, r backend.ClaimRequest, claim func(pick) error) error {
	state, err := t.claimState(ctx, r)
	if err != nil {
		return err
	}
	taken := 0
	count := func(p pick) error {
		err := claim(p)
		if err == nil {
			taken++
		}
		return err
	}
	var promoted []pick
	if state.promoted {
		if promoted, err = t.walkPromoted(ctx, r); err != nil {
			return err
		}
	}
	for _, p := range promoted {
		if err := count(p); err != nil {
			return err
		}
	}
	if taken > 0 {
		return nil
	}
	ordinary := len(promoted) == 0
	ready, rank, err := t.walkReady(ctx, r, state.expired)
	if err != nil {
		return err
	}
	posts := func() error {
		rows, leased, err := t.takePosts(ctx, r)
		for _, p := range rows {
			if err == nil {
				err = count(pick{id: p.ID, post: p, kind: pickPost, leased: leased, ordinary: ordinary})
				if err == nil {
					continue
				}
			}
			if leased && err == errEnough { // it does not fit: give it back
				if _, err := t.Exec(ctx, t.s.q.PostUnlease, p.ID); err != nil {
					return err
				}
			}
		}
		return err
	}
	head := state.post
	if head.before(rank) {
		if err := posts(); err != nil || taken > 0 {
			return err
		}
		head = place{}
	}
	for _, p := range ready {
		p.ordinary = ordinary
		if err := count(p); err != nil {
			return err
		}
	}
	if taken == 0 && head != (place{}) {
		return posts()
	}
	return nil
}

// claimState is what a claim looks at before it walks.
type claimState struct {
	promoted bool  // there are promotions,
	expired  bool  // and streams that an expired lease keeps out of the order
	post     place // of the first one
}

func (t *Tx) claimState(ctx context.Context, r backend.ClaimRequest) (s claimState, err error) {
	var version int64
	var enabled sql.NullInt64
	_, err = t.Row(ctx, []any{&version, &enabled, Bool(&s.promoted), Bool(&s.expired), Int(&s.post.priority), Int(&s.post.since)},
		t.s.q.ClaimState, r.Queue)
	if err == nil {
		err = CatalogState(version, enabled, r.Version)
	}
	return s, err
}

// place is where something stands in the order; the zero place is nowhere.
type place struct {
	priority int
	since    int64
}

func (p place) before(q place) bool {
	switch {
	case p == place{}:
		return false
	case q == place{}:
		return true
	case p.priority != q.priority:
		return p.priority > q.priority
	}
	return p.since < q.since
}

func (t *Tx) walkPromoted(ctx context.Context, r backend.ClaimRequest) (picks []pick, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var p pick
		err := rows.Scan(ID(&p.id), Int(&p.kind))
		picks = append(picks, p)
		return err
	}, t.s.q.WalkPromoted, r.Queue, r.MaxGroups)
	return picks, err
}

// walkReady lists groups in ready order, each once, and the place of the first.
func (t *Tx) walkReady(ctx context.Context, r backend.ClaimRequest, expired bool) (picks []pick, head place, err error) {
	if expired {
		if _, err := t.Exec(ctx, t.s.q.FreeReady, r.Queue); err != nil {
			return nil, place{}, err
		}
	}
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var p pick
		var at place
		g := new(group)
		if err := rows.Scan(append([]any{ID(&p.id), &at.priority, &at.since}, g.columns()...)...); err != nil {
			return err
		}
		g.id, p.group = p.id, g
		if len(picks) == 0 {
			head = at
		}
		if !slices.ContainsFunc(picks, func(x pick) bool { return x.id == p.id }) {
			picks = append(picks, p)
		}
		return nil
	}, t.s.q.WalkReady, r.Queue, r.MaxGroups)
	return picks, head, err
}

// takePosts lists posts in their order, with their bodies. Where the engine can,
// a claim by lease marks them as held in the same statement.
func (t *Tx) takePosts(ctx context.Context, r backend.ClaimRequest) (posts []*Post, leased bool, err error) {
	q, args := t.s.q.TakePosts, []any{r.Queue, r.MaxGroups}
	if r.Lease > 0 && !r.LockOnly && !t.s.q.LeasePosts.Empty() {
		q, args, leased = t.s.q.LeasePosts, append(args, r.Lease, r.Owner), true
	}
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		p := new(Post)
		err := p.Scan(rows)
		posts = append(posts, p)
		return err
	}, q, args...)
	sortPosts(posts)
	return posts, leased, err
}
