package memstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// MaxConns implements [backend.Pool].
func (h *Handle) MaxConns() int {
	if h.conns != nil && h.store.fault == FaultPoolOverstated {
		return cap(h.conns) + 1
	}
	return cap(h.conns)
}

// connect takes a connection. Callers that have one already wait for a bounded time.
func (h *Handle) connect(ctx context.Context) error {
	if h.conns == nil {
		return nil
	}
	if h.store.fault == FaultWaitsForever {
		ctx, cancel := lasting()
		defer cancel()
		return h.take(ctx)
	}
	conns := cap(h.conns)
	if h.store.fault == FaultOneUnknown {
		conns = 0
	}
	_, err := backend.Patiently(ctx, conns, func(ctx context.Context) (none struct{}, err error) { return none, h.take(ctx) })
	return err
}

func (h *Handle) take(ctx context.Context) error {
	select {
	case h.conns <- struct{}{}:
		return nil
	case <-ctx.Done():
		if h.store.fault == FaultConnectionLost {
			go func() { h.conns <- struct{}{} }()
		}
		return ctx.Err()
	}
}

// putBack gives a connection back.
func (h *Handle) putBack() {
	if h.conns != nil {
		<-h.conns
	}
}

// lasting is the context of waits that do not end when they should, for a fault. They take longer than a check waits on a
// slow machine.
func lasting() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 90*time.Second)
}
