package parley_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/doctor"
)

// A message comes with the errors of its last ten attempts, and keeps them as a dead letter.
func ExampleFailedAttempt() {
	ctx := context.Background()
	b, err := parley.Open(ctx, "memory:", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "orders"}}}))
	_, err = b.Post(ctx, "orders", parley.Payload{Body: []byte("order 7")})
	must(err)
	troubles := []error{errors.New("the warehouse does not answer"), errors.New("the warehouse is full"), parley.DeadLetter(errors.New("no such article"))}
	handled := make(chan struct{}, len(troubles))
	w, err := b.NewWorker("orders", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		handled <- struct{}{}
		return troubles[m.Attempt-1]
	}), &parley.WorkerOptions{Backoff: parley.Backoff(time.Millisecond, time.Millisecond)})
	must(err)
	stop, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(stop) }()
	for range troubles {
		<-handled
	}
	cancel() // Run returns when what is in hand is settled
	must(<-done)

	dead, err := b.Admin().DeadLetters(ctx, "orders", parley.Place{}, 10)
	must(err)
	for _, a := range dead[0].Message.Errors {
		fmt.Printf("attempt %d, dated %t: %s\n", a.Attempt, !a.At.IsZero(), a.Error)
	}
	// Output:
	// attempt 1, dated true: the warehouse does not answer
	// attempt 2, dated true: the warehouse is full
	// attempt 3, dated true: no such article
}

// What could not be handled waits for an operator: parked, in its order, or as a
// dead letter.
func ExampleAdmin_Parked() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "parley-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	b, err := parley.Open(ctx, "sqlite:"+filepath.Join(dir, "app.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "orders"}}}))
	for _, body := range []string{"first", "second", "third", "fourth"} {
		_, err := b.Post(ctx, "orders", parley.Payload{Body: []byte(body)}, parley.Key("customer 42"))
		must(err)
	}
	w, err := b.NewWorker("orders", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		return parley.Park(errors.New("the customer is not known"))
	}), nil)
	must(err)
	must(w.Drain(ctx))

	found, err := doctor.Diagnose(ctx, b, "orders")
	must(err)
	for _, f := range found {
		fmt.Println(f.Code)
	}
	workers, err := b.Admin().Workers(ctx)
	must(err)
	fmt.Println(len(workers), "workers")

	brief, err := b.Admin().Blocked(ctx, "orders", "parked", parley.Place{}, 1000) // to look through many
	must(err)
	fmt.Println(brief[0].Key, "is", brief[0].State)
	parked, err := b.Admin().Parked(ctx, "orders", parley.Place{}, 10)
	must(err)
	group := parked[0].Group
	messages, err := b.Admin().PeekParked(ctx, "orders", group, 10)
	must(err)
	fmt.Println(len(messages), "messages:", parked[0].Reason)

	// The first is skipped, put back at the end, and everything else discarded.
	_, err = b.Admin().SkipParked(ctx, "orders", group, "not for us")
	must(err)
	dead, err := b.Admin().DeadLetters(ctx, "orders", parley.Place{}, 10)
	must(err)
	_, err = b.Admin().RequeueDead(ctx, dead[0])
	must(err)
	must(w.Drain(ctx)) // parked again
	n, err := b.Admin().DiscardParked(ctx, "orders", group)
	must(err)
	fmt.Println(n, "discarded:", dead[0].Reason)
	n, err = b.Admin().DiscardDead(ctx, dead[0].Message.ID)
	must(err)
	fmt.Println(n, "dead letters left")
	// Output:
	// group.parked
	// 0 workers
	// customer 42 is parked
	// 4 messages: the customer is not known
	// 4 discarded: not for us
	// 0 dead letters left
}

// A dashboard tells messages that no program handles yet from those that fail.
func ExampleUnhandledSince() {
	reason := `there is no handler for message type "Refund"; since 2026-11-23T08:00:00Z`
	if since, ok := parley.UnhandledSince(reason); ok {
		fmt.Println("no handler since", since.Format(time.TimeOnly))
	}
	// Output: no handler since 08:00:00
}
