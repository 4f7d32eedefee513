package parley

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Functions of the application that are called beside its handlers: what they do
// wrong must not end the process, nor change what becomes of a message.

// calmly calls such a function, and reports whether it returned. A panic is logged
// with its stack.
func calmly(log *slog.Logger, what string, f func()) (returned bool) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("parley: a function of the application panicked", "event", "hook.panic", "function", what,
				"error", firstLine(fmt.Sprint(p)), "stack", string(debug.Stack()))
		}
	}()
	f()
	return true
}

// calmObserver is an Observer whose panics are logged.
type calmObserver struct {
	o   Observer
	log *slog.Logger
}

func (c calmObserver) Claimed(e ClaimEvent) {
	calmly(c.log, "Observer.Claimed", func() { c.o.Claimed(e) })
}

func (c calmObserver) Handled(e HandleEvent) {
	calmly(c.log, "Observer.Handled", func() { c.o.Handled(e) })
}

func (c calmObserver) Settled(e SettleEvent) {
	calmly(c.log, "Observer.Settled", func() { c.o.Settled(e) })
}

func (c calmObserver) Poisoned(e PoisonEvent) {
	calmly(c.log, "Observer.Poisoned", func() { c.o.Poisoned(e) })
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
