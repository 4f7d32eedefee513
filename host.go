package parley

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/consumer"
)

// host is what a worker's consumer knows of the program.
type host struct {
	w   *Worker
	b   *Broker
	opt WorkerOptions // with their defaults
}

func (h *host) Check() error { return h.b.check() }

// Begin begins a transaction, also while the Broker is being closed: what the worker has in
// hand is acknowledged or given back in it. A handler gets none any more, since its context
// has ended.
func (h *host) Begin(ctx context.Context) (consumer.Work, error) {
	tx, err := h.b.beginAlways(ctx)
	if err != nil {
		return nil, err
	}
	return work{tx}, nil
}

func (h *host) Queue(ctx context.Context, name string, f func(int64, backend.Queue) error) error {
	return h.b.onQueue(ctx, name, func(v *catalogView, q Queue) error { return f(v.version, backend.Queue(q)) })
}

func (h *host) Due(ctx context.Context) (bool, error) { return h.b.jobs.due(ctx) }
func (h *host) Soon(d time.Duration)                  { h.b.jobs.within(d) }
func (h *host) Disable(ctx context.Context, queue string) error {
	return h.b.Admin().DisableQueue(ctx, queue)
}

func (h *host) Lost(queue string) error {
	return &Error{Op: "heartbeat", Object: objQueue(queue), Err: ErrFenced, Hint: "the lease was lost: the messages will be delivered again"}
}

func (h *host) Deadly(deaths int) error {
	return Poison(fmt.Errorf("%d receivers died while they had this message in hand: %w", deaths, ErrDeadly))
}

func (h *host) Claimed(ctx context.Context, e consumer.Claimed) {
	h.opt.Observer.Claimed(ctx, ClaimEvent(e))
}

func (h *host) Settled(ctx context.Context, e consumer.Settled) {
	h.opt.Observer.Settled(ctx, SettleEvent(e))
}

func (h *host) Messages(q backend.Queue, raw []*backend.Message, open func(context.Context) (consumer.Work, error), later func(consumer.Answer) bool) consumer.Messages {
	in := &inHand{host: h, queue: q.Name, open: open, later: later}
	in.messages = wrapMessages(raw, q.Name, in)
	return in
}

// inHand are messages in the hands of a worker's handler.
type inHand struct {
	*host
	queue    string
	messages []*Message
	open     func(context.Context) (consumer.Work, error)
	later    func(consumer.Answer) bool
}

var errReleased = fmt.Errorf("it was released before the work: %w", ErrSettled)

// within implements receiver. The worker has marked the context.
func (in *inHand) within(ctx context.Context) context.Context { return ctx }

// txFor implements receiver.
func (in *inHand) txFor(ctx context.Context, m *Message) (*Tx, error) {
	part, err := in.open(ctx)
	if err == nil {
		return part.(work).tx, nil
	}
	if errors.Is(err, consumer.ErrOver) {
		if err = ErrSettled; in.opt.Release == BeforeWork {
			err = errReleased
		}
	}
	return nil, fail("transaction of message", m.ID.String(), err)
}

func (in *inHand) Handle(ctx context.Context) error {
	if in.opt.Timeout > 0 {
		return within(ctx, in.opt.Timeout, in.handle)
	}
	return in.handle(ctx)
}

func (in *inHand) handle(ctx context.Context) error {
	if in.w.all != nil {
		return in.w.all.HandleGroup(ctx, in.messages)
	}
	if x, ok := in.w.h.(*Mux); ok && len(in.messages) > 1 {
		return x.handleRun(ctx, in.messages)
	}
	return in.w.h.HandleMessage(ctx, in.messages[0])
}

func (in *inHand) Handled(ctx context.Context, start time.Time, err error) {
	m := in.messages[0]
	ids := make([]ID, len(in.messages))
	for i, m := range in.messages {
		ids[i] = m.ID
	}
	in.opt.Observer.Handled(ctx, HandleEvent{
		Queue: in.queue, Type: m.Type, ID: m.ID, IDs: ids, Headers: m.Headers,
		Attempt: m.Attempt, Took: time.Since(start), Age: start.Sub(m.Enqueued), Err: err,
	})
}

func (in *inHand) End(ctx context.Context, code int, text string) error {
	c, err := in.messages[0].On(ctx)
	if err == nil {
		err = c.EndWithError(ctx, code, text)
	}
	return err
}

// work is a transaction as a consumer knows it.
type work struct{ tx *Tx }

func (k work) Store() backend.Tx                { return k.tx.be }
func (k work) Commit(ctx context.Context) error { return k.tx.commit(ctx) }
func (k work) Rollback(ctx context.Context)     { k.tx.rollback(ctx) }

func (k work) Part(groups ...ID) consumer.Work {
	return work{&Tx{b: k.tx.b, be: k.tx.be, held: groups}}
}

func (k work) Close() error {
	if k.tx.closed.Swap(true) {
		return ErrTxDone
	}
	return k.tx.broken
}

func (k work) Merge(part consumer.Work) (ended []ID) {
	tx := part.(work).tx
	for q := range tx.touched {
		k.tx.touch(q)
	}
	if tx.sooner > 0 {
		k.tx.soon(tx.sooner)
	}
	k.tx.remains, k.tx.undecided = k.tx.remains || tx.remains, append(k.tx.undecided, tx.undecided...)
	if tx.cat != nil {
		k.tx.cat = tx.cat
	}
	return tx.ended
}
