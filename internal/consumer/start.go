package consumer

import (
	"context"
	"errors"
	"log/slog"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// Insist does what a worker needs before it can begin. It pauses and tries again while the store
// cannot be worked with, as a worker does that has begun.
func Insist(ctx context.Context, can backend.Capabilities, log *slog.Logger, queue string, do func() error) error {
	outage := newOutage()
	for {
		err := do()
		if err == nil {
			outage.end(log, queue)
			return nil
		}
		if !Unavailable(can, err) && !errors.Is(err, backend.ErrConnection) && !errors.Is(err, backend.ErrSerialization) {
			return err
		}
		outage.begin(log, queue, err)
		if wait.Sleep(ctx, outage.left()) != nil {
			return err
		}
	}
}
