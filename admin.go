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

// Admin has the verbs of operators, who look at what is stored and interfere with it.
type Admin struct{ b *Broker }

// Admin returns the verbs of operators.
func (b *Broker) Admin() Admin { return Admin{b} }

// Unpark makes a parked or deferred group ready again.
func (a Admin) Unpark(ctx context.Context, group ID) error {
	err := a.b.patiently(ctx, func() error {
		return a.b.InTx(ctx, func(tx *Tx) error {
			tx.touch(0)
			tx.soon(time.Millisecond) // a large group becomes ready bit by bit
			return tx.be.Unpark(ctx, group)
		})
	})
	return fail("unpark", objGroup(group), err)
}

// Queues tells the state of queues; of all, by name, if none is named. Counts
// stop at [backend.CountLimit].
func (a Admin) Queues(ctx context.Context, names ...string) ([]QueueStatus, error) {
	return read(a.b, "queues", func() (list []QueueStatus, err error) {
		if len(names) == 0 {
			return a.b.be.Queues(ctx, 0)
		}
		err = a.b.withCatalog(ctx, func(v *catalogView) error {
			list = list[:0]
			for _, name := range names {
				q, err := v.queue(name)
				if err != nil {
					return err
				}
				s, err := a.b.be.Queues(ctx, q.ID)
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
func (a Admin) Groups(ctx context.Context, queue string, offset, limit int) ([]GroupStatus, error) {
	return read(a.b, "groups", func() (groups []GroupStatus, err error) {
		if offset < 0 || limit < 1 {
			return nil, fmt.Errorf("offset %d, limit %d: %w", offset, limit, ErrInvalidOption)
		}
		err = a.b.onQueue(ctx, queue, func(_ *catalogView, q Queue) error {
			groups, err = a.b.be.Groups(ctx, backend.GroupQuery{Queue: q.ID, Offset: offset, Limit: limit})
			return err
		})
		return groups, err
	})
}

// Conversations lists both sides of conversations, page by page.
func (a Admin) Conversations(ctx context.Context, q ConversationQuery) ([]ConversationStatus, error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	return read(a.b, "conversations", func() ([]ConversationStatus, error) {
		if q.Limit < 0 {
			return nil, badLimit(q.Limit)
		}
		return a.b.be.Conversations(ctx, q)
	})
}

// Withheld lists what waits for a target that cannot take it, and why.
func (a Admin) Withheld(ctx context.Context, limit int) ([]WithheldStream, error) {
	return read(a.b, "withheld", func() ([]WithheldStream, error) {
		if limit < 1 {
			return nil, badLimit(limit)
		}
		return a.b.be.Withheld(ctx, limit)
	})
}

// Retained lists the copies that one side of a conversation keeps, oldest
// first, on queues with Retention.
func (a Admin) Retained(ctx context.Context, handle ID) ([]RetainedMessage, error) {
	return read(a.b, "retained", func() ([]RetainedMessage, error) { return a.b.be.Retained(ctx, handle) })
}

// DeadLetters lists messages that were taken out of a queue because they could
// not be delivered or handled, newest first. An empty name means all queues.
func (a Admin) DeadLetters(ctx context.Context, queue string, limit int) ([]DeadStatus, error) {
	return read(a.b, "dead letters", func() (dead []DeadStatus, err error) {
		if limit < 1 {
			return nil, badLimit(limit)
		}
		err = a.b.withCatalog(ctx, func(v *catalogView) error {
			q, ok := v.queues[queue]
			if !ok && queue != "" {
				return fmt.Errorf("%s: %w", objQueue(queue), ErrUnknownQueue)
			}
			dead, err = a.b.be.DeadLetters(ctx, q.ID, limit)
			return err
		})
		return dead, err
	})
}

// PostStatus returns a post that is pending, delayed, or kept after processing.
func (b *Broker) PostStatus(ctx context.Context, queue string, id ID) (*PostStatus, error) {
	return read(b, "post status", func() (s *PostStatus, err error) {
		err = b.onQueue(ctx, queue, func(_ *catalogView, q Queue) error {
			s, err = b.be.PostStatus(ctx, q.ID, id)
			return err
		})
		return s, err
	})
}

func badLimit(n int) error { return fmt.Errorf("limit %d: %w", n, ErrInvalidOption) }

// WorkerStatus is the record of a reader of a worker.
type WorkerStatus = backend.ReaderStatus

// Workers lists the records of workers' readers, those of dead workers as well.
func (a Admin) Workers(ctx context.Context) ([]WorkerStatus, error) {
	return read(a.b, "workers", func() ([]WorkerStatus, error) { return a.b.be.ReaderRecords(ctx) })
}

func read[T any](b *Broker, op string, f func() (T, error)) (v T, err error) {
	err = b.check()
	if err == nil {
		v, err = f()
	}
	return v, fail(op, "", err)
}
