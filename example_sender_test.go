package parley_test

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

// audited adds to the shop an audit log that it writes to on recycled dialogs.
func audited(b *parley.Broker) {
	must(b.Define(context.Background(), parley.Catalog{
		Types:     []parley.MessageType{{Name: "Entry", Validation: parley.ValidationJSON}},
		Contracts: []parley.Contract{{Name: "Audit", Messages: []parley.ContractEntry{{Type: "Entry", SentBy: parley.ByInitiator}}}},
		Queues:    []parley.Queue{{Name: "audit"}, {Name: "audited"}},
		Services: []parley.Service{
			{Name: "AuditLog", Queue: "audit", Contracts: []string{"Audit"}},
			{Name: "Audited", Queue: "audited", Recycles: []parley.Recycle{{Contract: "Audit", Ordered: true}}},
		},
	}))
}

func ExampleSender() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	audited(b)
	type entry struct{ Who, What string }
	Entry := parley.Type[entry]("Entry", parley.JSON)

	log, err := b.NewSender(ctx, &parley.SenderOptions{From: "Audited", To: "AuditLog", Contract: "Audit", MaxAge: 10 * time.Minute})
	must(err)
	for _, what := range []string{"signed in", "bought a book", "signed out"} {
		// In the transaction that does it.
		must(b.InTx(ctx, func(tx *parley.Tx) error {
			return Entry.SendBy(ctx, log.Key("ann"), tx, entry{"ann", what})
		}))
	}

	// A Mux ends the conversation when EndOfStream comes.
	mux := parley.NewMux()
	parley.Handle(mux, Entry, func(_ context.Context, m *parley.Message, e entry) error {
		fmt.Println(e.Who, e.What, m.Seq)
		return nil
	})
	worker, err := b.NewWorker("audit", mux, nil)
	must(err)
	must(worker.Drain(ctx))
	// Output:
	// ann signed in 0
	// ann bought a book 1
	// ann signed out 2
}

func ExampleSender_SendBatch() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()
	audited(b)
	log, err := b.NewSender(ctx, &parley.SenderOptions{From: "Audited", To: "AuditLog", Contract: "Audit"})
	must(err)

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		if err := log.Send(ctx, tx, parley.Payload{Type: "Entry", Body: []byte("1")}); err != nil {
			return err
		}
		return log.SendBatch(ctx, tx, []parley.Payload{{Type: "Entry", Body: []byte("2")}, {Type: "Entry", Body: []byte("3")}})
	}))
	must(log.Close(ctx)) // it would also do later, by MaxAge

	d, err := b.Receive(ctx, "audit", nil)
	must(err)
	for _, m := range d.Messages {
		if m.Type == parley.EndOfStream {
			fmt.Println("that was all")
			must(m.End(ctx))
			continue
		}
		fmt.Printf("%s\n", m.Body)
	}
	must(d.Ack(ctx))
	// Output:
	// 1
	// 2
	// 3
	// that was all
}
