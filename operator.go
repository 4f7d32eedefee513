package parley

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// What operators see. The fields are explained in package backend.
type (
	QueueStatus        = backend.QueueStatus
	GroupStatus        = backend.GroupStatus
	ConversationStatus = backend.ConversationStatus
	ConversationQuery  = backend.ConversationQuery
	WithheldStream     = backend.WithheldStream
	RetainedMessage    = backend.RetainedMessage
	DeadStatus         = backend.DeadStatus
	PostStatus         = backend.PostStatus
)

// Levels of promotion.
const (
	DefaultLevel = 100
	MaxLevel     = 255
)

// PromoteOption says more of a promotion.
type PromoteOption func(*backend.Promotion)

// Level sets the level of a promotion: 0 to 255, default 100. Higher ones come
// first, and equal ones in the order in which they were promoted.
func Level(n int) PromoteOption {
	return func(p *backend.Promotion) { p.Level = n }
}

// Sticky keeps a promotion until Demote. By default it ends when messages of
// the group have been received and acknowledged.
func Sticky() PromoteOption {
	return func(p *backend.Promotion) { p.Sticky = true }
}

func promotion(group ID, o []PromoteOption) (backend.Promotion, error) {
	p := backend.Promotion{Group: group, Level: DefaultLevel}
	for _, f := range o {
		f(&p)
	}
	if p.Level < 0 || p.Level > MaxLevel {
		return p, fmt.Errorf("level %d is not between 0 and %d: %w", p.Level, MaxLevel, ErrInvalidOption)
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

// Demote ends a promotion. It is no error if there is none.
func (tx *Tx) Demote(ctx context.Context, group ID) error {
	err := tx.ready()
	if err == nil {
		err = tx.be.Demote(ctx, group)
	}
	return fail("demote", objGroup(group), err)
}

// Promote promotes the group in which the other side of this conversation
// handles it, if the other side's service allows that (Service.PeerPromotion).
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
		far, ok := v.services[ep.Far]
		if !ok {
			return fmt.Errorf("%q: %w", ep.Far, ErrUnknownService)
		}
		if far.PeerPromotion == 0 || p.Level > far.PeerPromotion {
			return fmt.Errorf("service %q allows up to level %d, not %d: %w", far.Name, far.PeerPromotion, p.Level, ErrPromotionRefused)
		}
		return nil
	})
	if err != nil {
		return err
	}
	peer, err := c.tx.be.Endpoint(ctx, ep.Peer)
	if err != nil {
		return err
	}
	p.Group = peer.Group
	return c.tx.be.Promote(ctx, p)
}

// Promote is Tx.Promote in a transaction of its own.
func (b *Broker) Promote(ctx context.Context, group ID, o ...PromoteOption) error {
	return b.InTx(ctx, func(tx *Tx) error { return tx.Promote(ctx, group, o...) })
}

// Demote is Tx.Demote in a transaction of its own.
func (b *Broker) Demote(ctx context.Context, group ID) error {
	return b.InTx(ctx, func(tx *Tx) error { return tx.Demote(ctx, group) })
}

// Unpark makes a parked or deferred group ready again.
func (b *Broker) Unpark(ctx context.Context, group ID) error {
	err := b.patiently(ctx, func() error {
		return b.InTx(ctx, func(tx *Tx) error {
			tx.touch(0)
			tx.soon(time.Millisecond) // a large group becomes ready bit by bit
			return tx.be.Unpark(ctx, group)
		})
	})
	return fail("unpark", objGroup(group), err)
}

// Queues tells the state of queues; of all, by name, if none is named. Counts
// stop at [backend.CountLimit].
func (b *Broker) Queues(ctx context.Context, names ...string) ([]QueueStatus, error) {
	return read(b, "queues", func() (list []QueueStatus, err error) {
		if len(names) == 0 {
			return b.be.Queues(ctx, 0)
		}
		err = b.withCatalog(ctx, func(v *catalogView) error {
			list = list[:0]
			for _, name := range names {
				q, ok := v.queues[name]
				if !ok {
					return fmt.Errorf("%s: %w", objQueue(name), ErrUnknownQueue)
				}
				s, err := b.be.Queues(ctx, q.ID)
				if err != nil {
					return err
				}
				list = append(list, s...)
			}
			return nil
		})
		return list, err
	})
}

// Groups lists groups of a queue with messages, in the order in which they
// would be received and then the parked and deferred ones: limit of them after
// the first offset.
func (b *Broker) Groups(ctx context.Context, queue string, offset, limit int) ([]GroupStatus, error) {
	return read(b, "groups", func() (groups []GroupStatus, err error) {
		if offset < 0 || limit < 1 {
			return nil, fmt.Errorf("offset %d, limit %d: %w", offset, limit, ErrInvalidOption)
		}
		err = b.withCatalog(ctx, func(v *catalogView) error {
			q, ok := v.queues[queue]
			if !ok {
				return fmt.Errorf("%s: %w", objQueue(queue), ErrUnknownQueue)
			}
			groups, err = b.be.Groups(ctx, backend.GroupQuery{Queue: q.ID, Offset: offset, Limit: limit})
			return err
		})
		return groups, err
	})
}

// Conversations lists both sides of conversations, page by page.
func (b *Broker) Conversations(ctx context.Context, q ConversationQuery) ([]ConversationStatus, error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	return read(b, "conversations", func() ([]ConversationStatus, error) {
		if q.Limit < 0 {
			return nil, badLimit(q.Limit)
		}
		return b.be.Conversations(ctx, q)
	})
}

// Withheld lists what waits for a target that cannot take it, and why.
func (b *Broker) Withheld(ctx context.Context, limit int) ([]WithheldStream, error) {
	return read(b, "withheld", func() ([]WithheldStream, error) {
		if limit < 1 {
			return nil, badLimit(limit)
		}
		return b.be.Withheld(ctx, limit)
	})
}

// Retained lists the copies that one side of a conversation keeps, oldest
// first, on queues with Retention.
func (b *Broker) Retained(ctx context.Context, handle ID) ([]RetainedMessage, error) {
	return read(b, "retained", func() ([]RetainedMessage, error) { return b.be.Retained(ctx, handle) })
}

// DeadLetters lists messages that were taken out of a queue because they could
// not be delivered or handled, newest first. An empty name means all queues.
func (b *Broker) DeadLetters(ctx context.Context, queue string, limit int) ([]DeadStatus, error) {
	return read(b, "dead letters", func() (dead []DeadStatus, err error) {
		if limit < 1 {
			return nil, badLimit(limit)
		}
		err = b.withCatalog(ctx, func(v *catalogView) error {
			q, ok := v.queues[queue]
			if !ok && queue != "" {
				return fmt.Errorf("%s: %w", objQueue(queue), ErrUnknownQueue)
			}
			dead, err = b.be.DeadLetters(ctx, q.ID, limit)
			return err
		})
		return dead, err
	})
}

// PostStatus returns a post that is pending, delayed, or kept after processing.
func (b *Broker) PostStatus(ctx context.Context, queue string, id ID) (*PostStatus, error) {
	return read(b, "post status", func() (s *PostStatus, err error) {
		err = b.withCatalog(ctx, func(v *catalogView) error {
			q, ok := v.queues[queue]
			if !ok {
				return fmt.Errorf("%s: %w", objQueue(queue), ErrUnknownQueue)
			}
			s, err = b.be.PostStatus(ctx, q.ID, id)
			return err
		})
		return s, err
	})
}

func badLimit(n int) error { return fmt.Errorf("limit %d: %w", n, ErrInvalidOption) }

// WorkerStatus is the record of a reader of a worker.
type WorkerStatus = backend.AttendanceStatus

// Workers lists the records of workers' readers, those of dead workers as well.
func (b *Broker) Workers(ctx context.Context) ([]WorkerStatus, error) {
	return read(b, "workers", func() ([]WorkerStatus, error) { return b.be.Attendances(ctx) })
}

func read[T any](b *Broker, op string, f func() (T, error)) (v T, err error) {
	err = b.check()
	if err == nil {
		v, err = f()
	}
	return v, fail(op, "", err)
}
