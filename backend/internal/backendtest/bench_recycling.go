package backendtest

import (
	"context"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// benchRecycling compares a Sender with one dialog for each message. It reports the messages that
// are sent in a second, with all that this side does until its dialogs are gone. It also reports
// the messages that a worker receives in a second, and both ratios of a Sender.
func benchRecycling(b *bencher) {
	ctx, br, must := b.ctx, b.broker, b.must
	must(br.Migrate(ctx))
	must(br.Define(ctx, parley.Catalog{
		Types:     []parley.MessageType{{Name: "Entry"}},
		Contracts: []parley.Contract{{Name: "Log", Messages: []parley.ContractEntry{{Type: "Entry", SentBy: parley.ByInitiator}}}},
		Queues:    []parley.Queue{{Name: "log"}, {Name: "one by one"}, {Name: "recycled"}},
		Services: []parley.Service{
			{Name: "Log", Queue: "log", Contracts: []string{"Log"}},
			{Name: "One by one", Queue: "one by one"},
			{Name: "Recycled", Queue: "recycled", Recycles: []parley.Recycle{{Contract: "Log"}}},
		},
	}))
	s, err := br.NewSender(ctx, &parley.SenderOptions{From: "Recycled", To: "Log", Contract: "Log"})
	must(err)
	entry := parley.Payload{Type: "Entry", Body: []byte(`{"who": "ann", "what": "signed in"}`)}
	const n = 500
	received := 0
	mux := parley.NewMux()
	mux.HandleFunc("Entry", func(ctx context.Context, m *parley.Message) error {
		received++
		if m.Service == "Log" && m.FarService == "One by one" {
			return m.End(ctx)
		}
		return nil
	})
	ends := parley.NewMux() // ends dialogs that their target has ended
	drain := func(queue string, mux *parley.Mux) func() {
		return func() { must(sure.Of(br.NewWorker(queue, mux, &parley.WorkerOptions{MaxReaders: 1})).Drain(ctx)) }
	}
	var send, receive [2]time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		send[0] += timed(func() {
			for range n {
				must(br.InTx(ctx, func(tx *parley.Tx) error {
					c, err := tx.Begin(ctx, "One by one", "Log", &parley.DialogOptions{Contract: "Log"})
					if err != nil {
						return err
					}
					return c.Send(ctx, entry.Type, entry.Body)
				}))
			}
		})
		receive[0] += timed(drain("log", mux))
		send[0] += timed(drain("one by one", ends))
		send[1] += timed(func() {
			for range n {
				must(br.InTx(ctx, func(tx *parley.Tx) error { return s.Send(ctx, tx, entry) }))
			}
			must(s.Close(ctx)) // renewed after n messages
		})
		receive[1] += timed(drain("log", mux))
		send[1] += timed(drain("recycled", ends))
	}
	if received != 2*n*rounds {
		b.Fatalf("%d messages received of %d", received, 2*n*rounds)
	}
	rate := func(d time.Duration) float64 { return float64(n*rounds) / d.Seconds() }
	b.ReportMetric(rate(send[0]), "sent/s-alone")
	b.ReportMetric(rate(send[1]), "sent/s-recycled")
	b.ReportMetric(rate(send[1])/rate(send[0]), "x-send")
	b.ReportMetric(rate(receive[0]), "received/s-alone")
	b.ReportMetric(rate(receive[1]), "received/s-recycled")
	b.ReportMetric(rate(receive[1])/rate(receive[0]), "x-receive")
}
