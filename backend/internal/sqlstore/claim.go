package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// maxAttempts bounds how often a claim looks again after it found nothing but
// messages to be discarded.
const maxAttempts = 3

// Claim implements backend.Tx.
func (t *Tx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	var c backend.Claim
	if err := t.ready(ctx); err != nil {
		return c, err
	}
	if l, ok := t.sess.(lazy); ok && !l.Begun() {
		if c, found, err := t.s.peek(ctx, r); err != nil || !found {
			return c, err
		}
	}
	claim := t.s.d.ClaimBatch
	if claim == nil {
		claim = claimRows
	}
	for range maxAttempts {
		found, err := claim(ctx, t, r)
		if err != nil {
			return c, err
		}
		c.Holds, c.Contended = found.Holds, found.Contended
		c.Discarded += found.Discarded
		if len(c.Holds) > 0 || found.Discarded == 0 {
			break
		}
	}
	for _, h := range c.Holds {
		t.hold(h)
	}
	if !r.Consume {
		return c, nil
	}
	return c, t.consume(ctx, r, c.Holds)
}

// peek looks, without a transaction, whether a claim is worth one.
func (s *Store) peek(ctx context.Context, r backend.ClaimRequest) (c backend.Claim, found bool, err error) {
	err = s.reading(ctx, func(x run) error {
		if err := x.queueState(ctx, r.Version, r.Queue); err != nil {
			return err
		}
		if !r.Group.IsZero() || !r.Handle.IsZero() {
			found = true
			return nil
		}
		var one any
		if found, err = x.Row(ctx, []any{&one}, s.q.Claimable, r.Queue); err != nil || found {
			return err
		}
		c.Contended, err = x.Row(ctx, []any{&one}, s.q.Waiting, r.Queue, r.Queue)
		return err
	})
	return c, found, err
}

// pick is a group, or a post without key, that was found in the order and, if
// the engine locks as it walks, locked.
type pick struct {
	id   backend.ID
	post *post // if it has been read already
	kind pickKind
}

type pickKind int

const (
	pickGroup pickKind = iota
	pickPost
)

// claimRows is Claim, row by row.
func claimRows(ctx context.Context, t *Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	if err := t.queueState(ctx, r.Version, r.Queue); err != nil {
		return c, err
	}
	bytes := budget{left: r.MaxBytes}
	claim := func(p pick) error {
		if len(c.Holds) >= r.MaxGroups {
			return errEnough
		}
		h, discarded, err := t.claimPick(ctx, r, p, &bytes)
		c.Discarded += discarded
		if h != nil {
			c.Holds = append(c.Holds, h)
		}
		return err
	}
	if !r.Group.IsZero() || !r.Handle.IsZero() {
		c.Contended, err = t.claimOne(ctx, r, claim)
	} else {
		err = t.walk(ctx, r, claim)
	}
	if err != nil && err != errEnough {
		return c, err
	}
	if len(c.Holds) > 0 {
		c.Contended = false
		return c, nil
	}
	if r.Group.IsZero() && r.Handle.IsZero() {
		var one any
		c.Contended, err = t.Row(ctx, []any{&one}, t.s.q.Waiting, r.Queue, r.Queue)
		return c, err
	}
	return c, nil
}

// claimOne claims the group that the request names.
func (t *Tx) claimOne(ctx context.Context, r backend.ClaimRequest, claim func(pick) error) (contended bool, err error) {
	id := r.Group
	if !r.Handle.IsZero() {
		h, err := t.home(ctx, r.Handle)
		if err != nil || h == nil || !id.IsZero() && id != h.group {
			return false, err
		}
		id = h.group
	}
	g, err := t.group(ctx, id)
	if err != nil {
		return false, err
	}
	p := pick{id: id}
	if g == nil {
		po, err := t.post(ctx, id)
		if err != nil || po == nil || po.queue != r.Queue || po.blocked != 0 {
			return false, err
		}
		p.kind = pickPost
	} else {
		if g.queue != r.Queue || g.blocked != 0 {
			return false, nil
		}
		var one any
		if found, err := t.Row(ctx, []any{&one}, t.s.q.GroupVisible, r.Queue, id); err != nil || !found {
			return false, err
		}
	}
	return true, claim(p)
}

// walk finds what to claim: promotions first, then from the head of the ready
// order or from that of the posts, whichever ranks higher, and if nothing there
// can be had, from the other.
func (t *Tx) walk(ctx context.Context, r backend.ClaimRequest, claim func(pick) error) error {
	taken := 0
	count := func(p pick) error {
		err := claim(p)
		if err == nil {
			taken++
		}
		return err
	}
	promoted, err := t.walkPromoted(ctx, r)
	if err != nil {
		return err
	}
	for _, p := range promoted {
		if err := count(p); err != nil {
			return err
		}
	}
	if taken > 0 {
		return nil
	}
	ready, rank, err := t.walkReady(ctx, r)
	if err != nil {
		return err
	}
	head, err := t.headPost(ctx, r.Queue)
	if err != nil {
		return err
	}
	posts := func() error {
		rows, err := t.takePosts(ctx, r)
		for _, p := range rows {
			if err == nil {
				err = count(pick{id: p.id, post: p, kind: pickPost})
			}
		}
		return err
	}
	if head.before(rank) {
		if err := posts(); err != nil || taken > 0 {
			return err
		}
		head = place{}
	}
	for _, p := range ready {
		if err := count(p); err != nil {
			return err
		}
	}
	if taken == 0 && head != (place{}) {
		return posts()
	}
	return nil
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
func (t *Tx) walkReady(ctx context.Context, r backend.ClaimRequest) (picks []pick, head place, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var p pick
		var at place
		if err := rows.Scan(ID(&p.id), &at.priority, &at.since); err != nil {
			return err
		}
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

func (t *Tx) headPost(ctx context.Context, queue int64) (head place, err error) {
	var id backend.ID
	_, err = t.Row(ctx, []any{ID(&id), &head.priority, &head.since}, t.s.q.HeadPost, queue)
	return head, err
}

// takePosts lists posts in their order, with their bodies. On some engines it
// leases them in the same statement.
func (t *Tx) takePosts(ctx context.Context, r backend.ClaimRequest) (posts []*post, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		p := new(post)
		err := p.scan(rows)
		posts = append(posts, p)
		return err
	}, t.s.q.TakePosts, r.Queue, r.MaxGroups)
	return posts, err
}

// budget is how many bytes of bodies a claim may still return.
type budget struct {
	left int
	used bool
}

// take reports whether a body fits. The first always does, and no limit is none.
func (b *budget) take(n int) bool {
	if b.used && n > b.left {
		return false
	}
	b.used = true
	b.left -= n
	return true
}

// claimPick takes one group or post and reads its messages. It returns nil if
// there is nothing to be had after all.
func (t *Tx) claimPick(ctx context.Context, r backend.ClaimRequest, p pick, bytes *budget) (*backend.Hold, int, error) {
	if p.kind == pickPost {
		h, err := t.claimPost(ctx, r, p, bytes)
		return h, 0, err
	}
	if !t.s.d.WalkLocks {
		if locked, err := t.TryLock(ctx, t.s.q.GroupTry, p.id); err != nil || !locked {
			return nil, 0, err
		}
	}
	g, err := t.group(ctx, p.id)
	if err != nil || g == nil || g.blocked != 0 || g.leased() {
		return nil, 0, err
	}
	private := &held{last: map[backend.ID]int64{}}
	h := &backend.Hold{Queue: r.Queue, Group: p.id, Private: private}
	h.Promoted, err = t.Row(ctx, []any{&h.Level, &private.version, Bool(&private.sticky)}, t.s.q.PromotionRead, p.id)
	if err != nil {
		return nil, 0, err
	}
	discarded := 0
	if !r.LockOnly {
		h.Messages, discarded, err = t.read(ctx, g, h, r.Handle, r.MaxMessages, bytes)
		if err != nil {
			return nil, discarded, err
		}
		if len(h.Messages) == 0 {
			return nil, discarded, nil
		}
	}
	switch {
	case r.Lease > 0:
		if _, err := t.Exec(ctx, t.s.q.GroupLease, r.Lease, r.Owner, p.id); err != nil {
			return nil, discarded, err
		}
		h.Fence = g.fence + 1
	case g.lease != 0:
		if _, err := t.Exec(ctx, t.s.q.GroupUnlease, p.id); err != nil {
			return nil, discarded, err
		}
	}
	return h, discarded, nil
}

// claimPost is claimPick for a post without key.
func (t *Tx) claimPost(ctx context.Context, r backend.ClaimRequest, pk pick, bytes *budget) (*backend.Hold, error) {
	p := pk.post
	if p == nil || !t.s.d.WalkLocks {
		locked, err := t.TryLock(ctx, t.s.q.PostTry, pk.id)
		if err != nil || !locked {
			return nil, err
		}
		p, err = t.post(ctx, pk.id)
		if err != nil || p == nil || p.blocked != 0 || p.leased() {
			return nil, err
		}
	}
	private := &held{post: true}
	h := &backend.Hold{Queue: r.Queue, Group: p.id, Private: private}
	var err error
	h.Promoted, err = t.Row(ctx, []any{&h.Level, &private.version, Bool(&private.sticky)}, t.s.q.PromotionRead, p.id)
	if err != nil {
		return nil, err
	}
	if !r.LockOnly {
		if !bytes.take(len(p.body)) {
			return nil, errEnough
		}
		h.Messages = []*backend.Message{p.message()}
	}
	if p.uniq.Valid {
		private.uniq = map[backend.ID]string{p.id: p.uniq.String}
	}
	switch {
	case r.Lease > 0:
		if _, err := t.Exec(ctx, t.s.q.PostLease, r.Lease, r.Owner, p.id); err != nil {
			return nil, err
		}
		h.Fence = p.fence + 1
	case p.lease != 0:
		if _, err := t.Exec(ctx, t.s.q.PostUnlease, p.id); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// source is a stream of a group and who receives from it.
type source struct {
	id       backend.ID
	kind     int64
	priority int
	handle   backend.ID
	group    backend.ID // where the endpoint is
	ended    bool
	facts    backend.Message
}

// read reads messages of a group that is locked, in the order in which they are
// received, beyond those that the hold has had. Messages for endpoints that have
// ended are removed and counted.
func (t *Tx) read(ctx context.Context, g *group, h *backend.Hold, handle backend.ID, limit int, bytes *budget) (messages []*backend.Message, discarded int, err error) {
	private := heldOf(h)
	var sources []source
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var s source
		var closed sql.NullInt64
		f := &s.facts
		err := rows.Scan(ID(&s.id), &s.kind, &s.priority, ID(&s.handle), ID(&s.group), ID(&f.Conversation),
			Bool(&f.Initiator), Text(&f.Service), Text(&f.Far), Text(&f.Contract), &closed)
		s.ended = !s.handle.IsZero() && (s.group.IsZero() || closed.Valid)
		sources = append(sources, s)
		return err
	}, t.s.q.GroupStreams, g.queue, g.id)
	if err != nil {
		return nil, 0, err
	}
	full := false
	for _, s := range sources {
		switch {
		case s.ended:
			keys, err := t.dropMessages(ctx, s.id)
			if err != nil {
				return nil, discarded, err
			}
			discarded += len(keys)
			if s.kind != streamDialog {
				err = t.dropNote(ctx, g.queue, g.id, s.id)
			} else if len(keys) > 0 {
				t.touch(s.id)
			}
			if err != nil {
				return nil, discarded, err
			}
			continue
		case !s.handle.IsZero() && s.group != g.id:
			// A notice that was written while the endpoint moved: it follows.
			if err := t.follow(ctx, g, s); err != nil {
				return nil, discarded, err
			}
			continue
		case full || len(messages) >= limit || !handle.IsZero() && s.handle != handle:
			continue
		}
		after, seen := private.last[s.id]
		if !seen {
			after = -1
		}
		n := len(messages)
		err := t.Rows(ctx, func(rows *sql.Rows) error {
			m := s.facts
			var since int64
			var kind int
			var uniq string
			err := rows.Scan(&m.Seq, ID(&m.ID), &kind, &m.Type, Body(&m.Body), &since, Text(&uniq),
				Int(&m.Attempts), Int(&m.Suspicion), Text(&m.LastError))
			if err != nil {
				return err
			}
			if !bytes.take(len(m.Body)) {
				full = true
				return errEnough
			}
			if m.Kind = backend.Kind(kind); kind == kindKeyed {
				m.Kind, m.Key = backend.KindUser, g.name
			}
			m.Stream, m.Handle, m.Group, m.Priority = s.id, s.handle, g.id, s.priority
			m.Enqueued = time.UnixMicro(since)
			messages = append(messages, &m)
			private.last[s.id] = m.Seq
			if uniq != "" {
				if private.uniq == nil {
					private.uniq = map[backend.ID]string{}
				}
				private.uniq[m.ID] = uniq
			}
			return nil
		}, t.s.q.MessageRead, s.id, after, limit-n)
		if err != nil {
			return nil, discarded, err
		}
	}
	return messages, discarded, nil
}

// follow moves a stream of one message to the group where its endpoint is now.
// Nobody else has business with its guard.
func (t *Tx) follow(ctx context.Context, g *group, s source) error {
	if s.kind == streamDialog {
		return nil // Move sees to it, with the guard
	}
	if _, err := t.Exec(ctx, t.s.q.StreamMove, s.group, s.id); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.MarkerMove, s.group, g.queue, g.id, s.id)
	return err
}

// More implements backend.Tx.
func (t *Tx) More(ctx context.Context, h *backend.Hold, maxMessages, maxBytes int) ([]*backend.Message, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if heldOf(h).post {
		return nil, nil
	}
	g, err := t.group(ctx, h.Group)
	if err != nil || g == nil {
		return nil, err
	}
	heldOf(h).since(h.Messages)
	messages, _, err := t.read(ctx, g, h, backend.ID{}, maxMessages, &budget{left: maxBytes})
	h.Messages = append(h.Messages, messages...)
	return messages, err
}

// consume settles what a claim returned, as the RECEIVE statement does.
func (t *Tx) consume(ctx context.Context, r backend.ClaimRequest, holds []*backend.Hold) error {
	outcomes := make([]backend.Outcome, len(holds))
	for i, h := range holds {
		outcomes[i] = backend.Outcome{Hold: h, Done: h.Messages, Retain: r.Retain, Keep: r.Keep}
	}
	return t.settle(ctx, outcomes)
}
