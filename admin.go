package parley

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// DeadStatus is a dead letter.
type DeadStatus struct {
	Queue    string // empty if none had taken the message yet
	Message  *Message
	Bytes    int // of the body
	Attempts int // that failed
	Reason   string
	Age      time.Duration // since it was taken out
	Place    Place         // in the list of dead letters
}

// RetainedMessage is a copy of a message that one side of a conversation keeps.
type RetainedMessage struct {
	Message *Message
	Sent    bool // by this side, which received it otherwise
}

// PostStatus is a post that is pending, delayed, or kept after processing.
type PostStatus struct {
	ID      ID
	Key     string
	Type    string
	Body    []byte
	Headers map[string]string
	State   string        // "pending", "delayed" or "processed"
	Due     time.Duration // until a delayed one joins its queue
}

// WorkerStatus is the record of a reader of a worker.
type WorkerStatus struct {
	Reader  ID
	Worker  ID
	Queue   string
	Owner   string // of the process; see Options.Owner
	Readers int    // the most that the worker may have
	InHand  []ID   // the first message of each group
	Alone   bool   // the worker handles nothing else that may be deadly
	Since   time.Duration
	Left    time.Duration // until the worker counts as dead; below zero: since then
}

// Admin has the verbs of operators, who inspect and change what is stored.
type Admin struct{ b *Broker }

// Admin returns the verbs of operators.
func (b *Broker) Admin() Admin { return Admin{b} }

// Unpark makes a parked or deferred group ready again. For a ready group it puts back messages that
// are not in the ready order ([GroupStatus].Stranded).
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

// Queues returns the state of the named queues, or of all queues, by name, if none is named. Counts
// stop at [backend.CountLimit].
func (a Admin) Queues(ctx context.Context, names ...string) ([]QueueStatus, error) {
	return read(ctx, a.b, "queues", func(ctx context.Context) (list []QueueStatus, err error) {
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

// Groups lists groups of a queue with messages. Ready groups come first, in the order in which they
// would be received, then deferred and parked ones. It returns a page of at most limit groups after
// a Place, that of the last group of the previous page. An empty page is the end of the list.
func (a Admin) Groups(ctx context.Context, queue string, after Place, limit int) ([]GroupStatus, error) {
	return a.groups(ctx, "groups", queue, backend.GroupQuery{After: after, Limit: limit})
}

// GroupsIn is Groups restricted to a state: ready, held, deferred or parked. A group that only a
// transaction holds may count as ready.
func (a Admin) GroupsIn(ctx context.Context, queue, state string, after Place, limit int) ([]GroupStatus, error) {
	return a.groups(ctx, "groups", queue, backend.GroupQuery{After: after, Limit: limit, State: state})
}

// Blocked is GroupsIn for deferred or parked groups, without what costs a look at each of them: Messages,
// Oldest, Priority, Promoted and Level may be zero. So a page may have thousands of groups.
func (a Admin) Blocked(ctx context.Context, queue, state string, after Place, limit int) ([]GroupStatus, error) {
	if state != "deferred" && state != "parked" {
		return nil, fail("blocked", queue, fmt.Errorf("state %q: want deferred or parked: %w", state, ErrInvalidOption))
	}
	return a.groups(ctx, "blocked", queue, backend.GroupQuery{After: after, Limit: limit, State: state, Brief: true})
}

// Group returns a group of a queue that has messages, or ErrUnknownGroup.
func (a Admin) Group(ctx context.Context, queue string, group ID) (*GroupStatus, error) {
	list, err := a.groups(ctx, "group", queue, backend.GroupQuery{Group: group, Limit: 1})
	if err == nil && len(list) == 0 {
		err = fail("group", objGroup(group), ErrUnknownGroup)
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

func (a Admin) groups(ctx context.Context, op, queue string, g backend.GroupQuery) ([]GroupStatus, error) {
	return read(ctx, a.b, op, func(ctx context.Context) (groups []GroupStatus, err error) {
		if g.Limit < 1 {
			return nil, badLimit(g.Limit)
		}
		var list []backend.GroupStatus
		err = a.b.onQueue(ctx, queue, func(_ *catalogView, q Queue) error {
			g.Queue = q.ID
			list, err = a.b.be.Groups(ctx, g)
			return err
		})
		if err != nil {
			return nil, err
		}
		return named(ctx, a.b, list, (*catalogView).group)
	})
}

// Conversations lists both sides of conversations, page by page.
func (a Admin) Conversations(ctx context.Context, q ConversationQuery) ([]ConversationStatus, error) {
	if q.Limit == 0 {
		q.Limit = 100
	}
	return read(ctx, a.b, "conversations", func(ctx context.Context) ([]ConversationStatus, error) {
		if q.Limit < 0 {
			return nil, badLimit(q.Limit)
		}
		list, err := a.b.be.Conversations(ctx, q)
		if err != nil {
			return nil, err
		}
		return named(ctx, a.b, list, (*catalogView).conversation)
	})
}

// Withheld lists streams whose messages wait for a target that cannot take them, and why, ordered
// by the sender's handle. It returns at most limit streams; after is the last handle of the previous page.
func (a Admin) Withheld(ctx context.Context, after ID, limit int) ([]WithheldStream, error) {
	return read(ctx, a.b, "withheld", func(ctx context.Context) ([]WithheldStream, error) {
		if limit < 1 {
			return nil, badLimit(limit)
		}
		list, err := a.b.be.Withheld(ctx, after, limit)
		if err != nil {
			return nil, err
		}
		return named(ctx, a.b, list, (*catalogView).withheld)
	})
}

// Retained lists the copies that one side of a conversation keeps, oldest
// first, on queues with Retention.
func (a Admin) Retained(ctx context.Context, handle ID) ([]RetainedMessage, error) {
	return read(ctx, a.b, "retained", func(ctx context.Context) ([]RetainedMessage, error) {
		kept, err := a.b.be.Retained(ctx, handle)
		list := make([]RetainedMessage, len(kept))
		for i := range kept {
			list[i] = RetainedMessage{wrapMessages([]*backend.Message{&kept[i].Message}, "", nil)[0], kept[i].Sent}
		}
		return list, err
	})
}

// DeadLetters lists messages that were removed from a queue because they could not be delivered or
// handled, newest first. It returns a page of at most limit messages after a Place, that of the
// last one of the previous page. An empty name means all queues.
func (a Admin) DeadLetters(ctx context.Context, queue string, after Place, limit int) ([]DeadStatus, error) {
	return a.dead(ctx, queue, backend.DeadQuery{After: after, Limit: limit, Bodies: true})
}

// DeadSummaries is DeadLetters without the bodies, which can be large; DeadStatus.Bytes has their size.
// RequeueDead refuses a summary.
func (a Admin) DeadSummaries(ctx context.Context, queue string, after Place, limit int) ([]DeadStatus, error) {
	return a.dead(ctx, queue, backend.DeadQuery{After: after, Limit: limit})
}

func (a Admin) dead(ctx context.Context, queue string, d backend.DeadQuery) ([]DeadStatus, error) {
	return read(ctx, a.b, "dead letters", func(ctx context.Context) (dead []DeadStatus, err error) {
		if d.Limit < 1 {
			return nil, badLimit(d.Limit)
		}
		err = a.b.withCatalog(ctx, func(v *catalogView) error {
			q, ok := v.queues[queue]
			if !ok && queue != "" {
				return fmt.Errorf("%s: %w", objQueue(queue), ErrUnknownQueue)
			}
			d.Queue = q.ID
			list, err := a.b.be.DeadLetters(ctx, d)
			dead = make([]DeadStatus, len(list))
			for i := range list {
				x := &list[i]
				name, err := v.queueName(x.Queue)
				if err != nil {
					return err
				}
				dead[i] = DeadStatus{name, wrapMessages([]*backend.Message{&x.Message}, name, nil)[0],
					x.Bytes, x.Message.Attempts, x.Reason, x.Age, x.Place}
			}
			return err
		})
		return dead, err
	})
}

// Waiting lists the messages of all queues that wait, are delayed or withheld, or are in a receiver's hands, without their
// bodies. It returns a page of at most limit messages after a Place, that of the last one of the previous page. An empty
// page is the end of the list. A message that joins its queue between two pages may be listed twice. No sender or receiver
// waits for Waiting, nor Waiting for them.
func (a Admin) Waiting(ctx context.Context, after Place, limit int) ([]WaitingMessage, error) {
	return read(ctx, a.b, "waiting", func(ctx context.Context) ([]WaitingMessage, error) {
		if limit < 1 {
			return nil, badLimit(limit)
		}
		list, err := a.b.be.Waiting(ctx, after, limit)
		if err != nil {
			return nil, err
		}
		return named(ctx, a.b, list, (*catalogView).waiting)
	})
}

// PostStatus returns a post that is pending, delayed, or kept after processing.
func (b *Broker) PostStatus(ctx context.Context, queue string, id ID) (*PostStatus, error) {
	return read(ctx, b, "post status", func(ctx context.Context) (s *PostStatus, err error) {
		err = b.onQueue(ctx, queue, func(_ *catalogView, q Queue) error {
			p, err := b.be.PostStatus(ctx, q.ID, id)
			if err == nil {
				s = &PostStatus{p.ID, p.Key, p.Type, p.Body, backend.DecodeHeaders(p.Headers), p.State, p.Due}
			}
			return err
		})
		return s, err
	})
}

func badLimit(n int) error { return fmt.Errorf("limit %d: %w", n, ErrInvalidOption) }

// Workers lists the records of workers' readers, those of dead workers as well.
func (a Admin) Workers(ctx context.Context) ([]WorkerStatus, error) {
	return read(ctx, a.b, "workers", func(ctx context.Context) (list []WorkerStatus, err error) {
		records, err := a.b.be.ReaderRecords(ctx)
		if err != nil || len(records) == 0 {
			return nil, err
		}
		err = a.b.withCatalog(ctx, func(v *catalogView) error {
			list = make([]WorkerStatus, len(records))
			for i, r := range records {
				name, err := v.queueName(r.Queue)
				if err != nil {
					return err
				}
				list[i] = WorkerStatus{r.Reader, r.Worker, name, r.Owner, r.Readers, r.InHand, r.Alone, r.Since, r.Left}
			}
			return nil
		})
		return list, err
	})
}

// readFor is how long a verb may take that only reads.
const readFor = 30 * time.Second

func read[T any](ctx context.Context, b *Broker, op string, f func(context.Context) (T, error)) (v T, err error) {
	limited, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	err = b.check()
	if err == nil {
		v, err = f(limited)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it took more than %v: %w", readFor, err)
	}
	return v, fail(op, "", err)
}
