package parley_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

// What is written in the delivery's transaction commits with the acknowledgement.
func ExampleDelivery_Tx() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)

	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	defer d.Close()
	tx, err := d.Tx(d.Context())
	must(err)
	_, err = tx.SQL().ExecContext(ctx, `CREATE TABLE orders (body TEXT)`)
	must(err)
	_, err = tx.SQL().ExecContext(ctx, `INSERT INTO orders VALUES (?)`, d.Messages[0].Body)
	must(err)
	must(d.Ack(ctx))
	// Output:
}

func ExampleDelivery_Return() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for _, name := range []string{"a", "b", "c"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(name)}, parley.Key("k"))
		must(err)
	}

	d, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{MaxMessages: 1})
	must(err)
	more, err := d.More(ctx, 1)
	must(err)
	fmt.Printf("%s, then %s\n", d.Messages[0].Body, more[0].Body)
	must(d.Return(ctx)) // the group stays ours
	again, err := d.More(ctx, 10)
	must(err)
	fmt.Printf("again from %s, %d messages\n", again[0].Body, len(again))
	must(d.Ack(ctx))
	// Output:
	// a, then b
	// again from a, 3 messages
}

func ExampleDelivery_Defer() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)

	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	must(d.Defer(ctx, 10*time.Millisecond)) // later, please
	d, err = b.Receive(ctx, "billing", &parley.ReceiveOptions{Wait: 5 * time.Second})
	must(err)
	must(d.Rollback(ctx)) // at once, for another receiver
	d, err = b.Receive(ctx, "billing", nil)
	must(err)
	fmt.Printf("%s\n", d.Messages[0].Body)
	must(d.Ack(ctx))
	// Output: {"item": 1}
}

// RECEIVE as a statement, in the caller's own transaction: the messages are
// taken when it commits.
func ExampleTx_Receive() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)

	err := b.InTx(ctx, func(tx *parley.Tx) error {
		group, err := tx.GetGroup(ctx, "billing", nil)
		if err != nil {
			return err
		}
		must(tx.Savepoint(ctx, "before"))
		messages, err := tx.Receive(ctx, "billing", &parley.ReceiveOptions{Group: group})
		if err != nil {
			return err
		}
		fmt.Println(len(messages), "message")
		must(tx.RollbackTo(ctx, "before")) // back in the queue, the group still ours
		messages, err = tx.Receive(ctx, "billing", &parley.ReceiveOptions{Group: group})
		if err != nil {
			return err
		}
		fmt.Println(len(messages), "message")
		return tx.Release(ctx, "before")
	})
	fmt.Println(err)
	_, err = b.Receive(ctx, "billing", nil)
	fmt.Println(errors.Is(err, parley.ErrNoMessage))
	// Output:
	// 1 message
	// 1 message
	// <nil>
	// true
}

// A second transaction within a first one would wait for it for ever on a store
// with a single writer. Marked, it fails instead.
func ExampleTx_Context() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		if _, err := tx.Post(ctx, "mail", parley.Payload{Body: []byte("1")}); err != nil {
			return err
		}
		_, err := b.Post(tx.Context(ctx), "mail", parley.Payload{Body: []byte("2")})
		fmt.Println(errors.Is(err, parley.ErrWouldDeadlock))
		return nil
	}))
	// Output: true
}

// What a program that does not use Broker.Retry asks after an error.
func ExampleIsRetryable() {
	fmt.Println(parley.IsRetryable(parley.ErrSerialization), parley.IsRetryable(parley.ErrConnection))
	// Output: true false
}

func ExampleBroker_Retry() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	runs := 0
	err := b.Retry(ctx, func(tx *parley.Tx) error {
		if _, err := tx.Post(ctx, "mail", parley.Payload{Body: []byte("hello")}); err != nil {
			return err
		}
		if runs++; runs < 3 {
			return parley.ErrSerialization // as if another transaction had been in the way
		}
		return nil
	})
	queues, _ := b.Admin().Queues(ctx, "mail")
	fmt.Println(err, runs, "runs,", queues[0].Depth, "message")
	// Output: <nil> 3 runs, 1 message
}

// Errors name the verb and the object, and say what to do.
func ExampleError() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	_, err := b.Receive(ctx, "biling", nil)
	fmt.Println(errors.Is(err, parley.ErrUnknownQueue))
	if e := new(parley.Error); errors.As(err, &e) {
		fmt.Println(e.Op, e.Object, errors.Is(e.Unwrap(), parley.ErrUnknownQueue), e.Error() != "")
	}
	// Output:
	// true
	// receive queue "biling" true true
}
