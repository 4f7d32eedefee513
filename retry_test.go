package parley_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/parleymq/parley"
)

// TestRetry: a transaction runs again after errors that say that nothing of it remains, and
// after no others, and not without end.
func TestRetry(t *testing.T) {
	t.Parallel()
	b, cleanup := shop()
	defer cleanup()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for err, want := range map[error]int{
		nil:                     1,
		errors.New("no"):        1,
		parley.ErrConnection:    1, // what was cut off may have happened
		parley.ErrFenced:        1,
		parley.ErrSerialization: parley.Retries,
		fmt.Errorf("mine: %w", parley.ErrSerialization): parley.Retries,
		parley.ErrNotBegun: parley.Retries,
	} {
		runs := 0
		got := b.Retry(ctx, func(tx *parley.Tx) error {
			runs++
			_, e := tx.Post(ctx, "mail", parley.Payload{})
			must(e)
			return err
		})
		if runs != want || !errors.Is(got, err) {
			t.Errorf("%v: %d runs, want %d, and %v", err, runs, want, got)
		}
	}
	queues, err := b.Admin().Queues(ctx, "mail")
	must(err)
	if queues[0].Depth != 1 {
		t.Errorf("%d messages were posted, want the one of the transaction that succeeded", queues[0].Depth)
	}
	runs := 0
	err = b.Retry(ctx, func(*parley.Tx) error { runs++; cancel(); return parley.ErrSerialization })
	if runs != 1 || !errors.Is(err, parley.ErrSerialization) {
		t.Errorf("%d runs after the context has ended, and %v", runs, err)
	}
}
