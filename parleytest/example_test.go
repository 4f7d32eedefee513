package parleytest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/parleytest"
	"github.com/parleymq/parley/recurring"
)

// The messages of a shop.
type (
	OrderPlaced struct{ ID, Item string }
	Receipt     struct{ Order string }
)

var (
	Placed   = parley.Type[OrderPlaced]("OrderPlaced", parley.JSON)
	Receipts = parley.Type[Receipt]("Receipt", parley.JSON)
)

// placeOrder is a handler. It writes a row of the application's, and posts what comes next, in one transaction.
func placeOrder(ctx context.Context, m *parley.Message, o OrderPlaced) error {
	tx, err := m.Tx(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.SQL().ExecContext(ctx, "INSERT INTO orders (id, item) VALUES (?, ?)", o.ID, o.Item); err != nil {
		return err
	}
	_, err = Receipts.Post(ctx, tx, "mail", Receipt{Order: o.ID}, parley.Key(o.ID), parley.After(time.Hour))
	return err
}

// A handler writes a row and posts a message. In a test, t is its *testing.T.
func Example() {
	t, end := newT()
	defer end()
	file := filepath.Join(t.TempDir(), "shop.db")
	kit := parleytest.New(t, parleytest.Store("sqlite:"+file),
		parleytest.Queues("orders", "mail"), parleytest.Types("OrderPlaced", "Receipt"))
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)")
	must(err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT)")
	must(err)
	mux := parley.NewMux()
	parley.Handle(mux, Placed, placeOrder)

	m := parleytest.Message(t, Placed, OrderPlaced{ID: "7", Item: "tea"})
	m.Queue = "orders"
	kit.LoseCommit(false) // the connection breaks during the commit, which has not happened
	fmt.Println(kit.Handle(mux, m).Outcome)
	kit.AssertNotPosted("mail")

	fmt.Println(kit.Handle(mux, m).Outcome) // the message comes again
	receipt, sent := parleytest.RequirePosted(kit, "mail", Receipts, parleytest.Key("7"))
	fmt.Println(receipt.Order, sent.State)

	kit.Advance(time.Hour)
	for _, s := range kit.Posted("mail") {
		fmt.Println(s.Type, s.State)
	}
	var rows int
	must(db.QueryRow("SELECT count(*) FROM orders").Scan(&rows))
	fmt.Println(rows, "row")
	// Output:
	// not committed
	// acknowledged
	// 7 delayed
	// Receipt ready
	// 1 row
}

// A handler that fails is tried again later, and the clock moves on command.
func ExampleKit_Advance() {
	t, end := newT()
	defer end()
	kit := parleytest.New(t, parleytest.Queues("orders"), parleytest.Types("OrderPlaced"),
		parleytest.WorkerOptions(parley.WorkerOptions{
			MaxAttempts: 3,
			Backoff:     func(attempt int) time.Duration { return time.Duration(attempt) * time.Minute },
			Poison:      parley.ActionDeadLetter,
		}))
	mux := parley.NewMux()
	parley.Handle(mux, Placed, func(ctx context.Context, m *parley.Message, o OrderPlaced) error {
		return errors.New("the warehouse does not answer")
	})

	parleytest.Post(kit, "orders", Placed, OrderPlaced{ID: "7"})
	for range 3 {
		r := kit.Work(mux, "orders")
		fmt.Println(r)
		kit.Advance(r.Retry)
	}
	// Output:
	// retried in 1m0s, attempts: 1: the warehouse does not answer
	// retried in 2m0s, attempts: 2: the warehouse does not answer
	// dead letter: the warehouse does not answer
}

// A service answers on a conversation.
func ExampleKit_Handle() {
	t, end := newT()
	defer end()
	kit := parleytest.New(t, parleytest.Catalog(parley.Catalog{
		Types: []parley.MessageType{{Name: "OrderPlaced"}, {Name: "Receipt"}},
		Contracts: []parley.Contract{{Name: "Orders", Messages: []parley.ContractEntry{
			{Type: "OrderPlaced", SentBy: parley.ByInitiator}, {Type: "Receipt", SentBy: parley.ByTarget}}}},
		Queues: []parley.Queue{{Name: "shop"}, {Name: "billing"}},
		Services: []parley.Service{{Name: "Shop", Queue: "shop"},
			{Name: "Billing", Queue: "billing", Contracts: []string{"Orders"}}},
	}))
	mux := parley.NewMux()
	parley.Handle(mux, Placed, func(ctx context.Context, m *parley.Message, o OrderPlaced) error {
		p, err := Receipts.Encode(Receipt{Order: o.ID})
		if err != nil {
			return err
		}
		if err := m.Reply(ctx, p.Type, p.Body); err != nil {
			return err
		}
		return m.End(ctx)
	})

	m := parleytest.Message(t, Placed, OrderPlaced{ID: "7"})
	m.Service, m.FarService, m.Contract = "Billing", "Shop", "Orders"
	r := kit.Handle(mux, m)
	fmt.Println(r.Outcome, "with", len(r.Sent), "messages:", r.Sent[0])

	receipt, _ := parleytest.RequirePosted(kit, "shop", Receipts, parleytest.From("Billing"))
	fmt.Println("the shop has the receipt of order", receipt.Order)
	// Output:
	// acknowledged with 2 messages: Receipt {"Order":"7"}, queue "shop", from "Billing", to "Shop"
	// the shop has the receipt of order 7
}

// A recurring job posts at its due times, and a worker handles what it has posted.
func ExampleKit_Drain() {
	t, end := newT()
	defer end()
	ctx := t.Context()
	kit := parleytest.New(t, parleytest.Queues("billing"), parleytest.Types("SendInvoices"))
	must(recurring.Define(ctx, kit.Broker, recurring.Job{
		Name: "invoices", Queue: "billing", Type: "SendInvoices", Cron: "30 2 * * *"}))
	mux := parley.NewMux()
	mux.HandleFunc("SendInvoices", func(ctx context.Context, m *parley.Message) error {
		fmt.Println("invoices at", recurring.DueTime(m).Format("15:04"))
		return nil
	})

	kit.Advance(48 * time.Hour)
	fmt.Println(kit.Drain(ctx, mux, "billing"), "messages handled")
	// Output:
	// invoices at 02:30
	// invoices at 02:30
	// 2 messages handled
}

// Faults show whether a handler is safe to repeat.
func ExampleKit_FailCommit() {
	t, end := newT()
	defer end()
	kit := parleytest.New(t, parleytest.Queues("orders"), parleytest.Types("OrderPlaced"))
	charged := 0
	mux := parley.NewMux()
	parley.Handle(mux, Placed, func(ctx context.Context, m *parley.Message, o OrderPlaced) error {
		charged++ // an effect outside the database
		_, err := m.Tx(ctx)
		return err
	})
	m := parleytest.Message(t, Placed, OrderPlaced{ID: "7"})
	m.Queue = "orders"

	kit.FailCommit(nil) // another transaction was in the way
	fmt.Println(kit.Handle(mux, m).Outcome)
	kit.LoseLease()
	fmt.Println(kit.Handle(mux, m).Outcome)
	fmt.Println(kit.Handle(mux, m).Outcome)
	fmt.Println("charged", charged, "times")

	kit.FailSend(parley.ErrQueueDisabled)
	_, err := kit.Broker.Post(t.Context(), "orders", parley.Payload{Type: "OrderPlaced"})
	fmt.Println(errors.Is(err, parley.ErrQueueDisabled))
	err = kit.Broker.InTx(t.Context(), func(tx *parley.Tx) error {
		kit.BreakConnections()
		return nil
	})
	fmt.Println(errors.Is(err, parley.ErrConnection))
	// Output:
	// not committed
	// lease lost
	// acknowledged
	// charged 3 times
	// true
	// true
}

// Options choose the store, and how handlers are run. The same test can use a store that is open.
func ExampleNew() {
	t, end := newT()
	defer end()
	b, err := parley.Open(t.Context(), "memory:", nil)
	must(err)
	defer b.Close()

	file := "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	for _, store := range []parleytest.Option{parleytest.Store(file), parleytest.Use(b)} {
		kit := parleytest.New(t, store,
			parleytest.Queues("orders"), parleytest.Types("OrderPlaced"),
			parleytest.BrokerOptions(parley.Options{Owner: "the test"}),
			parleytest.WorkerOptions(parley.WorkerOptions{MaxAttempts: 3}),
			parleytest.DrainLimit(100))
		parleytest.Post(kit, "orders", Placed, OrderPlaced{ID: "7"}, parley.Unique("7"))
		kit.AssertPosted("orders", parleytest.Unique("7"), parleytest.After(0),
			parleytest.Value(Placed, OrderPlaced{ID: "7"}),
			parleytest.Where("at its first attempt", func(s parleytest.Sent) bool { return s.Attempt == 1 }))
		if err := kit.CanAdvance(); err != nil {
			fmt.Println(errors.Is(err, parleytest.ErrServerClock))
			continue
		}
		kit.Advance(time.Hour)
		fmt.Println("an hour ahead:", time.Until(kit.Now()).Round(time.Minute))
	}
	// Output:
	// an hour ahead: 1h0m0s
	// true
}

// A handler that needs no transaction is called with a message made by hand.
func ExampleMessage() {
	t, end := newT()
	defer end()
	h := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		o, err := Placed.Decode(m)
		if err != nil {
			return parley.Poison(err)
		}
		fmt.Println("order of", o.Item)
		return nil
	})
	fmt.Println(h.HandleMessage(t.Context(), parleytest.Message(t, Placed, OrderPlaced{Item: "tea"})))

	_, err := parleytest.Message(t, Placed, OrderPlaced{}).Tx(t.Context())
	fmt.Println(errors.Is(err, parley.ErrNotReceived))
	// Output:
	// order of tea
	// <nil>
	// true
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
