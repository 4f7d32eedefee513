package parley_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleymq/parley"
)

// audit is a verb that a package outside of Parley adds: it works in a transaction of
// Parley's, and in the background.
func audit(ctx context.Context, tx *parley.Tx, queue string) error {
	be, err := tx.Backend()
	if err == nil {
		_, err = be.Catalog(ctx, false)
	}
	return parley.WrapError("audit", fmt.Sprintf("queue %q", queue), err)
}

// A package that adds to Parley works with the Broker's store, log and life.
func ExampleBroker_Go() {
	ctx := context.Background()
	b, cleanup := shop()
	defer cleanup()

	done := make(chan struct{})
	b.Go(func(background context.Context) {
		defer close(done)
		<-background.Done() // the Broker is closed
		b.Logger().Info("audit: over", "owner", b.Options().Owner)
	})
	must(b.InTx(ctx, func(tx *parley.Tx) error { return audit(ctx, tx, "shop") }))
	must(b.Close())
	<-done
	fmt.Println(b.Context().Err(), b.Go(func(context.Context) {}))

	var e *parley.Error
	err := parley.WrapError("audit", "queue \"shop\"", parley.ErrClosed)
	fmt.Println(errors.As(err, &e), err)
	// Output:
	// context canceled false
	// true parley: audit: queue "shop": the broker is closed
}
