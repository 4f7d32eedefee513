package parley

import (
	"cmp"
	"context"
	"errors"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/crowd"
	"github.com/parleymq/parley/internal/guard"
)

// verb is a verb by itself that may go together with others: a post, or a message on a conversation.
type verb struct {
	queue string                                                   // of a post
	on    func(ctx context.Context, tx *Tx) (*Conversation, error) // on which a message is sent; nil: it is a post
	Posting
	id ID // of the post, when it is there
}

// subject is what a verb has to itself: a conversation, or the key of a queue.
type subject struct {
	conversation ID
	queue, key   string
}

// kind is what posts that go together have in common. Verbs that begin a conversation have the kind begins, and sends none.
type kind struct {
	queue string
	keyed bool
}

const begins = "begins"

// gather makes the crowd of the Broker.
func (b *Broker) gather() {
	if t := b.caps.Together; t != nil {
		b.crowd = crowd.Crowd[*verb]{Room: t.Room, Server: !b.caps.SingleWriter, Together: b.together, Go: b.Go}
	}
}

// together carries out verbs in one transaction. After an error, it is undone if that cannot have committed.
func (b *Broker) together(ctx context.Context, verbs []*verb) (undone bool, err error) {
	commits := false
	err = guard.Call(func() error {
		return b.inTx(ctx, backend.NoWait(backend.Alone(ctx)), func(tx *Tx) error {
			tx.noWait = true
			err := tx.do(ctx, verbs)
			commits = err == nil
			return err
		})
	})
	switch {
	case err == nil:
		return false, nil
	case commits:
		return errors.Is(err, ErrSerialization), err
	}
	return !errors.Is(err, ErrConnection) || errors.Is(err, ErrNotBegun), err
}

// verb carries out a verb by itself, in a separate transaction.
func (b *Broker) verb(ctx context.Context, v *verb) error {
	return b.alone(ctx, func(tx *Tx) error { return tx.do(ctx, []*verb{v}) })
}

// crowded carries out a verb together with others, or by itself. A validator of the application's may take long or panic,
// so a message that has one goes by itself, in the goroutine of its caller.
func (b *Broker) crowded(ctx context.Context, m *crowd.Member[*verb]) error {
	v := b.catalog.Load()
	if v == nil || v.types[cmp.Or(m.Verb.Type, DefaultType)].Validation == ValidationFunc {
		return b.verb(ctx, m.Verb)
	}
	m.Size = len(m.Verb.Body)
	return b.crowd.Do(ctx, m, func() error { return b.verb(ctx, m.Verb) })
}

// do carries out verbs that are posts of one queue, or no posts.
func (tx *Tx) do(ctx context.Context, verbs []*verb) error {
	if queue := verbs[0].queue; verbs[0].on == nil {
		posts := make([]Posting, len(verbs))
		for i, v := range verbs {
			posts[i] = v.Posting
		}
		ids, err := tx.post(ctx, queue, posts)
		for i := range ids {
			verbs[i].id = ids[i]
		}
		return err
	}
	batch := make([]Sending, len(verbs))
	for i, v := range verbs {
		c, err := v.on(ctx, tx)
		if err != nil {
			return err
		}
		batch[i] = Sending{c, v.Payload}
	}
	return tx.send(ctx, batch)
}
