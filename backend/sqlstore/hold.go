package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// group is a row of the table grp.
type group struct {
	id      backend.ID
	queue   int64
	service string
	name    string // of a key
	fence   int64
	lease   int64 // until when; 0: none
	blocked int
	until   int64 // when its last deferral ends, or has ended
	resweep bool
	now     int64
}

// The values of the column blocked.
const (
	deferred = 1
	parked   = 2
)

// columns are those of GroupRead.
func (g *group) columns() []any {
	return []any{Int(&g.queue), Text(&g.service), Text(&g.name), Int(&g.fence), Int(&g.lease), Int(&g.blocked), Int(&g.until), Bool(&g.resweep), Int(&g.now)}
}

// leased reports whether a receiver has the group by lease.
func (g *group) leased() bool { return g.lease > g.now }

// group reads a group, nil if there is none.
func (r run) group(ctx context.Context, id backend.ID) (*group, error) {
	g := group{id: id}
	found, err := r.Row(ctx, g.columns(), r.s.q.GroupRead, id)
	if err != nil || !found {
		return nil, err
	}
	return &g, nil
}

// take locks a group without waiting and then reads it. It returns nil if there is none, and locked
// false if another receiver holds it, in a transaction or by lease. A token that an expired lease
// left behind is taken away, so that its owner cannot acknowledge any more.
func (t *Tx) take(ctx context.Context, id backend.ID) (g *group, locked bool, err error) {
	locked, err = t.TryLock(ctx, t.s.q.GroupFree, id)
	if err != nil {
		return nil, false, err
	}
	g, err = t.group(ctx, id)
	if err != nil || g == nil {
		return nil, false, err
	}
	if !locked || g.leased() {
		return g, false, nil
	}
	if g.lease != 0 {
		if err := t.unlease(ctx, g); err != nil {
			return nil, false, err
		}
	}
	return g, true, nil
}

// unlease takes away the token of a receiver that died, and counts that for the
// message that it had in hand, as a claim does.
func (t *Tx) unlease(ctx context.Context, g *group) error {
	h := NewHold(backend.ClaimRequest{Queue: g.queue}, g.id, 0, onceServed)
	if _, _, err := t.read(ctx, pick{id: g.id, group: g}, h, backend.ID{}, 1, &budget{}); err != nil {
		return err
	}
	if err := t.Suspect(ctx, h); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, t.s.q.GroupUnlease, g.id); err != nil {
		return err
	}
	g.fence, g.lease = g.fence+1, 0
	return nil
}

// LockGroup implements backend.Tx.
func (t *Tx) LockGroup(ctx context.Context, id backend.ID) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	g, locked, err := t.take(ctx, id)
	switch {
	case err != nil:
		return err
	case g == nil:
		return backend.ErrNoGroup
	case !locked && t.s.d.Futile:
		return Classified(backend.ErrWouldDeadlock, backend.ErrGroupBusy)
	case !locked:
		return backend.ErrGroupBusy
	}
	return nil
}

// held is what a hold remembers for its backend.
type held struct {
	post    bool
	handle  backend.ID            // the claim was for this endpoint only
	version int64                 // of the promotion that it came by; 0: none
	lasts   Lasting               // that promotion
	last    map[backend.ID]int64  // the last message read of each stream
	uniq    map[backend.ID]string // the unique values of messages that have one
}

// since has the next read begin behind these messages: those that the receiver
// gave back are read again.
func (h *held) since(messages []*backend.Message) {
	h.last = make(map[backend.ID]int64, len(h.last))
	for _, m := range messages {
		h.last[m.Stream] = max(h.last[m.Stream], m.Seq)
	}
}

func heldOf(h *backend.Hold) *held {
	if p, ok := h.Private.(*held); ok {
		return p
	}
	return &held{}
}

// Reclaim implements backend.Tx. It ends the leases in the transaction, so that
// they are as they were if it is rolled back, and over if it commits. Until
// then no other transaction can change the rows. Where that is so anyway, the leases of
// posts end when it is known what becomes of them (release.go).
func (t *Tx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	if t.s.d.HeldPosts != nil && !t.Joined() {
		groups, posts := SplitHolds(holds)
		if err := t.lookAt(ctx, posts); err != nil {
			return err
		}
		holds = groups
	}
	var had []backend.ID
	if len(holds) > 0 && t.s.d.Reclaim != nil && (len(holds) > 1 || t.s.q.GroupReclaim.Empty()) {
		var err error
		if had, err = t.s.d.Reclaim(ctx, t, holds); err != nil {
			return err
		}
	}
	for _, h := range holds {
		if !slices.Contains(had, h.Group) {
			if err := t.reclaim(ctx, h); err != nil {
				return err
			}
		}
		t.hold(h)
	}
	return nil
}

func (t *Tx) reclaim(ctx context.Context, h *backend.Hold) error {
	try, wait := t.s.q.GroupReclaim, t.s.q.GroupReclaimWait
	if heldOf(h).post {
		try, wait = t.s.q.PostReclaim, t.s.q.PostReclaimWait
	}
	n := int64(0)
	if !try.Empty() {
		var err error
		if n, err = t.Exec(ctx, try, h.Group, h.Fence); err != nil || n > 0 {
			return err
		}
	}
	// A transaction that has taken over an expired lease has the row locked,
	// maybe for long, and is not waited for. As long as the lease has
	// not expired, it is locked for a moment only: by a heartbeat or a maintenance job.
	still, err := t.stillLeased(ctx, h)
	if err != nil {
		return err
	}
	if still {
		if n, err = t.Exec(ctx, wait, h.Group, h.Fence); err != nil {
			return err
		}
	}
	if n == 0 {
		return t.fenced(ctx)
	}
	return nil
}

// hold remembers what this transaction has in hand.
func (t *Tx) hold(h *backend.Hold) { t.holds = append(t.holds, h) }

// holding reports whether h was claimed or reclaimed in this transaction.
func (t *Tx) holding(h *backend.Hold) bool {
	for _, x := range t.holds {
		if x == h {
			return true
		}
	}
	return false
}

// Extend implements backend.Backend.
func (s *Store) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	lost := 0
	err := s.atomically(ctx, func(tx *Tx) (err error) {
		if s.d.Extend != nil {
			lost, err = s.d.Extend(ctx, tx, holds, d)
			return err
		}
		for _, h := range holds {
			ok, err := tx.extend(ctx, h, d)
			if err != nil {
				return err
			}
			if !ok {
				lost++
			}
		}
		return nil
	})
	if err == nil && lost > 0 {
		err = backend.ErrFenced
	}
	return err
}

// extend extends one lease. A row that is locked before the lease expires counts as extended. It
// is in the owner's own transaction, which needs no lease, or locked for a moment; the next
// heartbeat comes long before the end.
func (t *Tx) extend(ctx context.Context, h *backend.Hold, d time.Duration) (bool, error) {
	try, extend := t.s.q.GroupTry, t.s.q.GroupExtend
	if heldOf(h).post {
		try, extend = t.s.q.PostTry, t.s.q.PostExtend
	}
	locked, err := t.TryLock(ctx, try, h.Group)
	if err != nil {
		return false, err
	}
	if !locked {
		return t.stillLeased(ctx, h)
	}
	n, err := t.Exec(ctx, extend, d, h.Group, h.Fence)
	return n > 0, err
}

// stillLeased reports whether a hold's row, as committed, has its fence and a
// lease that has not expired.
func (t *Tx) stillLeased(ctx context.Context, h *backend.Hold) (bool, error) {
	if heldOf(h).post {
		p, err := t.post(ctx, h.Group)
		return p != nil && p.Fence == h.Fence && p.leased(), err
	}
	g, err := t.group(ctx, h.Group)
	return g != nil && g.fence == h.Fence && g.leased(), err
}

// Post is a row of the table post.
type Post struct {
	ID       backend.ID
	Queue    int64
	Priority int
	Since    int64 // its place
	Sent     int64 // before it was deferred; 0: Since
	Type     string
	Body     []byte
	Headers  string
	Uniq     sql.NullString

	Attempts  int
	Deaths    int
	LastError string
	Errors    []backend.FailedAttempt

	Fence   int64
	Lease   int64
	Blocked int
	Now     int64
}

// Scan reads the columns of PostRead.
func (p *Post) Scan(rows *sql.Rows) error {
	return rows.Scan(ID(&p.ID), &p.Queue, &p.Priority, &p.Since, Int(&p.Sent), &p.Type, Body(&p.Body), Text(&p.Headers), &p.Uniq,
		&p.Attempts, &p.Deaths, Text(&p.LastError), Attempts(&p.Errors), &p.Fence, &p.Lease, &p.Blocked, &p.Now)
}

func (p *Post) leased() bool { return p.Lease > p.Now }

// post reads a post without key, nil if there is none.
func (r run) post(ctx context.Context, id backend.ID) (p *Post, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		p = new(Post)
		return p.Scan(rows)
	}, r.s.q.PostRead, id)
	return p, err
}

// Hold makes a hold of a post that the claim r has locked.
func (p *Post) Hold(r backend.ClaimRequest) *backend.Hold {
	private := &held{post: true}
	h := &backend.Hold{Queue: r.Queue, Group: p.ID, Private: private}
	if r.Lease > 0 {
		h.Fence = p.Fence + 1
	}
	if p.Uniq.Valid {
		private.uniq = map[backend.ID]string{p.ID: p.Uniq.String}
	}
	if !r.LockOnly {
		h.Messages = []*backend.Message{p.message()}
	}
	return h
}

// isPost reports whether a hold is of a post without key.
func isPost(h *backend.Hold) bool { return heldOf(h).post }

// sortPosts sorts posts in the order in which they are received. Engines return them already sorted
// by time, or nearly so.
func sortPosts(posts []*Post) {
	slices.SortFunc(posts, func(a, b *Post) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Since, b.Since), bytes.Compare(a.ID[:], b.ID[:]))
	})
}

// HoldPosts makes holds of locked posts, in their order, as many as the claim r has room for. It
// also returns the posts whose leases must be written. For a claim by lease these are all posts,
// otherwise those with an expired lease.
func HoldPosts(r backend.ClaimRequest, posts []*Post) (holds []*backend.Hold, leases []backend.ID) {
	sortPosts(posts)
	size := 0
	for _, p := range posts {
		size += len(p.Body) + len(p.Headers)
		if len(holds) > 0 && (size > max(r.MaxBytes, 0) || r.LockOnly) {
			break
		}
		holds = append(holds, p.Hold(r))
		if r.Lease > 0 || p.Lease != 0 {
			leases = append(leases, p.ID)
		}
	}
	return holds, leases
}

// SplitHolds returns which holds are of groups and which of posts without key.
func SplitHolds(holds []*backend.Hold) (groups, posts []*backend.Hold) {
	for _, h := range holds {
		if heldOf(h).post {
			posts = append(posts, h)
		} else {
			groups = append(groups, h)
		}
	}
	return groups, posts
}

// message is the post as delivered. A token that a lease left behind shows that
// a receiver died.
func (p *Post) message() *backend.Message {
	m := &backend.Message{
		ID: p.ID, Stream: p.ID, Kind: backend.KindUser, Type: p.Type, Body: p.Body, Headers: p.Headers, Group: p.ID,
		Enqueued: time.UnixMicro(cmp.Or(p.Sent, p.Since)), Priority: p.Priority,
		Attempts: p.Attempts, Deaths: p.Deaths, LastError: p.LastError, Errors: p.Errors,
	}
	if p.Lease != 0 {
		m.Deaths++
	}
	return m
}
