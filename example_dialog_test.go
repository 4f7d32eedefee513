package parley_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

func ExampleTx_Begin() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	// Two conversations in one group: one receiver at a time handles both.
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		first, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{
			Contract: "Orders",
			Lifetime: 24 * time.Hour,
		})
		if err != nil {
			return err
		}
		second, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{
			Contract:            "Orders",
			RelatedConversation: first.Handle(),
		})
		if err != nil {
			return err
		}
		a, err := first.Group(ctx)
		if err != nil {
			return err
		}
		z, err := second.Group(ctx)
		fmt.Println("one group:", a == z)
		return err
	}))
	// Output: one group: true
}

func ExampleConversation_Send() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"})
		if err != nil {
			return err
		}
		if err := c.Send(ctx, "Order", []byte(`{"item": 1}`)); err != nil {
			return err
		}
		err = c.Send(ctx, "Confirmation", nil) // which only Billing may send
		fmt.Println(errors.Is(err, parley.ErrTypeNotAllowed))
		return nil
	}))
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	fmt.Println(len(d.Messages), "message")
	must(d.Ack(ctx))
	// Output:
	// true
	// 1 message
}

// A send by itself needs the conversation's handle only, in any process.
func ExampleBroker_Send() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	handle := order(b, `{"item": 1}`)

	must(b.Send(ctx, handle, parley.Payload{Type: "Order", Body: []byte(`{"item": 2}`)}))
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	for _, m := range d.Messages {
		fmt.Println(m.Seq, string(m.Body))
	}
	must(d.Ack(ctx))
	// Output:
	// 0 {"item": 1}
	// 1 {"item": 2}
}

func ExampleBroker_BeginDialog() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	handle, err := b.BeginDialog(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"},
		parley.Payload{Type: "Order", Body: []byte(`{"item": 1}`)})
	must(err)
	must(b.Send(ctx, handle, parley.Payload{Type: "Order", Body: []byte(`{"item": 2}`)}))
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	for _, m := range d.Messages {
		fmt.Println(m.Seq, string(m.Body))
	}
	must(d.Ack(ctx))
	// Output:
	// 0 {"item": 1}
	// 1 {"item": 2}
}

// A program that has a handle can go on with the conversation, in any process.
func ExampleConversation_EndWithError() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	handle := order(b, `{"item": 1}`)

	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	c, err := d.Messages[0].On(ctx) // Billing's side, in the acknowledging transaction
	must(err)
	must(c.EndWithError(ctx, 17, "no such item"))
	must(d.Ack(ctx))

	d, err = b.Receive(ctx, "shop", nil)
	must(err)
	for _, m := range d.Messages {
		if e := m.Err(); e != nil {
			fmt.Println(m.Conversation == handle, e.Code, e.Text)
			must(m.End(ctx))
		}
	}
	must(d.Ack(ctx))
	// Output: true 17 no such item
}

func ExampleConversation_SetTimer() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	handle := order(b, `{"item": 1}`)

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		return tx.Conversation(handle).SetTimer(ctx, 10*time.Millisecond)
	}))
	d, err := b.Receive(ctx, "shop", &parley.ReceiveOptions{Wait: 5 * time.Second})
	must(err)
	fmt.Println(d.Messages[0].Type == parley.DialogTimer)
	must(d.Ack(ctx))
	// Output: true
}

func ExampleConversation_Move() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	first, second := order(b, `{"item": 1}`), order(b, `{"item": 2}`)

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		group, err := tx.Conversation(first).Group(ctx)
		if err != nil {
			return err
		}
		if err := tx.Conversation(second).Move(ctx, group); err != nil {
			return err
		}
		s, err := tx.Conversation(second).Status(ctx)
		if err != nil {
			return err
		}
		id, err := tx.Conversation(second).ID(ctx)
		if err != nil {
			return err
		}
		fmt.Println(s.Group == group, s.Conversation == id)
		return nil
	}))
	// Output: true true
}

// Cleanup is for administrators: the other side is not told.
func ExampleConversation_Cleanup() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	handle := order(b, `{"item": 1}`)

	must(b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).Cleanup(ctx) }))
	err := b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).End(ctx) })
	fmt.Println(errors.Is(err, parley.ErrNoConversation))
	// Output: true
}

func ExampleTx_SendBatch() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		var all []*parley.Conversation
		for range 2 {
			c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"})
			if err != nil {
				return err
			}
			all = append(all, c)
		}
		if err := tx.SendTo(ctx, all, "Order", []byte(`{"item": 1}`)); err != nil { // the same on both
			return err
		}
		return tx.SendBatch(ctx, []parley.Sending{
			{To: all[0], Payload: parley.Payload{Type: "Order", Body: []byte(`{"item": 2}`)}},
			{To: all[1], Payload: parley.Payload{Type: "Order", Body: []byte(`{"item": 3}`)}},
		})
	}))
	for range 2 {
		d, err := b.Receive(ctx, "billing", nil)
		must(err)
		for _, m := range d.Messages {
			fmt.Printf("%d %s\n", m.Seq, m.Body)
		}
		must(d.Ack(ctx))
	}
	// Output:
	// 0 {"item": 1}
	// 1 {"item": 2}
	// 0 {"item": 1}
	// 1 {"item": 3}
}

// A function that checks bodies is known by a name, which stands in the catalog;
// each process that sends registers the function itself.
func ExampleBroker_RegisterValidator() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	must(b.Define(ctx, parley.Catalog{
		Types:  []parley.MessageType{{Name: "Amount", Validation: parley.ValidationFunc, Validator: "amount"}},
		Queues: []parley.Queue{{Name: "payments"}},
	}))
	amount := parley.Payload{Type: "Amount", Body: []byte("12")}

	_, err := b.Post(ctx, "payments", amount)
	fmt.Println(errors.Is(err, parley.ErrNoValidator))
	b.RegisterValidator("amount", func(body []byte) error {
		if len(body) == 0 {
			return errors.New("an amount is missing")
		}
		return nil
	})
	_, err = b.Post(ctx, "payments", amount)
	fmt.Println(err)
	_, err = b.Post(ctx, "payments", parley.Payload{Type: "Amount"})
	fmt.Println(errors.Is(err, parley.ErrInvalidBody))
	// Output:
	// true
	// <nil>
	// true
}
