package sqlstore

import (
	"bytes"
	"cmp"
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
	// source is the only stream of a group, and messages what has been read of it, if that has been done already.
	source   *Source
	messages []firstMessage
	read     bool
}

type pickKind int

const (
	pickGroup pickKind = iota
	pickPost
)

// walk finds what to claim. Promotions come first. Then follows the head of the ready order or that
// of the posts, whichever ranks higher. If nothing is free there, walk tries the other one.
func (t *Tx) walk(ctx context.Context, r backend.ClaimRequest, claim func(pick) error) error {
	state, err := t.claimWalk(ctx, r)
	if err == nil && state.expired {
		if _, err = t.Exec(ctx, t.s.q.FreeReady, r.Queue); err == nil {
			state, err = t.claimWalk(ctx, r)
		}
	}
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
	if head.before(state.rank) {
		if err := posts(); err != nil || taken > 0 {
			return err
		}
		head = place{}
	}
	if err := t.readFirst(ctx, r, state.ready); err != nil {
		return err
	}
	for _, p := range state.ready {
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

// claimState is what a claim looks at before it takes anything.
type claimState struct {
	promoted bool   // there are promotions,
	expired  bool   // and streams that an expired lease keeps out of the order
	post     place  // of the first one
	ready    []pick // the first groups in the ready order, each once
	rank     place  // of the first of these
}

func (t *Tx) claimWalk(ctx context.Context, r backend.ClaimRequest) (s claimState, err error) {
	type entry struct {
		pick
		at     place
		stream backend.ID
	}
	var found []entry
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var version int64
		var enabled, closed sql.NullInt64
		var streams int
		var priority, since sql.NullInt64
		g, src := new(group), new(Source)
		var home backend.ID
		f := &src.common
		var m firstMessage
		columns := []any{&version, &enabled, Bool(&s.promoted), Bool(&s.expired), Int(&s.post.priority), Int(&s.post.since),
			ID(&g.id), &priority, &since}
		columns = append(append(columns, g.columns()...), &streams,
			ID(&src.ID), Int(&src.Kind), ID(&src.Handle), ID(&home), ID(&f.Conversation), Bool(&f.Initiator),
			Text(&f.Service), Text(&f.FarService), Text(&f.Contract), &closed)
		columns = append(columns, m.columns()...)
		if err := rows.Scan(columns...); err != nil {
			return err
		}
		if err := CatalogState(version, enabled, r.Version); err != nil || g.id.IsZero() {
			return err
		}
		e := entry{at: place{int(priority.Int64), since.Int64}, stream: src.ID}
		e.id, e.group = g.id, g
		if streams == 1 && !src.ID.IsZero() {
			src.Group, src.priority = g.id, e.at.priority
			src.receivedBy(home, closed.Valid)
			e.source = src
			if e.read = !m.ID.IsZero(); e.read {
				e.messages = []firstMessage{m}
			}
		}
		found = append(found, e)
		return nil
	}, t.s.q.ClaimWalk, r.Queue, r.MaxGroups)
	slices.SortFunc(found, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.at.priority, a.at.priority), cmp.Compare(a.at.since, b.at.since),
			bytes.Compare(a.id[:], b.id[:]), bytes.Compare(a.stream[:], b.stream[:]))
	})
	for _, e := range found {
		if !slices.ContainsFunc(s.ready, func(p pick) bool { return p.id == e.id }) {
			s.ready = append(s.ready, e.pick)
		}
	}
	if len(found) > 0 {
		s.rank = found[0].at
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
