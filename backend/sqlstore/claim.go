package sqlstore

import (
	"context"

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
		c.Holds, c.Contended, c.More, c.Walk = found.Holds, found.Contended, found.More, found.Walk
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

// claimRows is Claim, row by row.
func claimRows(ctx context.Context, t *Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
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
		if err := t.queueState(ctx, r.Version, r.Queue); err != nil {
			return c, err
		}
		c.Contended, err = t.claimOne(ctx, r, claim)
	} else {
		err = t.walk(ctx, r, claim)
	}
	if err == nil || err == errEnough {
		err = t.leaseGroups(ctx, r, c.Holds)
	}
	if err != nil {
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

// leaseGroups writes the leases of groups among the holds.
func (t *Tx) leaseGroups(ctx context.Context, r backend.ClaimRequest, holds []*backend.Hold) (err error) {
	if r.Lease <= 0 {
		return nil
	}
	groups, _ := SplitHolds(holds)
	ids := make([]backend.ID, len(groups))
	for i, h := range groups {
		ids[i] = h.Group
	}
	switch len(ids) {
	case 0:
	case 1:
		_, err = t.Exec(ctx, t.s.q.GroupLease, r.Lease, r.Owner, ids[0])
	default:
		_, err = t.Exec(ctx, t.s.q.LeaseGroups, t.s.d.List(ids), r.Lease, r.Owner)
	}
	return err
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

// ClaimNamedPost claims the post that a request names in the place of a group, if
// it does.
func (t *Tx) ClaimNamedPost(ctx context.Context, r backend.ClaimRequest) (c backend.Claim, err error) {
	if r.Group.IsZero() || !r.Handle.IsZero() {
		return c, nil
	}
	po, err := t.post(ctx, r.Group)
	if err != nil || po == nil || po.Queue != r.Queue || po.Blocked != 0 {
		return c, err
	}
	c.Holds, err = t.ClaimPosts(ctx, r, []backend.ID{r.Group})
	c.Contended = len(c.Holds) == 0
	return c, err
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

// consume settles what a claim returned, as the RECEIVE statement does.
func (t *Tx) consume(ctx context.Context, r backend.ClaimRequest, holds []*backend.Hold) error {
	outcomes := make([]backend.Outcome, len(holds))
	for i, h := range holds {
		outcomes[i] = backend.Outcome{Hold: h, Done: h.Messages, Retain: r.Retain, Keep: r.Keep}
	}
	return t.settle(ctx, outcomes, Settlement{Consumed: true})
}
