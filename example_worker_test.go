package parley_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

func ExampleBroker_NewWorker() {
	ctx, stop := context.WithCancel(context.Background())
	b, cleanup := shop()
	defer cleanup()
	type request struct{ Item int }
	type confirmation struct{ Number string }
	Order := parley.Type[request]("Order", parley.JSON)
	Confirmation := parley.Type[confirmation]("Confirmation", parley.JSON)
	order(b, `{"item": 7}`)

	mux := parley.NewMux()
	parley.Handle(mux, Order, func(ctx context.Context, m *parley.Message, r request) error {
		fmt.Println("item", r.Item)
		if err := Confirmation.Reply(ctx, m, confirmation{"A-1"}); err != nil {
			return err
		}
		stop() // an example ends
		return m.End(ctx)
	})
	w, err := b.NewWorker("billing", mux, &parley.WorkerOptions{MaxReaders: 4})
	must(err)
	fmt.Println(w.Run(ctx)) // nil when what was begun is done
	// Output:
	// item 7
	// <nil>
}

func ExampleWorker_Drain() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for _, body := range []string{"1", "2", "3"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(body)}, parley.Key("k"))
		must(err)
	}

	// Handlers of one group come one after another; a handler for groups gets
	// what there is of one in one call.
	w, err := b.NewWorker("mail", parley.GroupFunc(func(_ context.Context, messages []*parley.Message) error {
		for _, m := range messages {
			fmt.Printf("%s ", m.Body)
		}
		return nil
	}), nil)
	must(err)
	w.SetMaxReaders(2) // at any time
	must(w.Drain(ctx))
	fmt.Println("readers:", w.Readers())

	var g parley.GroupHandler = parley.GroupFunc(func(context.Context, []*parley.Message) error { return nil })
	must(g.HandleGroup(ctx, nil))
	must(g.HandleMessage(ctx, nil)) // of one
	// Output: 1 2 3 readers: 0
}

// Errors of handlers may say what is to become of the message.
func ExamplePoison() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for _, body := range []string{"later", "nonsense", "for a person", "never"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Type: "Letter", Body: []byte(body)})
		if err != nil { // the type is not defined
			must(b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: "Letter"}}}))
			_, err = b.Post(ctx, "mail", parley.Payload{Type: "Letter", Body: []byte(body)})
		}
		must(err)
	}

	mux := parley.NewMux()
	mux.HandleFunc("Letter", func(ctx context.Context, m *parley.Message) error {
		switch string(m.Body) {
		case "later":
			return parley.Defer(time.Hour)
		case "nonsense":
			return parley.Poison(errors.New("no address")) // what the worker's policy says
		case "for a person":
			return parley.Park(errors.New("who is this?"))
		}
		return parley.DeadLetter(errors.New("not ours"))
	})
	worker, err := b.NewWorker("mail", mux, &parley.WorkerOptions{
		MaxAttempts: 3,
		Backoff:     parley.Backoff(100*time.Millisecond, time.Minute),
		Poison:      parley.ActionDeadLetter,
	})
	must(err)
	must(worker.Drain(ctx))

	q, err := b.Admin().Queues(ctx, "mail")
	must(err)
	dead, err := b.Admin().DeadLetters(ctx, "mail", parley.Place{}, 10)
	must(err)
	fmt.Println("deferred:", q[0].Deferred, "parked:", q[0].Parked, "dead:", len(dead))
	// Output: deferred: 1 parked: 1 dead: 2
}

func ExampleMux() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	mux := parley.NewMux()
	mux.Use(func(next parley.Handler) parley.Handler { // around all handlers
		return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			err := next.HandleMessage(ctx, m)
			fmt.Println(m.Type, err)
			return err
		})
	})
	// A handler of its own for each message, with at most a second for it.
	mux.Handle("Order", parley.PerMessage(func(context.Context, *parley.Message) (parley.Handler, error) {
		return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			return parley.EndWithError(17, "no such item")
		}), nil
	}), parley.Timeout(time.Second))

	order(b, `{"item": 7}`)
	worker, err := b.NewWorker("billing", mux, nil)
	must(err)
	must(worker.Drain(ctx))
	worker, err = b.NewWorker("shop", mux, nil)
	must(err)
	must(worker.Drain(ctx)) // ends its side by itself
	left, err := b.Admin().Conversations(ctx, parley.ConversationQuery{})
	must(err)
	fmt.Println("conversations left:", len(left))
	// Output:
	// Order no such item
	// http://schemas.microsoft.com/SQL/ServiceBroker/Error <nil>
	// conversations left: 0
}

// counter counts messages that were handled.
type counter struct {
	parley.NopObserver
	handled int
}

func (c *counter) Settled(_ context.Context, e parley.SettleEvent) { c.handled += e.Done }

func ExampleObserver() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 7}`)

	c := new(counter)
	h := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error { return nil })
	worker, err := b.NewWorker("billing", h, &parley.WorkerOptions{MaxReaders: 1, Observer: c})
	must(err)
	must(worker.Drain(ctx))
	fmt.Println(c.handled)
	// Output: 1
}

// A program calls a handler by itself, in a separate transaction.
func ExampleMessage_WithTx() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	h := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		if err == nil {
			_, err = tx.Post(ctx, "mail", parley.Payload{Body: m.Body})
		}
		return err
	})

	m := &parley.Message{Body: []byte("hello")}
	fmt.Println(errors.Is(h.HandleMessage(ctx, m), parley.ErrNotReceived))
	must(b.InTx(ctx, func(tx *parley.Tx) error { return h.HandleMessage(ctx, m.WithTx(tx)) }))
	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	fmt.Printf("%s\n", d.Messages[0].Body)
	must(d.Ack(ctx))
	// Output:
	// true
	// hello
}
