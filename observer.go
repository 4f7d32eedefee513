package parley

import (
	"context"
	"log/slog"
	"time"

	"github.com/parleymq/parley/internal/guard"
)

// Observer hears what workers do, for counters and histograms. Many goroutines call it, and the
// worker waits for each call. Each context is that of the work that the event describes; that of
// Handled is the handler's context, which may have ended. Embed NopObserver, so that a program
// still compiles when methods are added.
type Observer interface {
	// Claimed: a worker took messages, or looked and found none.
	Claimed(context.Context, ClaimEvent)
	// Handled: a handler has returned.
	Handled(context.Context, HandleEvent)
	// Settled: a batch was settled, or could not be.
	Settled(context.Context, SettleEvent)
	// Poisoned: an action was taken on a message that could not be handled.
	Poisoned(context.Context, PoisonEvent)
}

// ClaimEvent is a look for messages.
type ClaimEvent struct {
	Queue    string
	Groups   int // taken
	Messages int
	IDs      []ID // of these
	Took     time.Duration
	Err      error
}

// HandleEvent is a call of a handler.
type HandleEvent struct {
	Queue   string
	Type    string
	ID      ID                // of the first, where a GroupHandler got several
	IDs     []ID              // of all
	Headers map[string]string // of the first; not to be changed
	Attempt int
	Took    time.Duration
	Age     time.Duration // since the message was sent, by this machine's clock
	Err     error
}

// SettleEvent is the end of a batch.
type SettleEvent struct {
	Queue     string
	Groups    int  // that were in the batch
	Done      int  // messages that were acknowledged
	IDs       []ID // of messages that were handled: those that count in Done and in Lost
	Lost      int  // messages that were handled, but whose lease was lost: they come again
	Cancelled int  // posts that were cancelled
	Failed    int  // messages that failed
	Returned  int  // groups that were given back unhandled
	Took      time.Duration
	Err       error // nothing was settled; the messages come again
}

// PoisonEvent is an action on a message that could not be handled.
type PoisonEvent struct {
	Queue   string
	Type    string
	ID      ID
	Headers map[string]string // not to be changed
	Group   ID
	Action  Action
	Err     error
}

// NopObserver is an Observer that does nothing.
type NopObserver struct{}

// Claimed does nothing.
func (NopObserver) Claimed(context.Context, ClaimEvent) {}

// Handled does nothing.
func (NopObserver) Handled(context.Context, HandleEvent) {}

// Settled does nothing.
func (NopObserver) Settled(context.Context, SettleEvent) {}

// Poisoned does nothing.
func (NopObserver) Poisoned(context.Context, PoisonEvent) {}

// These functions of the application are called beside its handlers. Their mistakes must not end
// the process, nor change the outcome of a message.

// calmObserver is an Observer whose panics are logged.
type calmObserver struct {
	o   Observer
	log *slog.Logger
}

func (c calmObserver) Claimed(ctx context.Context, e ClaimEvent) {
	guard.Hook(c.log, "Observer.Claimed", func() { c.o.Claimed(ctx, e) })
}

func (c calmObserver) Handled(ctx context.Context, e HandleEvent) {
	guard.Hook(c.log, "Observer.Handled", func() { c.o.Handled(ctx, e) })
}

func (c calmObserver) Settled(ctx context.Context, e SettleEvent) {
	guard.Hook(c.log, "Observer.Settled", func() { c.o.Settled(ctx, e) })
}

func (c calmObserver) Poisoned(ctx context.Context, e PoisonEvent) {
	guard.Hook(c.log, "Observer.Poisoned", func() { c.o.Poisoned(ctx, e) })
}

// calmLog is a handler of a logger whose panics have no consequences: there is
// nothing left to log them with.
type calmLog struct{ h slog.Handler }

func (c calmLog) Enabled(ctx context.Context, l slog.Level) (on bool) {
	defer func() { _ = recover() }()
	return c.h.Enabled(ctx, l)
}

func (c calmLog) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() { _ = recover() }()
	return c.h.Handle(ctx, r)
}

func (c calmLog) WithAttrs(attrs []slog.Attr) slog.Handler { return calmLog{c.h.WithAttrs(attrs)} }
func (c calmLog) WithGroup(name string) slog.Handler       { return calmLog{c.h.WithGroup(name)} }

// warnings passes on what is a warning or worse.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
