package parley_test

import (
	"context"
	"errors"
	"testing"

	"github.com/parleymq/parley"
)

// TestWriteBesideOpenTransaction: on a store with a single writer, what is written
// outside a delivery's open transaction with its context fails at once.
func TestWriteBesideOpenTransaction(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	post := func(ctx context.Context) error {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("x")})
		return err
	}
	beside := func(what string, ctx context.Context, open func() error) {
		t.Helper()
		must(post(ctx)) // nothing is open yet
		must(open())
		if err := post(ctx); !errors.Is(err, parley.ErrWouldDeadlock) {
			t.Errorf("a post with the context of a %s: %v", what, err)
		}
		err := b.InTx(ctx, func(tx *parley.Tx) error {
			_, err := tx.Once(context.Background(), "key")
			return err
		})
		if !errors.Is(err, parley.ErrWouldDeadlock) {
			t.Errorf("InTx with the context of a %s: %v", what, err)
		}
	}
	must(post(ctx))
	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	beside("delivery", d.Context(), func() error {
		_, err := d.Tx(d.Context())
		return err
	})
	must(d.Ack(ctx))
	must(post(ctx))
}
