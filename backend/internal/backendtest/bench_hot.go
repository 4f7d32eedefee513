package backendtest

import (
	"context"
	"errors"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// hotPaths are what programs do for each message, with what each of them
// allocates in Go, the driver's part included.
func hotPaths(b *bencher) {
	b.must(b.broker.Migrate(b.ctx))
	b.must(b.broker.Define(b.ctx, parley.Catalog{
		Types:     []parley.MessageType{{Name: "Job"}},
		Contracts: []parley.Contract{{Name: "Jobs", Messages: []parley.ContractEntry{{Type: "Job", SentBy: parley.ByInitiator}}}},
		Queues:    []parley.Queue{{Name: "posts"}, {Name: "keys"}, {Name: "in"}, {Name: "out"}},
		Services:  []parley.Service{{Name: "Client", Queue: "out"}, {Name: "Server", Queue: "in", Contracts: []string{"Jobs"}}},
	}))
	body := make([]byte, 200)
	var handle parley.ID
	b.must(b.broker.InTx(b.ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(b.ctx, "Client", "Server", &parley.DialogOptions{Contract: "Jobs"})
		if err == nil {
			handle = c.Handle()
		}
		return err
	}))
	inTx := func(f func(tx *parley.Tx) error) func(context.Context) error {
		return func(ctx context.Context) error { return b.broker.InTx(ctx, f) }
	}
	receive := func(queue string) func(context.Context) error {
		return func(ctx context.Context) error {
			d, err := b.broker.Receive(ctx, queue, &parley.ReceiveOptions{MaxMessages: 1})
			if err != nil {
				return err
			}
			return d.Ack(ctx)
		}
	}
	hundred := make([]parley.Posting, 100)
	for i := range hundred {
		hundred[i].Body = body
	}
	for _, path := range []hotPath{
		{name: "post", empty: "posts", once: inTx(func(tx *parley.Tx) error {
			_, err := tx.Post(b.ctx, "posts", parley.Payload{Body: body})
			return err
		})},
		{name: "post with a key", empty: "keys", once: inTx(func(tx *parley.Tx) error {
			_, err := tx.Post(b.ctx, "keys", parley.Payload{Body: body}, parley.Key("k"))
			return err
		})},
		{name: "post a hundred", empty: "posts", once: inTx(func(tx *parley.Tx) error {
			_, err := tx.PostBatch(b.ctx, "posts", hundred)
			return err
		})},
		{name: "send", empty: "in", once: inTx(func(tx *parley.Tx) error {
			return tx.Conversation(handle).Send(b.ctx, "Job", body)
		})},
		{name: "receive a post", once: receive("posts"), fill: func(n int) { b.post("posts", n, nil) }},
		{name: "receive one of a key", once: receive("keys"), fill: func(n int) {
			b.post("keys", n, func(int) string { return "k" })
		}},
		{name: "look without result", once: func(ctx context.Context) error {
			_, err := b.broker.Receive(ctx, "out", nil)
			if errors.Is(err, parley.ErrNoMessage) {
				err = nil
			}
			return err
		}},
	} {
		path.run(b)
	}
}

// hotPath is what is measured once, again and again.
type hotPath struct {
	name  string
	fill  func(n int) // makes what n iterations take
	once  func(context.Context) error
	empty string // the queue that this fills
}

func (path hotPath) run(b *bencher) {
	b.Run(path.name, func(t *testing.B) {
		if path.fill != nil {
			path.fill(t.N)
		}
		t.ReportAllocs()
		t.ResetTimer()
		for range t.N {
			if err := path.once(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		t.StopTimer()
		if path.empty != "" {
			b.drain(path.empty)
		}
	})
}

// drain empties a queue.
func (b *bencher) drain(queue string) {
	nothing := parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil })
	b.must(sure.Of(b.broker.NewWorker(queue, nothing, nil)).Drain(b.ctx))
}
