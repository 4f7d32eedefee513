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

// maxAttempts bounds how often a claim looks again after it found nothing but
// messages to be discarded.
const maxAttempts = 3

// Claim implements backend.Tx.
func (t *Tx) Claim(ctx context.Context, r backend.ClaimRequest) (c backend.Claim, err error) {
	if err := t.ready(ctx); err != nil {
		return c, err
	}
	if l, ok := t.sess.(lazy); ok && !l.Begun() {
		if _, busy := t.s.busy.Load(r.Queue); !busy {
			if c, found, err := t.s.peek(ctx, r); err != nil || !found {
				return c, err
			}
		}
		defer func() {
			if len(c.Holds) > 0 {
				t.s.busy.Store(r.Queue, true)
			} else {
				t.s.busy.Delete(r.Queue)
			}
		}()
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
	kind pickKind
	post *Post // if it has been read already
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
	id, post, err := t.FindOne(ctx, r)
	if err != nil || id.IsZero() {
		return false, err
	}
	p := pick{id: id}
	if post {
		p.kind = pickPost
	}
	return true, claim(p)
}

// FindOne returns the group that a request names, or the post, if it may have
// something to claim, and a zero id if not.
func (t *Tx) FindOne(ctx context.Context, r backend.ClaimRequest) (id backend.ID, post bool, err error) {
	none := backend.ID{}
	id = r.Group
	if !r.Handle.IsZero() {
		h, err := t.home(ctx, r.Handle)
		if err != nil || h == nil || !id.IsZero() && id != h.group {
			return none, false, err
		}
		id = h.group
	}
	g, err := t.group(ctx, id)
	if err != nil {
		return none, false, err
	}
	if g == nil {
		po, err := t.post(ctx, id)
		if err != nil || po == nil || po.Queue != r.Queue || po.Blocked != 0 {
			return none, false, err
		}
		return id, true, nil
	}
	if g.queue != r.Queue || g.blocked != 0 {
		return none, false, nil
	}
	var one any
	if found, err := t.Row(ctx, []any{&one}, t.s.q.GroupVisible, id); err != nil || !found {
		return none, false, err
	}
	return id, false, nil
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
	ordinary := len(promoted) == 0
	ready, rank, err := t.walkReady(ctx, r)
	if err != nil {
		return err
	}
	head, err := t.headPost(ctx, r.Queue)
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
	slices.SortFunc(posts, func(a, b *Post) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Since, b.Since), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return posts, leased, err
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
	h := NewHold(r, p.id, 0, false)
	if !p.ordinary {
		if err := t.ReadPromotion(ctx, h); err != nil {
			return nil, 0, err
		}
	}
	discarded := 0
	if !r.LockOnly {
		_, discarded, err = t.read(ctx, g, h, r.Handle, r.MaxMessages, bytes)
		if err != nil {
			return nil, discarded, err
		}
		if len(h.Messages) == 0 {
			return nil, discarded, nil
		}
	}
	if g.lease != 0 {
		if err := t.Suspect(ctx, h); err != nil {
			return nil, discarded, err
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
		if err != nil || p == nil || p.Blocked != 0 || p.leased() {
			return nil, err
		}
	}
	h := p.Hold(r)
	if !pk.ordinary {
		if err := t.ReadPromotion(ctx, h); err != nil {
			return nil, err
		}
	}
	if !r.LockOnly && !bytes.take(len(p.Body)) {
		return nil, errEnough
	}
	if p.Lease != 0 {
		if _, err := t.Exec(ctx, t.s.q.PostFail, p.Attempts, p.Suspicion+1, p.LastError, p.ID); err != nil {
			return nil, err
		}
	}
	switch {
	case pk.leased:
	case r.Lease > 0:
		if _, err := t.Exec(ctx, t.s.q.PostLease, r.Lease, r.Owner, p.ID); err != nil {
			return nil, err
		}
	case p.Lease != 0:
		if _, err := t.Exec(ctx, t.s.q.PostUnlease, p.ID); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// ReadPromotion reads by which promotion a hold came, if any.
func (t *Tx) ReadPromotion(ctx context.Context, h *backend.Hold) (err error) {
	p := heldOf(h)
	h.Promoted, err = t.Row(ctx, []any{&h.Level, &p.version, Bool(&p.sticky)}, t.s.q.PromotionRead, h.Group)
	return err
}

// ClaimPosts claims posts by their ids, one by one.
func (t *Tx) ClaimPosts(ctx context.Context, r backend.ClaimRequest, ids []backend.ID) (holds []*backend.Hold, err error) {
	bytes := budget{left: r.MaxBytes}
	for _, id := range ids {
		h, err := t.claimPost(ctx, r, pick{id: id, kind: pickPost}, &bytes)
		if err == errEnough {
			break
		}
		if err != nil {
			return nil, err
		}
		if h != nil {
			holds = append(holds, h)
		}
	}
	return holds, nil
}

// Source is a stream of a group and who receives from it.
type Source struct {
	ID     backend.ID
	Kind   int64
	Group  backend.ID
	Handle backend.ID
	Ended  bool // the endpoint

	elsewhere bool // the endpoint is in another group
	priority  int
	facts     backend.Message
}

// read reads messages of a group that is locked, in the order in which they are
// received, beyond those that the hold has had. Messages for endpoints that have
// ended are removed and counted.
func (t *Tx) read(ctx context.Context, g *group, h *backend.Hold, handle backend.ID, limit int, bytes *budget) (messages []*backend.Message, discarded int, err error) {
	private := heldOf(h)
	var sources []Source
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		s := Source{Group: g.id}
		var at backend.ID // the group of the endpoint
		var closed sql.NullInt64
		f := &s.facts
		err := rows.Scan(ID(&s.ID), &s.Kind, &s.priority, ID(&s.Handle), ID(&at), ID(&f.Conversation),
			Bool(&f.Initiator), Text(&f.Service), Text(&f.Far), Text(&f.Contract), &closed)
		if !s.Handle.IsZero() {
			s.Ended, s.elsewhere = at.IsZero() || closed.Valid, at != g.id
		}
		sources = append(sources, s)
		return err
	}, t.s.q.GroupStreams, g.id)
	if err != nil {
		return nil, 0, err
	}
	var astray []Source
	full := false
	for _, s := range sources {
		switch {
		case s.Ended || s.elsewhere:
			astray = append(astray, s)
			continue
		case full || len(messages) >= limit || !handle.IsZero() && s.Handle != handle:
			continue
		}
		after, seen := private.last[s.ID]
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
			m.Kind = backend.Kind(kind)
			m.Stream, m.Handle, m.Group, m.Priority = s.ID, s.Handle, g.id, s.priority
			m.Enqueued = time.UnixMicro(since)
			AddMessage(h, &m, g.name, uniq)
			messages = append(messages, &m)
			return nil
		}, t.s.q.MessageRead, s.ID, after, limit-n)
		if err != nil {
			return nil, 0, err
		}
	}
	discarded, err = t.ClearAstray(ctx, astray)
	return messages, discarded, err
}

// ReadHolds makes holds of groups that are locked out of the rows of one
// statement, and sees to the streams that cannot be received. The statement
// returns, in the order of the groups and, in each, that of its messages:
//
//   - the group's number in groups, from 1, its fence and lease from before the
//     claim, the level, version and stickiness of its promotion, and its key;
//   - the state of the stream (0; 1 if its endpoint has ended, 2 if that is in
//     another group; such streams come without messages) and its id;
//   - the message: seq, id, kind, type, body, since and unique value, and its
//     attempts, suspicion and last error;
//   - with the first message of a stream: priority, endpoint, conversation,
//     initiator, service, far service and contract; and the stream's kind.
//
// A group without messages is one row with a NULL seq.
func (t *Tx) ReadHolds(ctx context.Context, r backend.ClaimRequest, groups []backend.ID, q *Stmt, args ...any) (c backend.Claim, err error) {
	var astray []Source
	var orphans []*backend.Hold // whose lease ran out
	var hold *backend.Hold
	var last int64 // number of the group of the last row
	var facts backend.Message
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var n, fence, lease int64
		var level, version sql.NullInt64
		var sticky, initiator bool
		var name string
		var state, seq, kind, priority, streamKind sql.NullInt64
		var since int64
		var uniq string
		m := new(backend.Message)
		var f backend.Message
		err := rows.Scan(&n, &fence, &lease, &level, &version, Bool(&sticky), &name, &state, ID(&m.Stream), &seq,
			ID(&m.ID), &kind, Text(&m.Type), Body(&m.Body), Int(&since), Text(&uniq),
			Int(&m.Attempts), Int(&m.Suspicion), Text(&m.LastError),
			&priority, ID(&f.Handle), ID(&f.Conversation), Bool(&initiator),
			Text(&f.Service), Text(&f.Far), Text(&f.Contract), &streamKind)
		if err != nil {
			return err
		}
		group := groups[n-1]
		if state.Int64 != 0 {
			astray = append(astray, Source{
				ID: m.Stream, Kind: streamKind.Int64, Group: group, Handle: f.Handle, Ended: state.Int64 == 1,
			})
			return nil
		}
		if !seq.Valid && !r.LockOnly {
			return nil // the group has nothing (any more)
		}
		if hold == nil || n != last {
			last = n
			hold = NewHold(r, group, version.Int64, sticky)
			hold.Promoted, hold.Level = version.Valid, int(level.Int64)
			if r.Lease > 0 {
				hold.Fence = fence + 1
			}
			c.Holds = append(c.Holds, hold)
			if lease != 0 {
				orphans = append(orphans, hold)
			}
		}
		if !seq.Valid {
			return nil
		}
		if priority.Valid { // the first message of its stream
			f.Priority, f.Initiator, f.Group = int(priority.Int64), initiator, group
			facts = f
		}
		m.Seq, m.Kind, m.Enqueued = seq.Int64, backend.Kind(kind.Int64), time.UnixMicro(since)
		m.Handle, m.Conversation, m.Initiator = facts.Handle, facts.Conversation, facts.Initiator
		m.Service, m.Far, m.Contract = facts.Service, facts.Far, facts.Contract
		m.Priority, m.Group = facts.Priority, facts.Group
		AddMessage(hold, m, name, uniq)
		return nil
	}, q, args...)
	if err != nil {
		return c, err
	}
	for _, h := range orphans {
		if err := t.Suspect(ctx, h); err != nil {
			return c, err
		}
	}
	c.Discarded, err = t.ClearAstray(ctx, astray)
	return c, err
}

// ClearAstray sees to the streams of a group that cannot be received in it:
// messages for an endpoint that has ended are removed and counted, and a notice
// that was written while its endpoint moved follows it.
func (t *Tx) ClearAstray(ctx context.Context, sources []Source) (discarded int, err error) {
	for _, s := range sources {
		if !s.Ended {
			if err := t.follow(ctx, s); err != nil {
				return discarded, err
			}
			continue
		}
		keys, err := t.dropMessages(ctx, s.ID)
		if err != nil {
			return discarded, err
		}
		discarded += len(keys)
		if s.Kind != streamDialog {
			err = t.dropNote(ctx, s.Group, s.ID)
		} else if len(keys) > 0 {
			t.touch(s.ID)
		}
		if err != nil {
			return discarded, err
		}
	}
	return discarded, nil
}

// follow moves a stream of one message to the group where its endpoint is now.
// Nobody else has business with its guard. The stream of a dialog is Move's.
func (t *Tx) follow(ctx context.Context, s Source) error {
	if s.Kind == streamDialog {
		return nil
	}
	h, err := t.home(ctx, s.Handle)
	if err != nil || h == nil {
		return err
	}
	if _, err := t.Exec(ctx, t.s.q.StreamMove, h.group, s.ID); err != nil {
		return err
	}
	_, err = t.Exec(ctx, t.s.q.MarkerMove, h.group, s.Group, s.ID)
	return err
}

// NewHold makes a hold of a group. A version other than zero is that of the
// promotion that it came by.
func NewHold(r backend.ClaimRequest, group backend.ID, version int64, sticky bool) *backend.Hold {
	return &backend.Hold{
		Queue: r.Queue, Group: group,
		Private: &held{handle: r.Handle, version: version, sticky: sticky, last: map[backend.ID]int64{}},
	}
}

// AddMessage adds a message to a hold. Those of keys tell by their kind that
// they are; name is the key's.
func AddMessage(h *backend.Hold, m *backend.Message, name, uniq string) {
	p := heldOf(h)
	if m.Kind == KindKeyed {
		m.Kind, m.Key = backend.KindUser, name
	}
	if uniq != "" {
		if p.uniq == nil {
			p.uniq = map[backend.ID]string{}
		}
		p.uniq[m.ID] = uniq
	}
	p.last[m.Stream] = m.Seq
	h.Messages = append(h.Messages, m)
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
	messages, _, err := t.read(ctx, g, h, heldOf(h).handle, maxMessages, &budget{left: maxBytes})
	return messages, err
}

// consume settles what a claim returned, as the RECEIVE statement does.
func (t *Tx) consume(ctx context.Context, r backend.ClaimRequest, holds []*backend.Hold) error {
	outcomes := make([]backend.Outcome, len(holds))
	for i, h := range holds {
		outcomes[i] = backend.Outcome{Hold: h, Done: h.Messages, Retain: r.Retain, Keep: r.Keep}
	}
	return t.settle(ctx, outcomes, true)
}
