// Package guard protects Parley from faulty functions of the application. They panic, end their
// goroutine, or return errors whose methods panic or whose texts no store can keep.
package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

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

// ErrExited: the handler ended its goroutine.
var ErrExited = errors.New("the handler called runtime.Goexit")

// Call runs a handler and turns a panic into an error. What it returns is sound.
func Call(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return Sound(f())
}

// Stack returns the stack of the panic that an error comes from, for a log.
func Stack(err error) []any {
	var p *PanicError
	if errors.As(err, &p) {
		return []any{"stack", string(p.Stack)}
	}
	return nil
}

// Hook calls a function of the application other than a handler, and reports whether it
// returned. A panic is logged with its stack.
func Hook(log *slog.Logger, what string, f func()) (returned bool) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("parley: a function of the application panicked", "event", "hook.panic", "function", what,
				"error", FirstLine(fmt.Sprint(p)), "stack", string(debug.Stack()))
		}
	}()
	f()
	return true
}
