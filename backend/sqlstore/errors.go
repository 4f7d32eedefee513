package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/parleymq/parley/backend"
)

// classified is an error of the engine that is also a sentinel of package
// backend.
type classified struct {
	kind error
	err  error
}

// Classified makes err an error that is kind as well.
func Classified(kind, err error) error { return &classified{kind, err} }

func (e *classified) Error() string   { return e.kind.Error() + ": " + e.err.Error() }
func (e *classified) Unwrap() []error { return []error{e.kind, e.err} }

// fail classifies an error of the engine. What a context ended is the context's
// error, whatever the driver makes of it.
func (s *Store) fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if c := ctx.Err(); c != nil {
		return c
	}
	err = s.Classify(err)
	if errors.Is(err, backend.ErrReadOnly) {
		s.leave()
	}
	if s.closed.Load() && !errors.Is(err, backend.ErrTxDone) {
		return Classified(backend.ErrClosed, err) // whatever drivers say when a handle is closed under them
	}
	return err
}

// notBegun says of a connection that could not be had that nothing has been done.
func notBegun(err error) error {
	if errors.Is(err, backend.ErrConnection) {
		return Classified(backend.ErrNotBegun, err)
	}
	return err
}

// Classify wraps an error in the sentinel of package backend that fits.
func (s *Store) Classify(err error) error {
	var c *classified
	switch {
	case err == nil, errors.As(err, &c):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, sql.ErrTxDone):
		return Classified(backend.ErrTxDone, err)
	}
	if k := s.d.Classify(err); k != nil {
		return Classified(k, err)
	}
	var timeout net.Error
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.As(err, &timeout):
		return Classified(backend.ErrConnection, err)
	}
	return err
}
