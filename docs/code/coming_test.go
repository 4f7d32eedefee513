package code

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
)

// The code of docs/coming-from: a job that sorts strings, an upload with its thumbnail, and a pair of services.

func memory(types []string, queues ...string) *parley.Broker {
	ctx := context.Background()
	b, err := parley.Open(ctx, "memory:", nil)
	must(err)
	must(b.Migrate(ctx))
	c := parley.Catalog{}
	for _, name := range types {
		c.Types = append(c.Types, parley.MessageType{Name: name})
	}
	for _, name := range queues {
		c.Queues = append(c.Queues, parley.Queue{Name: name})
	}
	must(b.Define(ctx, c))
	return b
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type SortArgs struct{ Strings []string }

var Sort = parley.Type[SortArgs]("Sort", parley.JSON)

func Example_river() {
	ctx := context.Background()
	b := memory([]string{"Sort"}, "default")
	defer b.Close()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := Sort.Post(ctx, tx, "default", SortArgs{Strings: []string{"whale", "tiger"}},
			parley.Priority(8), parley.Unique("sort"))
		return err
	}))

	mux := parley.NewMux()
	parley.Handle(mux, Sort, func(ctx context.Context, m *parley.Message, args SortArgs) error {
		fmt.Println(len(args.Strings), "strings, attempt", m.Attempt)
		return nil
	})
	worker, err := b.NewWorker("default", mux, &parley.WorkerOptions{MaxReaders: 100})
	must(err)
	must(worker.Drain(ctx)) // a service calls Run
	// Output: 2 strings, attempt 1
}

type Thumbnail struct{ File string }

var MakeThumbnail = parley.Type[Thumbnail]("MakeThumbnail", parley.JSON)

func Example_asynq() {
	ctx := context.Background()
	b := memory([]string{"MakeThumbnail"}, "critical", "low")
	defer b.Close()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := MakeThumbnail.Post(ctx, tx, "low", Thumbnail{File: "a.png"}, parley.After(time.Millisecond))
		return err
	}))

	mux := parley.NewMux()
	mux.Use(logged)
	parley.Handle(mux, MakeThumbnail, func(ctx context.Context, m *parley.Message, t Thumbnail) error {
		if t.File == "" {
			return parley.DeadLetter(fmt.Errorf("no file")) // no retry
		}
		return nil
	})
	ctx, stop := context.WithCancel(ctx)
	mux.Use(func(next parley.Handler) parley.Handler {
		return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			defer stop() // an example ends
			return next.HandleMessage(ctx, m)
		})
	})
	worker, err := b.NewWorker("critical", mux, &parley.WorkerOptions{
		Also: []string{"low"}, Weights: map[string]int{"critical": 6}, MaxReaders: 10,
	})
	must(err)
	must(worker.Run(ctx))
	// Output: MakeThumbnail from low: <nil>
}

func logged(next parley.Handler) parley.Handler {
	return parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		err := next.HandleMessage(ctx, m)
		fmt.Printf("%s from %s: %v\n", m.Type, m.Queue, err)
		return err
	})
}

func Example_watermill() {
	ctx := context.Background()
	b := memory([]string{"Uploaded"}, "thumbnails", "search")
	defer b.Close()

	must(b.InTx(ctx, func(tx *parley.Tx) error { // publish
		uploaded := parley.Payload{Type: "Uploaded", Body: []byte("a.png"), Headers: map[string]string{"correlation": "7"}}
		for _, queue := range []string{"thumbnails", "search"} { // one for each consumer group
			if _, err := tx.Post(ctx, queue, uploaded, parley.Key("a.png")); err != nil {
				return err
			}
		}
		return nil
	}))

	mux := parley.NewMux()
	mux.HandleFunc("Uploaded", func(ctx context.Context, m *parley.Message) error {
		fmt.Printf("%s: %s, %s\n", m.Queue, m.Body, m.Headers["correlation"])
		return nil // the acknowledgement. An error brings the message again
	})
	worker, err := b.NewWorker("thumbnails", mux, nil)
	must(err)
	must(worker.Drain(ctx))
	worker, err = b.NewWorker("search", mux, nil)
	must(err)
	must(worker.Drain(ctx))
	// Output:
	// thumbnails: a.png, 7
	// search: a.png, 7
}

var asking = parley.Catalog{
	Types: []parley.MessageType{{Name: "Request"}, {Name: "Reply"}},
	Contracts: []parley.Contract{{Name: "Work", Messages: []parley.ContractEntry{
		{Type: "Request", SentBy: parley.ByInitiator}, {Type: "Reply", SentBy: parley.ByTarget}}}},
	Queues:   []parley.Queue{{Name: "asking"}, {Name: "working"}},
	Services: []parley.Service{{Name: "Asking", Queue: "asking"}, {Name: "Working", Queue: "working", Contracts: []string{"Work"}}},
}

func Example_serviceBroker() {
	ctx := context.Background()
	b := memory(nil)
	defer b.Close()
	must(b.Define(ctx, asking))

	// BEGIN TRANSACTION; BEGIN DIALOG CONVERSATION @h …; SEND ON CONVERSATION @h …; COMMIT
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Asking", "Working", &parley.DialogOptions{Contract: "Work", Lifetime: time.Hour})
		if err != nil {
			return err
		}
		return c.Send(ctx, "Request", []byte("please"))
	}))

	// WAITFOR (RECEIVE … FROM working), TIMEOUT 1000; SEND …; END CONVERSATION @h
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		messages, err := tx.Receive(ctx, "working", &parley.ReceiveOptions{Wait: time.Second})
		for _, m := range messages {
			if err == nil && m.Type == "Request" {
				if err = m.Reply(ctx, "Reply", []byte("done")); err == nil {
					err = m.End(ctx)
				}
			}
		}
		return err
	}))

	// An activation procedure is a worker.
	mux := parley.NewMux()
	mux.HandleFunc("Reply", func(ctx context.Context, m *parley.Message) error {
		fmt.Printf("%s: %s\n", m.FarService, m.Body)
		return nil // EndDialog has no handler: the Mux ends this side too
	})
	worker, err := b.NewWorker("asking", mux, &parley.WorkerOptions{MaxReaders: 5})
	must(err)
	must(worker.Drain(ctx))
	left, err := b.Admin().Conversations(ctx, parley.ConversationQuery{})
	must(err)
	fmt.Println(len(left), "conversations left")
	// Output:
	// Working: done
	// 0 conversations left
}
