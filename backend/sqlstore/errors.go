package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"time"

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

// ErrFull is what a server says that takes no more connections: ErrConnection, and ErrPool.
var ErrFull error = full{}

type full struct{}

func (full) Error() string   { return "the server takes no more connections" }
func (full) Unwrap() []error { return []error{backend.ErrConnection, backend.ErrPool} }

// ended is a context's error. A driver that looks at the deadline itself, as a dialler does, may
// give up before the context has taken notice.
func ended(ctx context.Context) error {
	if d, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(d) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// contexts reports whether an error is a context's.
func contexts(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Unreached marks an error of acquiring a connection, or of beginning a transaction: there was no
// connection. It is for errors that are not the server's answer, since drivers have no type for
// many of them. What looks like a context's error is the driver's own limit, unless ctx has ended.
func Unreached(ctx context.Context, err error) error {
	var c *classified
	switch {
	case err == nil, errors.As(err, &c), ended(ctx) != nil:
		return err
	case contexts(err):
		err = errors.New(err.Error())
	}
	return Classified(backend.ErrConnection, err)
}

// Unanswered marks the error of a statement that commits by itself and has no answer of the server: it may have
// committed. So it is ErrConnection, whatever the driver says, and also if a context has ended it.
func Unanswered(err error) error { return &unanswered{err} }

type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

var errUnknown = Classified(backend.ErrConnection, errors.New("it may have been carried out"))

// fail classifies an error of the engine. What a context ended is the context's
// error, whatever the driver makes of it.
func (s *Store) fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var u *unanswered
	silent := errors.As(err, &u)
	switch c := ended(ctx); {
	case c != nil && silent:
		return Classified(c, errUnknown)
	case c != nil:
		return c
	}
	err = s.Classify(err)
	if errors.Is(err, backend.ErrReadOnly) {
		s.leave()
	}
	if silent && !errors.Is(err, backend.ErrConnection) {
		err = Classified(backend.ErrConnection, err)
	}
	if s.closed.Load() && !errors.Is(err, backend.ErrTxDone) {
		return Classified(backend.ErrClosed, err) // whatever drivers say when a handle is closed under them
	}
	return err
}

// Late is fail for what needs a connection. If ctx ended while all of the pool were in use, the
// error is the context's alone, else it says what took so long.
func (s *Store) Late(ctx context.Context, err error) error {
	if c := ended(ctx); c != nil && err != c {
		return Classified(c, err)
	}
	return s.fail(ctx, err)
}

// NotBegun is Late for what could not be begun: nothing has been done.
func (s *Store) NotBegun(ctx context.Context, err error) error {
	if err = s.Late(ctx, err); errors.Is(err, backend.ErrConnection) && !errors.Is(err, backend.ErrNotBegun) {
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
	case contexts(err):
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
