package parley

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// Mux is a Handler that calls others by the type of the message.
//
// Unless there are handlers for them, EndDialog, ErrorMessageType and EndOfStream end
// this side of the conversation, as every receiver should, and a DialogTimer is
// ignored.
type Mux struct {
	// NotFound handles types without a handler. By default a Worker defers them,
	// since a program that knows them may start soon. After
	// WorkerOptions.UnknownTypes it treats them as poison.
	NotFound Handler

	// Logger logs errors with which conversations end. Default: discard.
	Logger *slog.Logger

	mu       sync.RWMutex
	handlers map[string]Handler
	groups   map[string]func(body []byte) error // of types that are handled together: decodes a body
	use      []Middleware
	chain    map[string]Handler // handlers with the middleware around them
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return new(Mux) }

// Use puts middleware around all handlers, the first outermost.
func (x *Mux) Use(mw ...Middleware) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.use = append(x.use, mw...)
	x.chain = nil
}

// Handle registers the handler for a type, with middleware for this type alone:
//
//	mux.Handle("Report", h, parley.Timeout(time.Minute))
//
// It panics if there is one already.
func (x *Mux) Handle(typ string, h Handler, mw ...Middleware) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if typ == "" {
		typ = DefaultType
	}
	if _, dup := x.handlers[typ]; dup || h == nil {
		panic(fmt.Sprintf("parley: Mux.Handle: a second handler, or none, for type %q", typ))
	}
	if x.handlers == nil {
		x.handlers = make(map[string]Handler)
	}
	x.handlers[typ] = wrap(h, mw)
	x.chain = nil
}

// HandleFunc is Handle with a function.
func (x *Mux) HandleFunc(typ string, f func(ctx context.Context, m *Message) error, mw ...Middleware) {
	x.Handle(typ, HandlerFunc(f), mw...)
}

// Handle registers a function for the messages of a type, which gets their
// decoded bodies. A body that cannot be decoded is poison.
func Handle[T any](x *Mux, t Typed[T], f func(ctx context.Context, m *Message, v T) error, mw ...Middleware) {
	x.Handle(t.name, HandlerFunc(func(ctx context.Context, m *Message) error {
		v, err := t.Decode(m)
		if err != nil {
			return Poison(err)
		}
		return f(ctx, m, v)
	}), mw...)
}

func wrap(h Handler, mw []Middleware) Handler {
	for i := len(mw) - 1; i >= 0; i-- {
		h = mw[i](h)
	}
	return h
}

// find returns the handler of a type. Wrapping happens once for each type.
func (x *Mux) find(typ string) Handler {
	x.mu.RLock()
	h, ok := x.chain[typ]
	x.mu.RUnlock()
	if ok {
		return h
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	h, ok = x.handlers[typ]
	if !ok {
		return wrap(HandlerFunc(x.other), x.use) // not remembered: there is no end of names
	}
	h = wrap(h, x.use)
	if x.chain == nil {
		x.chain = make(map[string]Handler)
	}
	x.chain[typ] = h
	return h
}

// HandleMessage calls the handler for the message's type. The handler's context is marked as inside the
// message's transaction: see Tx.Context.
func (x *Mux) HandleMessage(ctx context.Context, m *Message) error {
	if m.of != nil {
		ctx = m.of.within(ctx)
	}
	return x.find(m.Type).HandleMessage(ctx, m)
}

// other handles what has no handler.
func (x *Mux) other(ctx context.Context, m *Message) error {
	switch m.Type {
	case EndDialog, EndOfStream:
		return m.End(ctx)
	case ErrorMessageType:
		if x.Logger != nil {
			x.Logger.Warn("parley: a conversation ended with an error", "event", "conversation.error",
				"conversation", m.ConversationID.String(), "service", m.Service, "far", m.FarService, "error", m.Err())
		}
		return m.End(ctx)
	case DialogTimer:
		return nil
	}
	if x.NotFound != nil {
		return x.NotFound.HandleMessage(ctx, m)
	}
	return &decidedError{policy: true, no: m.Type, err: fmt.Errorf(unhandledPrefix+"%q: %w", m.Type, ErrNoHandler)}
}
