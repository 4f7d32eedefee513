package parley_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/sqlite"
)

// shop opens a broker on a temporary SQLite file, with a shop that sends orders
// to a billing service. The examples start from it.
func shop() (b *parley.Broker, cleanup func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	b, err = parley.Open(ctx, "sqlite:"+filepath.Join(dir, "shop.db"), nil)
	must(err)
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{
		Types: []parley.MessageType{{Name: "Order", Validation: parley.ValidationJSON}, {Name: "Confirmation"}},
		Contracts: []parley.Contract{{Name: "Orders", Messages: []parley.ContractEntry{
			{Type: "Order", SentBy: parley.ByInitiator},
			{Type: "Confirmation", SentBy: parley.ByTarget},
		}}},
		Queues: []parley.Queue{{Name: "shop"}, {Name: "billing"}, {Name: "mail"}},
		Services: []parley.Service{
			{Name: "Shop", Queue: "shop"},
			{Name: "Billing", Queue: "billing", Contracts: []string{"Orders"}, FarPromotion: 100},
		},
	}))
	return b, func() {
		b.Close()
		os.RemoveAll(dir)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// order begins a conversation with one order on it.
func order(b *parley.Broker, body string) (handle parley.ID) {
	ctx := context.Background()
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"})
		if err != nil {
			return err
		}
		handle = c.Handle()
		return c.Send(ctx, "Order", []byte(body))
	}))
	return handle
}

func Example() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	// The shop asks.
	order(b, `{"item": 7}`)

	// Billing answers, and ends its side.
	d, err := b.Receive(ctx, "billing", &parley.ReceiveOptions{Wait: time.Second})
	must(err)
	defer d.Close()
	for _, m := range d.Messages {
		fmt.Printf("billing: %s %s\n", m.Type, m.Body)
		must(m.Reply(ctx, "Confirmation", []byte("thanks")))
		must(m.End(ctx))
	}
	must(d.Ack(ctx))

	// The shop reads the answer and ends its side too.
	d, err = b.Receive(ctx, "shop", &parley.ReceiveOptions{Wait: time.Second})
	must(err)
	defer d.Close()
	for _, m := range d.Messages {
		switch m.Type {
		case "Confirmation":
			fmt.Printf("shop: %s\n", m.Body)
		case parley.EndDialog:
			fmt.Println("shop: the other side has ended")
			must(m.End(ctx))
		}
	}
	must(d.Ack(ctx))

	left, err := b.Admin().Conversations(ctx, parley.ConversationQuery{})
	must(err)
	fmt.Println("conversations left:", len(left))
	// Output:
	// billing: Order {"item": 7}
	// shop: thanks
	// shop: the other side has ended
	// conversations left: 0
}

func ExampleBroker_Receive() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)

	for {
		d, err := b.Receive(ctx, "billing", nil)
		if errors.Is(err, parley.ErrNoMessage) {
			fmt.Println("nothing more")
			return
		}
		must(err)
		fmt.Printf("%d message: %s\n", len(d.Messages), d.Messages[0].Body)
		must(d.Ack(ctx))
	}
	// Output:
	// 1 message: {"item": 1}
	// nothing more
}

func ExampleBroker_InTx() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	err := b.InTx(ctx, func(tx *parley.Tx) error {
		if _, err := tx.Post(ctx, "mail", parley.Payload{Body: []byte("hello")}); err != nil {
			return err
		}
		return errors.New("something else went wrong")
	})
	fmt.Println(err)
	_, err = b.Receive(ctx, "mail", nil)
	fmt.Println("in the queue:", err)
	// Output:
	// something else went wrong
	// in the queue: no message
}

// A transaction that the program began itself: on SQLite it has to take the write lock
// at its start.
func ExampleBroker_Join() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)")
	must(err)
	defer db.Close()
	b, err := parley.New(ctx, sqlite.New(db, nil), nil)
	must(err)
	defer b.Close()
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))

	tx, err := db.BeginTx(ctx, nil)
	must(err)
	_, err = tx.ExecContext(ctx, `CREATE TABLE customers (name TEXT)`)
	must(err)
	_, err = b.Join(tx).Post(ctx, "mail", parley.Payload{Body: []byte("welcome")})
	must(err)
	must(tx.Commit())

	d, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{Wait: time.Second})
	must(err)
	fmt.Printf("%s\n", d.Messages[0].Body)
	must(d.Ack(ctx))
	// Output: welcome
}

func ExampleTx_Post() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		mail := parley.Payload{Body: []byte("your order")}
		if _, err := tx.Post(ctx, "mail", mail, parley.Key("customer-42")); err != nil {
			return err
		}
		_, err := tx.Post(ctx, "mail", mail, parley.Unique("daily-report"), parley.After(time.Hour))
		return err
	}))
	queues, err := b.Admin().Queues(ctx, "mail")
	must(err)
	fmt.Println("ready:", queues[0].Depth, "delayed:", queues[0].Delayed)
	// Output: ready: 1 delayed: 1
}

// A report is posted once, however often it is asked for before it is written.
func ExampleUnique() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	for range 2 {
		var again bool
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("report")}, parley.Unique("daily-report"), parley.Duplicate(&again))
		must(err)
		fmt.Println("asked for already:", again)
	}
	// Output:
	// asked for already: false
	// asked for already: true
}

// A reminder is posted once a day, however often it is asked for. Its handler posts that of the next day.
func ExampleUniquePer() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	remind := func(ctx context.Context, tx *parley.Tx, o ...parley.PostOption) {
		var again bool
		o = append(o, parley.UniquePer("reminder", 24*time.Hour), parley.Duplicate(&again))
		_, err := tx.Post(ctx, "mail", parley.Payload{Body: []byte("reminder")}, o...)
		must(err)
		fmt.Println("asked for already:", again)
	}
	tomorrow := parley.After(24 * time.Hour)
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		remind(ctx, tx, tomorrow)
		remind(ctx, tx, tomorrow)
		remind(ctx, tx, parley.After(48*time.Hour))
		return nil
	}))
	// Output:
	// asked for already: false
	// asked for already: true
	// asked for already: false
}

func ExampleConversation_Promote() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)
	urgent := order(b, `{"item": 2}`)

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		return tx.Conversation(urgent).Promote(ctx, parley.PromoteLevel(50))
	}))
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	defer d.Close()
	fmt.Printf("%s, promoted to %d\n", d.Messages[0].Body, d.Level)
	// Output: {"item": 2}, promoted to 50
}

func ExampleReceiveOptions_choose() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)
	order(b, `{"item": 2}`)

	d, err := b.Receive(ctx, "billing", &parley.ReceiveOptions{
		Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (last parley.ID, ok bool) {
			for g := range groups {
				last, ok = g.Group, true
			}
			return last, ok
		},
	})
	must(err)
	defer d.Close()
	fmt.Printf("%s\n", d.Messages[0].Body)
	// Output: {"item": 2}
}

func ExampleDelivery_Park() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 1}`)

	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	must(d.Park(ctx, errors.New("no such item")))

	groups, err := b.Admin().Groups(ctx, "billing", parley.Place{}, 10)
	must(err)
	fmt.Println(groups[0].State, "-", groups[0].Reason)
	must(b.Admin().Unpark(ctx, groups[0].Group))
	d, err = b.Receive(ctx, "billing", &parley.ReceiveOptions{Wait: time.Second})
	must(err)
	fmt.Printf("%s\n", d.Messages[0].Body)
	must(d.Ack(ctx))
	// Output:
	// parked - no such item
	// {"item": 1}
}

func ExampleType() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	type request struct{ Item int }
	var Order = parley.Type[request]("Order", parley.JSON)

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"})
		if err != nil {
			return err
		}
		return Order.Send(ctx, c, request{Item: 9})
	}))
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	defer d.Close()
	v, err := Order.Decode(d.Messages[0])
	must(err)
	fmt.Println(v.Item)
	// Output: 9
}
