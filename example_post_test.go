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
	id, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("reminder")}, parley.After(time.Hour))
	must(err)

	p, err := b.PostStatus(ctx, "mail", id)
	must(err)
	fmt.Println(p.State)
	cancel := func(tx *parley.Tx) error { return tx.CancelPost(ctx, "mail", id) }
	fmt.Println(b.InTx(ctx, cancel))
	fmt.Println(errors.Is(b.InTx(ctx, cancel), parley.ErrNotPending))
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
