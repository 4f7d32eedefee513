package parley

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parleymq/parley/internal/guard"
)

// Handler handles messages for a Worker. If it returns nil, the message is acknowledged together
// with what was written in Message.Tx. An error undoes these writes. The message keeps its place
// and is tried again later, until the worker's policy takes over. Errors made by Defer, Park,
// DeadLetter, Poison and EndWithError change that.
//
// The context ends when the worker's time to stop is over, and when the hold on the message is
// lost. Later writes in Message.Tx do not commit.
type Handler interface {
	HandleMessage(ctx context.Context, m *Message) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, m *Message) error

// HandleMessage calls f.
func (f HandlerFunc) HandleMessage(ctx context.Context, m *Message) error { return f(ctx, m) }

// Middleware wraps a Handler in another one.
type Middleware func(Handler) Handler

// GroupHandler is a Handler that gets all delivered messages of a group in one
// call, in their order. They are acknowledged together, or none of them; a
// failure counts for the first. A Mux is none: it sorts messages by type; see HandleGroup.
type GroupHandler interface {
	Handler
	HandleGroup(ctx context.Context, messages []*Message) error
}

// GroupFunc is a function as a GroupHandler.
type GroupFunc func(ctx context.Context, messages []*Message) error

// HandleGroup calls f.
func (f GroupFunc) HandleGroup(ctx context.Context, messages []*Message) error {
	return f(ctx, messages)
}

// HandleMessage calls f with one message.
func (f GroupFunc) HandleMessage(ctx context.Context, m *Message) error {
	return f(ctx, []*Message{m})
}

// PerMessage makes a handler for each message, for programs with a dependency container. A handler
// that is an io.Closer is closed after its message.
func PerMessage(make func(ctx context.Context, m *Message) (Handler, error)) Handler {
	return HandlerFunc(func(ctx context.Context, m *Message) (err error) {
		h, err := make(ctx, m)
		if err != nil {
			return err
		}
		if c, ok := h.(io.Closer); ok {
			defer func() { err = errors.Join(err, c.Close()) }()
		}
		return h.HandleMessage(ctx, m)
	})
}

// Timeout ends the context of a handler after d, with ErrHandlerTimeout as its
// cause. A handler that has not succeeded by then has failed, whatever error it
// makes of it. WorkerOptions.Timeout does the same for all handlers of a worker.
func Timeout(d time.Duration) Middleware {
	return func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, m *Message) error {
			return within(ctx, d, func(ctx context.Context) error { return next.HandleMessage(ctx, m) })
		})
	}
}

// within calls a handler for d at most.
func within(ctx context.Context, d time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, ErrHandlerTimeout)
	defer cancel()
	err := call(ctx)
	if err != nil && context.Cause(ctx) == ErrHandlerTimeout {
		return fmt.Errorf("after %v: %w: %w", d, ErrHandlerTimeout, err)
	}
	return err
}

// ErrHandlerTimeout: the handler took longer than its Timeout, or its worker's.
var ErrHandlerTimeout = errors.New("the handler took too long")

// PanicError is the error of a handler that panicked.
type PanicError = guard.PanicError
