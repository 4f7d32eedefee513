package memory_test

import (
	"context"
	"fmt"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
)

// A test of a handler: post what it is to handle, drain the queue, and look at what came of it.
func Example() {
	ctx := context.Background()
	b, err := parley.Open(ctx, "memory:", nil)
	if err != nil {
		panic(err)
	}
	defer b.Close()
	if err := b.Migrate(ctx); err != nil {
		panic(err)
	}
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		panic(err)
	}
	for _, to := range []string{"ann", "bob"} {
		if _, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(to)}, parley.Key("one sender")); err != nil {
			panic(err)
		}
	}
	w, err := b.NewWorker("mail", parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
		fmt.Printf("mail to %s\n", m.Body)
		return nil
	}), nil)
	if err != nil {
		panic(err)
	}
	if err := w.Drain(ctx); err != nil {
		panic(err)
	}
	// Output:
	// mail to ann
	// mail to bob
}
