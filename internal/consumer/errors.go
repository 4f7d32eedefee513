package consumer

import (
	"context"
	"errors"

	"github.com/parleymq/parley/backend"
)

// Is reports whether an error is of a kind of the store's errors. The error may come from a
// handler's own statement, as the driver made it.
func Is(can backend.Capabilities, err, kind error) bool {
	return errors.Is(err, kind) || can.Classify != nil && errors.Is(can.Classify(err), kind)
}

// Unavailable reports whether an error means that the store accepts no writes at present, because
// it is full, read-only or cannot be reached. A broken connection does not mean that; failing to
// open the next one does.
func Unavailable(can backend.Capabilities, err error) bool {
	return Is(can, err, backend.ErrReadOnly) || Is(can, err, backend.ErrNoSpace) || Is(can, err, backend.ErrReplaced) ||
		errors.Is(err, backend.ErrNotBegun)
}

// Transient reports whether an error says nothing about the message. Its transaction lost a
// conflict with another transaction, or the hold or the connection was lost. That includes errors
// of the handler's own statements. A broken connection counts only if it was Parley's, because a
// handler may use others.
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
