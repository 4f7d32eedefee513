package parley

import (
	"context"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
)

// HandleGroup registers a function for consecutive messages of a type in a group. It gets them in one call, with
// decoded bodies: as many as a Worker has received, up to a message of another type. They are acknowledged together or
// not at all; a failure counts for the first. A body that cannot be decoded is poison, and its neighbours are handled
// without it. Middleware sees the first message of a call. If the caller of the Mux is not a Worker, each message comes
// alone.
func HandleGroup[T any](x *Mux, t Typed[T], f func(ctx context.Context, messages []*Message, values []T) error, mw ...Middleware) {
	x.Handle(t.name, HandlerFunc(func(ctx context.Context, m *Message) error {
		run := []*Message{m}
		if r, _ := ctx.Value(runKey{}).([]*Message); len(r) > 0 && r[0] == m {
			run = r
		}
		values := make([]T, len(run))
		for i, m := range run {
			var err error
			if values[i], err = t.Decode(m); err != nil {
				return Poison(err)
			}
		}
		return f(ctx, run, values)
	}), mw...)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.groups == nil {
		x.groups = make(map[string]func(body []byte) error)
	}
	x.groups[t.name] = func(body []byte) error { return t.codec.Unmarshal(body, new(T)) }
}

// runKey is the key of the messages that a call of a handler gets together.
type runKey struct{}

// handleRun calls the handler of a type once for messages that go together.
func (x *Mux) handleRun(ctx context.Context, run []*Message) error {
	return x.find(run[0].Type).HandleMessage(context.WithValue(ctx, runKey{}, run), run[0])
}

// together returns how many messages of a group one call handles. They are of one type, which has a function for
// groups, and their bodies can be decoded.
func (x *Mux) together(group []*backend.Message) (n int) {
	x.mu.RLock()
	decode := x.groups[group[0].Type]
	x.mu.RUnlock()
	if decode == nil {
		return 1
	}
	for _, m := range group {
		if m.Type != group[0].Type || guard.Call(func() error { return decode(m.Body) }) != nil {
			break
		}
		n++
	}
	return max(n, 1)
}
