package workertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/proxy"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// Mute closes a Broker whose server has stopped answering, beside a worker, transactions that rest
// and statements that are under way, and all have contexts that do not end.
func Mute(t *testing.T, p *proxy.Proxy, through backend.Backend) {
	const each = 6
	ctx := t.Context()
	b := sure.Of(parley.New(ctx, through, nil))
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mute"}, {Name: "effects"}}}); err != nil {
		t.Fatal(err)
	}
	for range each {
		sure.Of(b.Post(ctx, "mute", parley.Payload{}))
	}
	var begun, over sync.WaitGroup
	begun.Add(3 * each)
	mute := make(chan struct{})
	w := sure.Of(b.NewWorker("mute", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		begun.Done()
		if err != nil {
			return err
		}
		<-mute
		_, err = tx.Post(ctx, "effects", parley.Payload{})
		return err
	}), &parley.WorkerOptions{MaxReaders: each}))
	over.Go(func() { w.Run(context.Background()) })
	rest := make(chan struct{})
	for i := range 2 * each {
		over.Go(func() {
			b.InTx(context.Background(), func(tx *parley.Tx) error {
				_, err := tx.Post(context.Background(), "effects", parley.Payload{})
				begun.Done()
				if <-mute; i%2 == 0 {
					<-rest
				}
				if err == nil {
					_, err = tx.Post(context.Background(), "effects", parley.Payload{})
				}
				return err
			})
		})
	}
	begun.Wait()
	p.Set(true, 0)
	close(mute)
	began := time.Now()
	closed := make(chan struct{})
	go func() { defer close(closed); b.Close() }()
	select {
	case <-closed:
		t.Logf("closed after %v", time.Since(began).Round(100*time.Millisecond))
	case <-time.After(slow.By(15 * time.Second)):
		t.Errorf("a Broker beside a server that does not answer is not closed after %v, and has twelve seconds", time.Since(began))
	}
	close(rest)
	p.Cut() // ends what is left
	over.Wait()
	<-closed
}
