package parley

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"
)

// Handler handles messages for a Worker. If it returns nil, the message is
// acknowledged together with what was written in Message.Tx. An error undoes
// that; the message stays, with its order, and is tried again later, until the
// worker's policy takes over. Errors made by Defer, Park, DeadLetter, Poison and
// EndWithError say otherwise.
//
// The context ends when the time of the worker to stop is over, and when the
// hold on the message has been lost; what is written in Message.Tx after that
// does not commit.
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
// failure counts for the first. A Mux is none: it sorts messages by type.
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

// PerMessage makes a handler for each message, as programs with a container for
// their parts want. A handler that is an io.Closer is closed after its message.
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
// makes of it.
func Timeout(d time.Duration) Middleware {
	return func(next Handler) Handler {
		return HandlerFunc(func(ctx context.Context, m *Message) error {
			ctx, cancel := context.WithTimeoutCause(ctx, d, ErrHandlerTimeout)
			defer cancel()
			err := next.HandleMessage(ctx, m)
			if err != nil && context.Cause(ctx) == ErrHandlerTimeout {
				return fmt.Errorf("after %v: %w: %w", d, ErrHandlerTimeout, err)
			}
			return err
		})
	}
}

// ErrHandlerTimeout: the handler took longer than its Timeout.
var ErrHandlerTimeout = errors.New("the handler took too long")

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("the handler panicked: %v\n%s", e.Value, e.Stack)
}

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// errExited: the handler ended its goroutine.
var errExited = errors.New("the handler called runtime.Goexit")

// guarded runs a handler and turns a panic into an error. What it returns is sound.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return sound(f())
}

// stackOf returns the stack of the panic that an error comes from, for a log.
func stackOf(err error) []any {
	var p *PanicError
	if errors.As(err, &p) {
		return []any{"stack", string(p.Stack)}
	}
	return nil
}
