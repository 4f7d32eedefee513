package sqlstore

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// budget is how many bytes of bodies and headers a claim may still return.
type budget struct {
	left int
	used bool
}

// take reports whether a message fits. The first always does, and no limit is none.
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
	g := p.group
	var err error
	if g == nil {
		g, err = t.group(ctx, p.id)
	}
	p.group = g
	if err != nil || g == nil || g.blocked != 0 || g.leased() {
		return nil, 0, err
	}
	h := NewHold(r, p.id, 0, onceServed)
	if !p.ordinary {
		if err := t.ReadPromotion(ctx, h); err != nil {
			return nil, 0, err
		}
	}
	discarded := 0
	if !r.LockOnly {
		_, discarded, err = t.read(ctx, p, h, r.Handle, r.MaxMessages, bytes)
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
	case r.Lease > 0: // claimRows writes it
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
	if p == nil {
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
	if !r.LockOnly && !bytes.take(len(p.Body)+len(p.Headers)) {
		return nil, errEnough
	}
	if p.Lease != 0 {
		if _, err := t.Exec(ctx, t.s.q.PostFail, p.Attempts, p.Deaths+1, p.LastError, storedAttempts(p.Errors), p.ID); err != nil {
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
	h.Promoted, err = t.Row(ctx, []any{&h.Level, &p.version, Int(&p.lasts)}, t.s.q.PromotionRead, h.Group)
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
