package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/proxy"
	"github.com/parleymq/parley/internal/slow"
)

// Alone posts by Broker.Post while connections break and callers give up. The statement of such a post has no
// transaction around it. open opens a migrated store through a proxy, and lock keeps others from writing to a table.
func Alone(t *testing.T, server string, open func(t *testing.T, through string) backend.Backend, lock func(t *testing.T, table string) (unlock func())) {
	a, p, through := newAlone(t, server, open)
	a.verb = func(ctx context.Context, body string) error {
		_, err := a.b.Post(ctx, "q", parley.Payload{Body: []byte(body)})
		return err
	}
	a.posts(p, through, open, lock)
	for _, body := range []string{"0", "1", "2"} { // the first one makes the key
		_, err := a.b.Post(a.Context(), "q", parley.Payload{Body: []byte(body)}, parley.Key("k"))
		a.must(err)
	}
	a.are("0", "1", "2")
	a.isClosed(func() backend.Backend { return open(t, through) })
}

// AloneBatches is Alone for Broker.PostBatch: of each batch, all posts are stored or none.
func AloneBatches(t *testing.T, server string, open func(t *testing.T, through string) backend.Backend, lock func(t *testing.T, table string) (unlock func())) {
	a, p, through := newAlone(t, server, open)
	a.copies = 3
	a.verb = func(ctx context.Context, body string) error {
		posts := slices.Repeat([]parley.Posting{{Payload: parley.Payload{Body: []byte(body)}}}, a.copies)
		_, err := a.b.PostBatch(ctx, "q", posts)
		return err
	}
	a.posts(p, through, open, lock)
}

func (a *alone) posts(p *proxy.Proxy, through string, open func(t *testing.T, through string) backend.Backend, lock func(t *testing.T, table string) (unlock func())) {
	a.must(a.post("first"))
	a.must(a.post("second"))
	a.are("first", "second")
	a.cut(p)
	a.fallsBack(a.broker(open(a.T, through)))
	a.givesUp(func() (unlock func()) { return lock(a.T, "parley_post") })
	a.isUnanswered(p)
}

// AloneSends is Alone for Broker.Send. On an engine where such a send has a transaction around it, a break before
// the commit undoes it.
func AloneSends(t *testing.T, server string, open func(t *testing.T, through string) backend.Backend, lock func(t *testing.T, table string) (unlock func())) {
	a, p, through := newAlone(t, server, open)
	a.must(a.b.Define(t.Context(), parley.Catalog{
		Contracts: []parley.Contract{{Name: "Talk", Messages: []parley.ContractEntry{
			{Type: parley.DefaultType, SentBy: parley.ByAny}, {Type: parley.EndOfStream, SentBy: parley.ByInitiator}}}},
		Queues:   []parley.Queue{{Name: "own"}},
		Services: []parley.Service{{Name: "Sender", Queue: "own"}, {Name: "Receiver", Queue: "q", Contracts: []string{"Talk"}}},
	}))
	handle := a.begin()
	payload := func(body string) parley.Payload { return parley.Payload{Type: parley.DefaultType, Body: []byte(body)} }
	a.verb = func(ctx context.Context, body string) error { return a.b.Send(ctx, handle, payload(body)) }
	a.must(a.post("first"))
	a.must(a.post("second"))
	a.are("first", "second")
	if info, err := a.b.Info(t.Context()); err != nil || info.Engine == "postgres" {
		a.must(err)
		a.cut(p)
		a.isUnanswered(p)
	}
	other := a.broker(open(t, through)) // which does not know the conversation
	a.must(other.Send(t.Context(), handle, payload("by another process")))
	a.must(other.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "another"}}}))
	a.must(a.post("with a stale catalog"))
	a.are("by another process", "with a stale catalog")
	a.givesUp(func() (unlock func()) { return lock(t, "parley_stream") })
	a.isRefused(payload)
	a.must(a.b.Send(t.Context(), handle, parley.Payload{Type: parley.EndOfStream}))
	if err := a.post("after the last one"); !errors.Is(err, parley.ErrSealed) {
		a.Errorf("after the last message: %v, want ErrSealed", err)
	}
}

// isRefused: a send that is refused fails as it does in a transaction.
func (a *alone) isRefused(payload func(body string) parley.Payload) {
	byItself, within := a.begin(), a.begin()
	verbs := map[string]func() error{
		"by itself": func() error { return a.b.Send(a.Context(), byItself, payload("later")) },
		"in a transaction": func() error {
			return a.b.InTx(a.Context(), func(tx *parley.Tx) error { return tx.Conversation(within).SendPayload(a.Context(), payload("later")) })
		},
	}
	for _, verb := range verbs {
		a.must(verb())
		d, err := a.b.Receive(a.Context(), "q", nil)
		a.must(err)
		for _, m := range d.Messages {
			a.must(m.End(a.Context()))
		}
		a.must(d.Ack(a.Context()))
	}
	for name, verb := range verbs {
		if err := verb(); !errors.Is(err, parley.ErrFarEnded) {
			a.Errorf("%s, after the other side has ended: %v", name, err)
		}
	}
	for _, h := range []parley.ID{byItself, within} {
		a.must(a.b.InTx(a.Context(), func(tx *parley.Tx) error { return tx.Conversation(h).End(a.Context()) }))
	}
	for name, verb := range verbs {
		if err := verb(); !errors.Is(err, parley.ErrNoConversation) {
			a.Errorf("%s, when the conversation is gone: %v", name, err)
		}
	}
	a.are()
}

// begin begins a conversation.
func (a *alone) begin() (handle parley.ID) {
	a.must(a.b.InTx(a.Context(), func(tx *parley.Tx) error {
		c, err := tx.Begin(a.Context(), "Sender", "Receiver", &parley.DialogOptions{Contract: "Talk"})
		if err == nil {
			handle = c.Handle()
		}
		return err
	}))
	return handle
}

func newAlone(t *testing.T, server string, open func(t *testing.T, through string) backend.Backend) (a *alone, p *proxy.Proxy, through string) {
	p, through = Through(t, server)
	a = &alone{T: t, copies: 1}
	a.b = a.broker(open(t, through))
	a.must(a.b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	return a, p, through
}

type alone struct {
	*testing.T
	b      *parley.Broker
	verb   func(ctx context.Context, body string) error // posts or sends
	copies int                                          // of each body
}

func (a *alone) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *alone) broker(be backend.Backend) *parley.Broker {
	b, err := parley.New(a.Context(), be, &parley.Options{NoMaintenance: true})
	a.must(err)
	a.Cleanup(func() { b.Close() })
	return b
}

func (a *alone) post(body string) error { return a.verb(a.Context(), body) }

// are wants what has been stored.
func (a *alone) are(want ...string) {
	a.Helper()
	if got := a.stored(); !slices.Equal(got, want) {
		a.Errorf("stored are %q, want %q", got, want)
	}
}

// stored receives what has been stored.
func (a *alone) stored() (got []string) {
	a.Helper()
	var all []string
	for {
		d, err := a.b.Receive(a.Context(), "q", &parley.ReceiveOptions{MaxMessages: 1})
		if errors.Is(err, parley.ErrNoMessage) {
			break
		}
		a.must(err)
		for _, m := range d.Messages {
			all = append(all, string(m.Body))
		}
		a.must(d.Ack(a.Context()))
	}
	for same := range slices.Chunk(all, a.copies) {
		if len(slices.Compact(slices.Clone(same))) > 1 || len(same) < a.copies {
			a.Errorf("a part of a batch is stored: %q", all)
		}
		got = append(got, same[0])
	}
	return got
}

// cut breaks the connection before the server has the statement, and when it has carried it out.
func (a *alone) cut(p *proxy.Proxy) {
	cutAt := func(answered bool, body string) { p.CutAt(answered, body, fmt.Sprintf("%x", body)) }
	a.must(a.post("warm"))
	cutAt(false, "unsent")
	if err := a.post("unsent"); !errors.Is(err, parley.ErrConnection) {
		a.Errorf("cut before the server had it: %v, want ErrConnection", err)
	}
	a.must(a.post("afterwards"))
	a.are("warm", "afterwards")

	// It is its own commit, unless wake-ups have the connection that is known to be alive.
	var got []string
	for i := 0; i < 10 && !slices.Contains(got, "sent"); i++ {
		a.must(a.post("warm"))
		cutAt(true, "sent")
		if err := a.post("sent"); !errors.Is(err, parley.ErrConnection) || errors.Is(err, parley.ErrNotBegun) || parley.IsRetryable(err) {
			a.Errorf("cut when the server had it: %v, want ErrConnection, which is not retried", err)
		}
		a.must(a.post("afterwards"))
		got = a.stored()
		if !slices.Equal(got, []string{"warm", "sent", "afterwards"}) && !slices.Equal(got, []string{"warm", "afterwards"}) {
			a.Errorf("stored are %q", got)
		}
	}
	if !slices.Contains(got, "sent") {
		a.Error("it was never its own commit")
	}
}

// fallsBack: what a statement by itself cannot do is done in a transaction.
func (a *alone) fallsBack(other *parley.Broker) {
	a.must(other.Define(a.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "another"}}}))
	a.must(a.post("with a stale catalog"))
	a.must(other.Admin().DisableQueue(a.Context(), "q"))
	if err := a.post("to a queue that is off"); !errors.Is(err, parley.ErrQueueDisabled) {
		a.Errorf("to a queue that is off: %v", err)
	}
	a.must(other.Admin().EnableQueue(a.Context(), "q"))
	a.are("with a stale catalog")
}

// isUnanswered: a caller whose context ends while the answer is missing hears that the message may be stored. If the
// error is the context's alone, no connection was free, perhaps: wake-ups use them, too. Then it is tried again.
func (a *alone) isUnanswered(p *proxy.Proxy) {
	var err error
	for range 10 {
		a.must(a.post("warm"))
		err = a.unanswered(p)
		a.must(a.post("last"))
		if got := a.stored(); !slices.Equal(got, []string{"warm", "unanswered", "last"}) && !slices.Equal(got, []string{"warm", "last"}) {
			a.Errorf("stored are %q", got)
		}
		if errors.Is(err, context.DeadlineExceeded) && errors.Is(err, parley.ErrConnection) {
			break
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, parley.ErrConnection) || errors.Is(err, parley.ErrNotBegun) || parley.IsRetryable(err) {
		a.Errorf("without an answer: %v, want the context's error and ErrConnection, which is not retried", err)
	}
}

// isClosed: what Commit says of a post by itself is true also if its store has been closed before.
func (a *alone) isClosed(open func() backend.Backend) {
	var err error
	for i := 0; i == 0 || err != nil && i < 10; i++ { // as in cut
		err = a.commitClosed(open())
		if got := a.stored(); slices.Contains(got, "closed") != (err == nil) {
			a.Errorf("the commit after Close: %v, and stored are %q", err, got)
		}
	}
	if err != nil {
		a.Errorf("it was never its own commit: %v", err)
	}
}

// commitClosed posts by itself, closes be, and returns what Commit says then.
func (a *alone) commitClosed(be backend.Backend) error {
	ctx, b := a.Context(), a.broker(be)
	_, err := b.Post(ctx, "q", parley.Payload{Body: []byte("warm")})
	a.must(err)
	tx, err := be.Begin(ctx)
	a.must(err)
	c, err := tx.Catalog(ctx, false)
	a.must(errors.Join(err, tx.Rollback(ctx)))
	queue := c.Queues[slices.IndexFunc(c.Queues, func(q backend.Queue) bool { return q.Name == "q" })].ID
	tx, err = be.Begin(backend.Alone(ctx))
	a.must(err)
	_, err = tx.Post(ctx, c.Version, []backend.Posting{{ID: backend.NewID(), Queue: queue, Rank: 5, Type: parley.DefaultType, Body: []byte("closed")}})
	a.must(errors.Join(err, be.Close()))
	return tx.Commit(ctx)
}

// unanswered is a verb whose context ends while nothing comes through the proxy.
func (a *alone) unanswered(p *proxy.Proxy) error {
	p.Set(true, 0)
	defer p.Set(false, 0)
	brief, cancel := context.WithTimeout(a.Context(), time.Second)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- a.verb(brief, "unanswered") }()
	select {
	case err := <-over:
		p.Cut()
		return err
	case <-time.After(5 * time.Second): // lib/pq waits for the answer, however long that takes
		p.Cut()
		return <-over
	}
}

// givesUp: a caller whose context ends knows that nothing was stored, once the server has said so.
func (a *alone) givesUp(lock func() (unlock func())) {
	a.must(a.post("warm"))
	unlock := lock()
	brief, cancel := context.WithTimeout(a.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := a.verb(brief, "blocked"); !errors.Is(err, context.DeadlineExceeded) {
		a.Errorf("given up while it was blocked: %v", err)
	}
	if d := time.Since(begun); d > slow.By(10*time.Second) {
		a.Errorf("giving up took %v", d)
	}
	unlock()
	a.must(a.post("last"))
	a.are("warm", "last")
}
