package consumer

import (
	"context"
	"errors"

	"github.com/parleymq/parley/backend"
)

// Is reports whether an error is one of a kind of the store's, also if it is one of
// a handler's own statements, which comes as the driver made it.
func Is(can backend.Capabilities, err, kind error) bool {
	return errors.Is(err, kind) || can.Classify != nil && errors.Is(can.Classify(err), kind)
}

// Unavailable reports whether an error says that the store takes nothing at present,
// whatever is written: it is full, or read-only. A connection that broke does not
// say so; that the next one cannot be opened does.
func Unavailable(can backend.Capabilities, err error) bool {
	return Is(can, err, backend.ErrReadOnly) || Is(can, err, backend.ErrNoSpace) || Is(can, err, backend.ErrReplaced) ||
		errors.Is(err, backend.ErrNotBegun)
}

// Transient reports whether an error says nothing about the message: its
// transaction lost against another one, or the hold or the connection was lost.
// Errors of the handler's own statements are looked at as well. A broken
// connection counts only if it was Parley's, since a handler may talk to others.
func Transient(can backend.Capabilities, err error) bool {
	return errors.Is(err, backend.ErrGroupBusy) || errors.Is(err, backend.ErrNotBegun) || errors.Is(err, backend.ErrConnection) ||
		errors.Is(err, backend.ErrFenced) || Is(can, err, backend.ErrSerialization)
}

// Gone reports whether the store cannot be worked with at present, which the
// background work waits out.
func Gone(err error) bool {
	return errors.Is(err, backend.ErrNotMigrated) || TooOld(err) || errors.Is(err, backend.ErrConnection) ||
		errors.Is(err, backend.ErrReadOnly) || errors.Is(err, backend.ErrNoSpace) || errors.Is(err, backend.ErrReplaced)
}

// TooOld reports whether the store is not one for this program any more, whatever it
// does.
func TooOld(err error) bool {
	return errors.Is(err, backend.ErrNewerSchema) || errors.Is(err, backend.ErrUnknownSchema)
}

// hasStarved reports whether an error says that no connection was free in time. The wait for the
// pool ends with the context's own error; what took long otherwise, such as dialling, wraps it.
func hasStarved(err error) bool {
	return errors.Is(err, backend.ErrPool) || err == context.DeadlineExceeded
}
