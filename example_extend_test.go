package parley_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleymq/parley"
)

// audit is a verb that a package outside of Parley adds: it works in a transaction of
// Parley's, and in the background.
func audit(ctx context.Context, tx *parley.Tx, queue string) error {
	be, err := tx.Backend()
	if err == nil {
		_, err = be.Catalog(ctx, false)
	}
	return parley.WrapError("audit", fmt.Sprintf("queue %q", queue), err)
}

// topic is what the package announces. Queues have topics above zero.
const topic = -100

// A package that adds to Parley tells its own waiters, in this process and others, that
// there is something new.
func ExampleBroker_Watch() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	woken, stop := b.Watch(topic)
	defer stop()
	must(b.InTx(ctx, func(tx *parley.Tx) error { return tx.Notify(ctx, topic) }))
	<-woken // at the latest look again after Options().Poll
	fmt.Println("woken by a commit")

	again, stop := b.Watch(topic)
	defer stop()
	b.Wake(topic)
	<-again
	fmt.Println("woken at once")
	// Output:
	// woken by a commit
	// woken at once
}

// A package that adds to Parley has application code work in a transaction, which holds a
// connection of the pool meanwhile.
func ExampleBroker_Begin() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	leave, err := b.Admit(ctx) // some connections stay free for everything else
	must(err)
	defer leave()
	tx, err := b.Begin(ctx)
	must(err)
	defer tx.Rollback(ctx) // does nothing after Commit
	_, err = tx.Post(ctx, "mail", parley.Payload{Body: []byte("hello")})
	must(err)
	err = tx.Commit(ctx)
	fmt.Println(err, b.Unavailable(err))
	// Output:
	// <nil> false
}

// What fails inside of Atomically is undone, and the transaction goes on.
func ExampleTx_Atomically() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		err := tx.Atomically(ctx, func() error {
			if _, err := tx.Post(ctx, "mail", parley.Payload{Body: []byte("one")}); err != nil {
				return err
			}
			return errors.New("no more")
		})
		fmt.Println(err)
		_, err = tx.Post(ctx, "mail", parley.Payload{Body: []byte("two")})
		return err
	}))
	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	fmt.Println(string(d.Messages[0].Body), len(d.Messages))
	must(d.Ack(ctx))
	// Output:
	// no more
	// two 1
}

// A package that adds to Parley works with the Broker's store, log and life.
func ExampleBroker_Go() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	done := make(chan struct{})
	b.Go(func(background context.Context) {
		defer close(done)
		<-background.Done() // the Broker is closed
		b.Logger().Info("audit: over", "owner", b.Options().Owner)
	})
	must(b.InTx(ctx, func(tx *parley.Tx) error { return audit(ctx, tx, "shop") }))
	must(b.Close())
	<-done
	fmt.Println(b.Context().Err(), b.Go(func(context.Context) {}))

	var e *parley.Error
	err := parley.WrapError("audit", "queue \"shop\"", parley.ErrClosed)
	fmt.Println(errors.As(err, &e), err)
	// Output:
	// context canceled false
	// true parley: audit: queue "shop": the broker is closed
}
