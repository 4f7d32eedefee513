package parley_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
)

// The catalog and the bodies of sends, serve and receives stand in README.md; TestReadme compares them.

var catalog = parley.Catalog{
	Types: []parley.MessageType{{Name: "Order", Validation: parley.ValidationJSON}, {Name: "Confirmation"}},
	Contracts: []parley.Contract{{Name: "Orders", Messages: []parley.ContractEntry{
		{Type: "Order", SentBy: parley.ByInitiator}, {Type: "Confirmation", SentBy: parley.ByTarget}}}},
	Queues: []parley.Queue{{Name: "shop"}, {Name: "billing"}},
	Services: []parley.Service{{Name: "Shop", Queue: "shop"},
		{Name: "Billing", Queue: "billing", Contracts: []string{"Orders"}}},
}

func sends(ctx context.Context) error {
	b, err := parley.Open(ctx, "sqlite:app.db", nil) // or postgres://…, mysql://…, or parley.New with a pool of yours
	if err != nil {
		return err
	}
	defer b.Close()
	if err := errors.Join(b.Migrate(ctx), b.Define(ctx, catalog)); err != nil { // many processes may start at once
		return err
	}
	return b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"})
		if err != nil {
			return err
		}
		return c.Send(ctx, "Order", []byte(`{"item": 7}`)) // tx.SQL() runs statements of your own
	})
}

func receives(ctx context.Context, b *parley.Broker) error {
	d, err := b.Receive(ctx, "billing", &parley.ReceiveOptions{Wait: time.Second})
	if err != nil {
		return err
	}
	defer d.Close()
	for _, m := range d.Messages { // no other receiver has this conversation until the delivery is settled
		if err := m.Reply(ctx, "Confirmation", []byte("thanks")); err != nil {
			return err
		}
		if err := m.End(ctx); err != nil { // the target ends first; the shop hears of it, and ends its side
			return err
		}
	}
	return d.Ack(ctx) // the replies commit with the acknowledgement
}

// Example_readme runs what README.md shows.
func Example_readme() {
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	defer os.RemoveAll(dir)
	before, err := os.Getwd()
	must(err)
	must(os.Chdir(dir)) // examples run one after another
	defer os.Chdir(before)

	ctx := context.Background()
	must(sends(ctx))
	b, err := parley.Open(ctx, "sqlite:app.db", nil)
	must(err)
	defer b.Close()
	must(receives(ctx, b))
	d, err := b.Receive(ctx, "shop", nil)
	must(err)
	defer d.Close()
	for _, m := range d.Messages {
		if m.Type == parley.EndDialog {
			must(m.End(ctx))
			continue
		}
		fmt.Printf("%s: %s\n", m.Type, m.Body)
	}
	must(d.Ack(ctx))
	left, err := b.Admin().Conversations(ctx, parley.ConversationQuery{})
	must(err)
	fmt.Println(len(left), "conversations left")
	// Output:
	// Confirmation: thanks
	// 0 conversations left
}

func serve(ctx context.Context, b *parley.Broker) error {
	mux := parley.NewMux()
	parley.Handle(mux, Order, func(ctx context.Context, m *parley.Message, o OrderRequest) error {
		fmt.Println("item", o.Item)
		if err := m.Reply(ctx, "Confirmation", nil); err != nil { // m.Tx is the transaction of the acknowledgement
			return err
		}
		return m.End(ctx) // the shop's Mux hears of it and ends the other side
	}) // Order is parley.Type[OrderRequest]("Order", parley.JSON)
	worker, err := b.NewWorker("billing", mux, &parley.WorkerOptions{MaxReaders: 10})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// ExampleHandle runs the worker that README.md shows.
func ExampleHandle() {
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 7}`)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- serve(ctx, b) }()
	d, err := b.Receive(ctx, "shop", &parley.ReceiveOptions{Wait: -1})
	must(err)
	must(d.Ack(ctx))
	stop()
	must(<-served)
	// Output: item 7
}

// Order is a message type with the Go type of its body.
var Order = parley.Type[OrderRequest]("Order", parley.JSON)

// OrderRequest is the body of an Order.
type OrderRequest struct {
	Item int `json:"item"`
}

// TestReadme: the code in README.md is that of this file.
func TestReadme(t *testing.T) {
	plain := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			lines[i] = strings.TrimLeft(line, "\t")
		}
		return strings.Join(lines, "\n")
	}
	here, blocks := plain("example_readme_test.go"), strings.Split(plain("README.md"), "```go\n")[1:]
	if len(blocks) != 4 {
		t.Errorf("README.md has %d blocks of code, want 4", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(here, code) {
			t.Errorf("not the code of this file:\n%s", code)
		}
	}
}
