package backend

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// TestPatience: if no connection is free in time, the error is ErrPool. If none can be opened in time, it is ErrConnection
// too, since there may be a pool behind the pool.
func TestPatience(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"pool": func(ctx context.Context) error { return ctx.Err() },
		"dial": func(ctx context.Context) error { return fmt.Errorf("dial: %w", ctx.Err()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := Patiently(InsideTx(t.Context(), UnimplementedTx{}), 2, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, fail(ctx)
			})
			short, lost := errors.Is(err, ErrPool), errors.Is(err, ErrConnection)
			if !errors.Is(err, ErrNotBegun) || !short || lost != (name == "dial") || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
