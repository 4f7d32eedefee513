package memstore

import "context"

// listener is a process that wants to be told about new messages.
type listener struct{ wake func(queue int64) }

// Listen implements [backend.Listener].
func (h *Handle) Listen(ctx context.Context, wake func(queue int64)) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	l := &listener{wake} // it takes no connection
	h.store.listeners[l] = struct{}{}
	if h.store.fault != FaultListenSilent {
		wake(0) // a receiver may have looked before, and a message come since
	}
	h.leave()

	<-ctx.Done()

	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	delete(h.store.listeners, l)
	return ctx.Err()
}

// Notify implements [backend.Listener]. The listeners do not block, so they are
// called under the mutex: once Listen has returned, its wake is not called.
func (h *Handle) Notify(ctx context.Context, queues []int64) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	if h.store.fault == FaultNotifyLost {
		return nil
	}
	for l := range h.store.listeners {
		for _, q := range queues {
			l.wake(q)
		}
	}
	return nil
}
