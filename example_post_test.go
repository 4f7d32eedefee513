package parley_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

func ExampleTx_PostBatch() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	hello := parley.Payload{Body: []byte("hello")}
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := tx.PostBatch(ctx, "mail", []parley.Posting{
			{Payload: hello},
			{Payload: parley.Payload{Body: []byte("urgent")}, Options: []parley.PostOption{parley.Priority(9)}},
			{Payload: hello, Options: []parley.PostOption{parley.At(time.Now().Add(time.Hour))}},
		})
		return err
	}))
	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	fmt.Printf("%s\n", d.Messages[0].Body)
	must(d.Ack(ctx))
	// Output: urgent
}

func ExampleTx_CancelPost() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	id := parley.NewID()
	_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("reminder")}, parley.After(time.Hour), parley.PostID(id))
	must(err)

	p, err := b.PostStatus(ctx, "mail", id)
	must(err)
	fmt.Println(p.State)
	fmt.Println(b.InTx(ctx, func(tx *parley.Tx) error { return tx.CancelPost(ctx, "mail", id) }))
	fmt.Println(errors.Is(b.CancelPost(ctx, "mail", id), parley.ErrNotPending))
	// Output:
	// delayed
	// <nil>
	// true
}

// An effect outside the database may happen twice, if a process dies between it
// and the commit. A record of the message's ID keeps it from happening again
// where it can be undone or asked for.
func ExampleTx_Once() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	for range 2 {
		must(b.InTx(ctx, func(tx *parley.Tx) error {
			first, err := tx.Once(ctx, "invoice 1841")
			if err == nil {
				fmt.Println("to be sent:", first)
			}
			return err
		}))
	}
	// Output:
	// to be sent: true
	// to be sent: false
}

func ExampleTyped_Post() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	type letter struct{ To, Text string }
	Letter := parley.Type[letter]("Letter", parley.XML)
	must(b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: Letter.Name(), Validation: parley.ValidationXML}}}))

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := Letter.Post(ctx, tx, "mail", letter{"Ada", "hello"}, parley.Key("Ada"))
		return err
	}))
	p, err := Letter.Encode(letter{"Ada", "and good bye"})
	must(err)
	_, err = b.Post(ctx, "mail", p, parley.Key("Ada"))
	must(err)

	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	defer d.Close()
	for _, m := range d.Messages {
		l, err := Letter.Decode(m)
		must(err)
		fmt.Printf("%s: %s\n", l.To, l.Text)
	}
	// Output:
	// Ada: hello
	// Ada: and good bye
}

// Headers go with the value, for example to tell a handler on whose behalf it works.
func ExampleTyped_WithHeaders() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	type letter struct{ To string }
	Letter := parley.Type[letter]("Order", parley.JSON)

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := Letter.WithHeaders(map[string]string{"tenant": "7"}).Post(ctx, tx, "mail", letter{"Ada"})
		return err
	}))
	mux := parley.NewMux()
	parley.Handle(mux, Letter, func(ctx context.Context, m *parley.Message, l letter) error {
		fmt.Println(l.To, "of tenant", m.Headers["tenant"])
		return nil
	})
	worker, err := b.NewWorker("mail", mux, nil)
	must(err)
	must(worker.Drain(ctx))
	// Output: Ada of tenant 7
}

func ExampleTyped_PostBatch() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	Number := parley.Type[int](parley.DefaultType, parley.JSON)
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := Number.PostBatch(ctx, tx, "mail", []int{1, 2, 3}, parley.Key("numbers"))
		return err
	}))
	// Without a type or a transaction of one's own:
	_, err := b.PostBatch(ctx, "mail", []parley.Posting{{
		Payload: parley.Payload{Body: []byte("4")}, Options: []parley.PostOption{parley.Key("numbers")},
	}})
	must(err)

	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	defer d.Close()
	for _, m := range d.Messages {
		fmt.Printf("%s ", m.Body)
	}
	// Output: 1 2 3 4
}

func ExampleConversation_SendPayload() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"})
		if err != nil {
			return err
		}
		return c.SendPayload(ctx, parley.Payload{
			Type: "Order", Body: []byte(`{"item": 1}`), Headers: map[string]string{"tenant": "7"},
		})
	}))
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	fmt.Println(d.Messages[0].Headers)
	must(d.Ack(ctx))
	// Output: map[tenant:7]
}

// Headers carry what belongs to no body, such as the context of a trace. Outgoing sets them on
// all that a program sends.
func ExampleOutgoing() {
	ctx := context.Background()
	type traceKey struct{}
	b, err := parley.Open(ctx, "memory:", &parley.Options{
		Outgoing: func(ctx context.Context, o *parley.Outgoing) error {
			if trace, ok := ctx.Value(traceKey{}).(string); ok {
				o.Headers["traceparent"] = trace
			}
			return nil
		},
	})
	must(err)
	defer b.Close()
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))

	traced := context.WithValue(ctx, traceKey{}, "00-4bf92f35-01")
	_, err = b.Post(traced, "mail", parley.Payload{Body: []byte("hello"), Headers: map[string]string{"tenant": "7"}})
	must(err)

	mux := parley.NewMux()
	mux.Use(func(next parley.Handler) parley.Handler { // on the receiving side
		return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			return next.HandleMessage(context.WithValue(ctx, traceKey{}, m.Headers["traceparent"]), m)
		})
	})
	mux.HandleFunc(parley.DefaultType, func(ctx context.Context, m *parley.Message) error {
		fmt.Println(ctx.Value(traceKey{}), m.Headers["tenant"])
		return nil
	})
	worker, err := b.NewWorker("mail", mux, nil)
	must(err)
	must(worker.Drain(ctx))
	// Output: 00-4bf92f35-01 7
}

func ExampleBroker_CancelPosts() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	id, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("a long report")})
	must(err)
	started := make(chan struct{})
	handler := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		close(started)
		<-ctx.Done() // as a statement or a request with this context would see it
		fmt.Println("the handler stops:", context.Cause(ctx))
		return ctx.Err()
	})
	worker, err := b.NewWorker("mail", handler, nil)
	must(err)
	done := make(chan error)
	go func() { done <- worker.Drain(ctx) }()

	<-started
	cancelled, err := b.CancelPosts(ctx, "mail", parley.PostFilter{IDs: []parley.ID{id}})
	must(err)
	fmt.Println(len(cancelled.Removed), "removed,", len(cancelled.Requested), "requested")
	must(<-done)

	_, err = b.CancelPosts(ctx, "mail", parley.PostFilter{IDs: []parley.ID{id}})
	fmt.Println(errors.Is(err, parley.ErrNotPending))
	// Unordered output:
	// 0 removed, 1 requested
	// the handler stops: it was cancelled
	// true
}

func ExampleRaiseKey() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	post := func(body string, o ...parley.PostOption) {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(body)}, o...)
		must(err)
	}
	post("news for Ann", parley.Key("Ann"), parley.Priority(2))
	post("news for Bob", parley.Key("Bob"), parley.Priority(3))
	post("a new password for Ann", parley.Key("Ann"), parley.Priority(9), parley.RaiseKey())
	print := parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
		fmt.Printf("%s\n", m.Body)
		return nil
	})
	worker, err := b.NewWorker("mail", print, &parley.WorkerOptions{MaxReaders: 1})
	must(err)
	must(worker.Drain(ctx))
	// Output:
	// news for Ann
	// a new password for Ann
	// news for Bob
}

func ExampleUntilEmpty() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for _, body := range []string{"other", "one", "two"} {
		key := "Ann"
		if body == "other" {
			key = "Bob"
		}
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(body)}, parley.Key(key))
		must(err)
	}
	must(b.PromoteKey(ctx, "mail", "Ann", parley.UntilEmpty()))
	for range 3 { // a receiver that takes one message at a time
		d, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{MaxMessages: 1})
		must(err)
		fmt.Printf("%s, promoted: %t\n", d.Messages[0].Body, d.Promoted)
		must(d.Ack(ctx))
	}
	// Output:
	// one, promoted: true
	// two, promoted: true
	// other, promoted: false
}
