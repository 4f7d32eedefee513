package parley_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parleymq/parley"
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	defer os.RemoveAll(dir)

	b, err := parley.Open(ctx, "sqlite:"+filepath.Join(dir, "app.db"), nil)
	must(err)
	defer b.Close()
	must(b.Migrate(ctx)) // at every start, in every process
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))

	c, err := b.Catalog(ctx)
	must(err)
	for _, q := range c.Queues {
		fmt.Println(q.Name)
	}
	info, err := b.Info(ctx)
	must(err)
	fmt.Println(info.Engine, b.Backend() != nil)
	// Output:
	// mail
	// sqlite true
}

func ExampleAdmin_DisableQueue() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	must(b.Admin().DisableQueue(ctx, "billing"))
	order(b, `{"item": 1}`) // is kept by the sender's side
	_, err := b.Receive(ctx, "billing", nil)
	fmt.Println(errors.Is(err, parley.ErrQueueDisabled))
	withheld, err := b.Admin().Withheld(ctx, parley.ID{}, 10)
	must(err)
	fmt.Println(len(withheld), "conversation waits")

	must(b.Admin().EnableQueue(ctx, "billing"))
	d, err := b.Receive(ctx, "billing", &parley.ReceiveOptions{Wait: -1})
	must(err)
	fmt.Printf("%s\n", d.Messages[0].Body)
	must(d.Ack(ctx))
	// Output:
	// true
	// 1 conversation waits
	// {"item": 1}
}

func ExampleAdmin_Groups() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)
	order(b, `{"item": 2}`)

	groups, err := b.Admin().Groups(ctx, "billing", parley.Place{}, 10)
	must(err)
	must(b.Promote(ctx, groups[1].Group, parley.PromoteLevel(200), parley.Sticky()))
	groups, err = b.Admin().Groups(ctx, "billing", parley.Place{}, 10)
	must(err)
	for _, g := range groups {
		fmt.Println(g.State, g.Messages, "message, promoted:", g.Promoted)
	}
	must(b.Demote(ctx, groups[0].Group))
	must(b.InTx(ctx, func(tx *parley.Tx) error { // the same in a transaction
		if err := tx.Promote(ctx, groups[1].Group); err != nil {
			return err
		}
		return tx.Demote(ctx, groups[1].Group)
	}))
	// Output:
	// ready 1 message, promoted: true
	// ready 1 message, promoted: false
}

func ExampleAdmin_GroupsIn() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for i := range 3 {
		order(b, fmt.Sprintf(`{"item": %d}`, i))
	}

	var after parley.Place
	for {
		page, err := b.Admin().GroupsIn(ctx, "billing", "ready", after, 2)
		must(err)
		if len(page) == 0 {
			break
		}
		fmt.Println(len(page), page[0].State)
		after = page[len(page)-1].Place
	}

	groups, err := b.Admin().Groups(ctx, "billing", parley.Place{}, 1)
	must(err)
	g, err := b.Admin().Group(ctx, "billing", groups[0].Group)
	must(err)
	fmt.Println(g.Messages, "message")
	// Output:
	// 2 ready
	// 1 ready
	// 1 message
}

func ExampleBroker_PromoteKey() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for _, customer := range []string{"ann", "ben", "ben", "ben"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("to " + customer)}, parley.Key(customer))
		must(err)
	}
	must(b.PromoteKey(ctx, "mail", "ben")) // all three of them, in their order

	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	fmt.Println(len(d.Messages), "messages, the first", string(d.Messages[0].Body))
	must(d.Ack(ctx))
	fmt.Println(errors.Is(b.PromoteKey(ctx, "mail", "eve"), parley.ErrUnknownGroup))
	// Output:
	// 3 messages, the first to ben
	// true
}

func ExampleAdmin_Retained() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "shop", Retention: true}}}))
	handle := order(b, `{"item": 1}`)

	kept, err := b.Admin().Retained(ctx, handle)
	must(err)
	for _, m := range kept {
		fmt.Printf("%s %s, sent: %t\n", m.Message.Type, m.Message.Body, m.Sent)
	}
	// Output: Order {"item": 1}, sent: true
}

// What customers of one region wait for goes first.
func ExampleAdmin_PromoteWhere() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for _, customer := range []string{"us/ann", "eu/ben", "us/cid", "eu/dan"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("to " + customer)}, parley.Key(customer))
		must(err)
	}
	n, err := b.Admin().PromoteWhere(ctx, "mail", func(g parley.GroupStatus) bool {
		return strings.HasPrefix(g.Key, "eu/") && g.State == "ready"
	}, parley.PromoteLevel(200))
	must(err)

	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	fmt.Println(n, "promoted, the first message", string(d.Messages[0].Body))
	must(d.Ack(ctx))
	// Output: 2 promoted, the first message to eu/ben
}

// Messages that can never be delivered, with the reason.
func ExampleAdmin_DeadLetters() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	refused := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		return parley.DeadLetter(errors.New("no such address"))
	})
	_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("welcome"), Headers: map[string]string{"tenant": "7"}})
	must(err)
	worker, err := b.NewWorker("mail", refused, nil)
	must(err)
	must(worker.Drain(ctx))

	dead, err := b.Admin().DeadLetters(ctx, "", parley.Place{}, 100)
	must(err)
	for _, d := range dead {
		fmt.Printf("%s: %s, tenant %s: %s\n", d.Queue, d.Message.Body, d.Message.Headers["tenant"], d.Reason)
	}
	// Output: mail: welcome, tenant 7: no such address
}

// A list of many, whose bodies are not needed.
func ExampleAdmin_DeadSummaries() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	dead, err := b.Admin().DeadSummaries(ctx, "", parley.Place{}, 1000)
	must(err)
	for _, d := range dead {
		fmt.Println(d.Message.ID, d.Bytes, d.Reason)
	}
	// Output:
}

// Where the messages of an order are, by a header, without receiving any.
func ExampleAdmin_Waiting() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	for _, order := range []string{"4711", "4712"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Headers: map[string]string{"order": order}}, parley.Key("ann"))
		must(err)
	}
	for after := (parley.Place{}); ; {
		page, err := b.Admin().Waiting(ctx, after, 1000)
		must(err)
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			if after = m.Place; m.Headers["order"] == "4712" {
				fmt.Println(m.State, "in", m.Queue)
			}
		}
	}
	// Output: waiting in mail
}

// IDs sort by the time at which they were made.
func ExampleParseID() {
	a, z := parley.NewID(), parley.NewID()
	same, err := parley.ParseID(a.String())
	must(err)
	fmt.Println(same == a, a.String() < z.String())
	// Output: true true
}
