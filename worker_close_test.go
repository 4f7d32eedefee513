package parley_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/memstore"
	"github.com/parleymq/parley/internal/sure"
)

// TestCloseBesideHandler closes a Broker whose handler does not return, and goes on in its transaction meanwhile. The
// transaction is over then, and the message is free.
func TestCloseBesideHandler(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), memstore.NewStore(memstore.Options{})
	other, b := sure.Of(parley.New(ctx, store.Open(), nil)), sure.Of(parley.New(ctx, store.Open(), nil))
	defer other.Close()
	must(other.Migrate(ctx))
	must(other.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "work"}, {Name: "effects"}}}))
	sure.Of(other.Post(ctx, "work", parley.Payload{}))

	begun, ended := make(chan struct{}), make(chan error, 1)
	w := sure.Of(b.NewWorker("work", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		close(begun)
		for err == nil {
			time.Sleep(5 * time.Millisecond)
			_, err = tx.Post(context.Background(), "effects", parley.Payload{})
		}
		ended <- err
		return err
	}), nil))
	go w.Run(context.Background())
	<-begun
	must(b.Close())
	if err := <-ended; !errors.Is(err, parley.ErrTxDone) {
		t.Errorf("the handler's transaction ended with %v", err)
	}
	must(sure.Of(other.Receive(ctx, "work", nil)).Rollback(ctx))
	if d, err := other.Receive(ctx, "effects", nil); !errors.Is(err, parley.ErrNoMessage) {
		t.Errorf("of what the handler did there is %v, %v", d, err)
	}
}
