package sqlstore

import (
	"context"
	"sync/atomic"
	"time"
)

// heard is the context of a statement whose driver asks the server once to cancel it, when the context ends. A request that
// comes before the server has read the statement does nothing, and the statement would then wait for a lock as long as that
// is held. So the context ends with that of the caller, but not before the server has had some time.
type heard struct {
	context.Context
	caller context.Context
	sent   atomic.Int64 // when the statement was, as a duration since started
}

var started = time.Now() // by a clock that goes on when the time of day is set

type heardKey struct{}

// Value implements context.Context.
func (h *heard) Value(key any) any {
	if key == (heardKey{}) {
		return h
	}
	return h.Context.Value(key)
}

// heard returns a context for a statement, and a function to be called when that is over.
func (r run) heard(ctx context.Context) (context.Context, func()) {
	if r.s.d.Unread == 0 || ctx.Done() == nil {
		return ctx, func() {}
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h := &heard{Context: own, caller: ctx}
	h.sends()
	stop := context.AfterFunc(ctx, func() {
		for own.Err() == nil {
			early := r.s.d.Unread - time.Since(started) + time.Duration(h.sent.Load())
			if early <= 0 {
				cancel(context.Cause(ctx))
			}
			select {
			case <-own.Done():
			case <-time.After(early):
			}
		}
	})
	return h, func() { stop(); cancel(nil) }
}

// Sending is called right before a statement is sent, if other trips came first. It returns an error if the caller's context
// has ended meanwhile.
func Sending(ctx context.Context) error {
	h, ok := ctx.Value(heardKey{}).(*heard)
	if !ok {
		return ctx.Err()
	}
	h.sends()
	return h.caller.Err()
}

func (h *heard) sends() { h.sent.Store(int64(time.Since(started))) }
