package parley

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Levels of promotion.
const (
	DefaultLevel = 100
	MaxLevel     = 255
)

// PromoteOption says more of a promotion.
type PromoteOption func(*backend.Promotion)

// PromoteLevel sets the level of a promotion: 0 to 255, default 100. Higher ones come
// first, and equal ones in the order in which they were promoted.
func PromoteLevel(n int) PromoteOption {
	return func(p *backend.Promotion) { p.Level = n }
}

// Sticky keeps a promotion until Demote. By default it ends when messages of
// the group have been received and acknowledged.
func Sticky() PromoteOption {
	return func(p *backend.Promotion) { p.Sticky = true }
}

// UntilEmpty keeps a promotion until messages of the group have been acknowledged, or posts cancelled, and no other
// waits in it. A program of an older Parley that acknowledges the last one keeps it.
func UntilEmpty() PromoteOption {
	return func(p *backend.Promotion) { p.UntilEmpty = true }
}

func promotion(group ID, o []PromoteOption) (backend.Promotion, error) {
	p := backend.Promotion{Group: group, Level: DefaultLevel}
	for _, f := range o {
		f(&p)
	}
	if p.Level < 0 || p.Level > MaxLevel {
		return p, fmt.Errorf("level %d is not between 0 and %d: %w", p.Level, MaxLevel, ErrInvalidOption)
	}
	if p.Sticky && p.UntilEmpty {
		return p, fmt.Errorf("both Sticky and UntilEmpty: %w", ErrInvalidOption)
	}
	return p, nil
}

// Promote puts a group, or a post by its ID, before all that are not promoted.
// A further call replaces level and time.
func (tx *Tx) Promote(ctx context.Context, group ID, o ...PromoteOption) error {
	p, err := promotion(group, o)
	if err == nil {
		err = tx.ready()
	}
	if err == nil {
		err = tx.be.Promote(ctx, p)
	}
	return fail("promote", objGroup(group), err)
}

// PromoteKey promotes all posts that wait under a key of a queue, and those that are posted
// under it while the promotion lasts. ErrUnknownGroup if there are none.
func (tx *Tx) PromoteKey(ctx context.Context, queue, key string, o ...PromoteOption) error {
	p, err := promotion(ID{}, o)
	if err == nil && key == "" {
		err = fmt.Errorf("the key is empty: %w", ErrInvalidOption)
	}
	if err == nil {
		err = tx.withCatalog(ctx, func(v *catalogView) error {
			q, err := v.queue(queue)
			p.Queue, p.Key = q.ID, key
			return err
		})
	}
	if err == nil {
		err = tx.be.Promote(ctx, p)
	}
	return fail("promote key", objQueue(queue), err)
}

// How many groups PromoteWhere promotes, at most and in one transaction, and how many it reads at a time.
const (
	promoteMost  = 10_000
	promoteSlice = 100
	promotePage  = 500
)

// PromoteWhere promotes the groups and posts of a queue that a function chooses, in the order in which they would be
// received. It promotes at most 10,000, a hundred in each transaction. It returns how many it has promoted, also
// with an error. It skips groups that end in the meantime.
func (a Admin) PromoteWhere(ctx context.Context, queue string, is func(GroupStatus) bool, o ...PromoteOption) (n int, err error) {
	_, err = promotion(ID{}, o)
	if err == nil && is == nil {
		err = fmt.Errorf("no function chooses: %w", ErrInvalidOption)
	}
	// They are chosen before the first is promoted, which changes the order.
	var chosen []ID
	for after := (Place{}); err == nil && len(chosen) < promoteMost; {
		var page []GroupStatus
		page, err = a.Groups(ctx, queue, after, promotePage)
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Place
		for _, g := range page {
			if len(chosen) < promoteMost && is(g) {
				chosen = append(chosen, g.Group)
			}
		}
	}
	for slice := range slices.Chunk(chosen, promoteSlice) {
		if err != nil {
			break
		}
		done := 0
		err = a.b.Retry(ctx, func(tx *Tx) error {
			done = 0
			for _, group := range slice {
				switch err := tx.Promote(ctx, group, o...); {
				case err == nil:
					done++
				case !errors.Is(err, ErrUnknownGroup):
					return err
				}
			}
			return nil
		})
		if err == nil {
			n += done
		}
	}
	return n, fail("promote where", objQueue(queue), err)
}

// Demote ends a promotion. It is no error if there is none.
func (tx *Tx) Demote(ctx context.Context, group ID) error {
	err := tx.ready()
	if err == nil {
		err = tx.be.Demote(ctx, group)
	}
	return fail("demote", objGroup(group), err)
}

// Promote promotes the group in which the other side of this conversation
// handles it, if the other side's service allows that (Service.FarPromotion).
func (c *Conversation) Promote(ctx context.Context, o ...PromoteOption) error {
	return fail("promote peer", objConv(c.handle), c.promote(ctx, o))
}

func (c *Conversation) promote(ctx context.Context, o []PromoteOption) error {
	ep, err := c.endpoint(ctx)
	if err != nil {
		return err
	}
	if err := sendable(ep); err != nil {
		return err
	}
	p, err := promotion(ID{}, o)
	if err != nil {
		return err
	}
	err = c.tx.withCatalog(ctx, func(v *catalogView) error {
		far, ok := v.services[ep.FarService]
		if !ok {
			return fmt.Errorf("%q: %w", ep.FarService, ErrUnknownService)
		}
		if far.FarPromotion == 0 || p.Level > far.FarPromotion {
			return fmt.Errorf("service %q allows up to level %d, not %d: %w", far.Name, far.FarPromotion, p.Level, ErrPromotionRefused)
		}
		return nil
	})
	if err != nil {
		return err
	}
	peer, err := c.tx.be.Endpoint(ctx, ep.FarHandle)
	if err != nil {
		return err
	}
	p.Group = peer.Group
	return c.tx.be.Promote(ctx, p)
}

// Promote is Tx.Promote in a separate transaction.
func (b *Broker) Promote(ctx context.Context, group ID, o ...PromoteOption) error {
	return b.InTx(ctx, func(tx *Tx) error { return tx.Promote(ctx, group, o...) })
}

// PromoteKey is Tx.PromoteKey in a separate transaction.
func (b *Broker) PromoteKey(ctx context.Context, queue, key string, o ...PromoteOption) error {
	return b.InTx(ctx, func(tx *Tx) error { return tx.PromoteKey(ctx, queue, key, o...) })
}

// Demote is Tx.Demote in a separate transaction.
func (b *Broker) Demote(ctx context.Context, group ID) error {
	return b.InTx(ctx, func(tx *Tx) error { return tx.Demote(ctx, group) })
}
