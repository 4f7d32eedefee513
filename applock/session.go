package applock

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// Options are the options of a Session. Nil means all the defaults.
type Options struct {
	// Owner is shown to operators. Default: that of the Broker.
	Owner string

	// Lease is how long the session's locks stay at most after its process has died.
	// Default: that of the Broker; at least 100 ms.
	Lease time.Duration
}

// Session owns application locks outside of transactions. It renews itself until
// Close, or until the Broker is closed. It is safe for use by many goroutines.
type Session struct {
	be     backend.Session
	log    *slog.Logger
	lease  time.Duration
	ctx    context.Context
	lost   context.CancelCauseFunc
	closed sync.Once
}

// Open begins a session.
func Open(ctx context.Context, b *parley.Broker, o *Options) (*Session, error) {
	const op = "open session"
	var opt Options
	if o != nil {
		opt = *o
	}
	defaults := b.Options()
	if opt.Owner == "" {
		opt.Owner = defaults.Owner
	}
	if opt.Lease == 0 {
		opt.Lease = defaults.Lease
	}
	if opt.Lease < 100*time.Millisecond {
		return nil, &parley.Error{Op: op, Object: "Lease", Err: parley.ErrInvalidOption, Hint: "want at least 100ms"}
	}
	be, err := b.Backend().OpenSession(ctx, opt.Lease, backend.CleanText(opt.Owner, backend.MaxShownName))
	if err != nil {
		return nil, parley.WrapError(op, "", err)
	}
	s := &Session{be: be, lease: opt.Lease, log: b.Logger()}
	s.ctx, s.lost = context.WithCancelCause(b.Context())
	if !b.Go(s.renew) {
		s.close()
		return nil, parley.WrapError(op, "", parley.ErrClosed)
	}
	return s, nil
}

// renew keeps the session alive.
func (s *Session) renew(context.Context) {
	defer s.close()
	renewed := time.Now()
	for s.pause() {
		before := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, s.lease/2)
		err := s.be.Renew(ctx)
		cancel()
		switch {
		case err == nil:
			renewed = before
		case s.ctx.Err() != nil:
		case errors.Is(err, parley.ErrFenced) || time.Since(renewed) > s.lease:
			s.log.Warn("parley: a session has lost its locks", "error", err)
			s.lost(failOn("renew session", "", parley.ErrFenced))
		default:
			s.log.Warn("parley: a session could not be renewed; trying again", "error", err)
		}
	}
}

// pause waits until it is time to renew, and reports whether the session continues.
func (s *Session) pause() bool {
	third := s.lease / 3
	select {
	case <-time.After(third - time.Duration(rand.Int64N(int64(third/5)))): // sessions do not renew in step
		return true
	case <-s.ctx.Done():
		return false
	}
}

// cleanUp is how long to give locks back takes at most.
const cleanUp = 10 * time.Second

func (s *Session) close() {
	s.closed.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
		defer cancel()
		if err := s.be.Close(ctx); err != nil {
			s.log.Warn("parley: a session could not be closed; its locks end with its lease", "error", err)
		}
	})
}

// Context ends when the session has lost its locks or was closed: what is done
// under a lock should end with it. Its cause says which; parley.ErrFenced if it was
// lost.
func (s *Session) Context() context.Context { return s.ctx }

// Close ends the session and its locks. It is idempotent.
func (s *Session) Close() error {
	s.lost(parley.ErrClosed)
	s.close()
	return nil
}

// Lock implements Owner. A session waits on every store. It fails with ErrFenced when
// the session has lost its locks.
func (s *Session) Lock(ctx context.Context, name string, mode Mode, wait time.Duration) (Grant, error) {
	if err := check(name, mode); err != nil {
		return Grant{}, fail("lock", name, err)
	}
	ctx, cancel := s.with(ctx)
	defer cancel()
	g, err := s.be.Lock(ctx, name, mode, wait)
	return g, fail("lock", name, s.why(err))
}

// Unlock implements Owner.
func (s *Session) Unlock(ctx context.Context, name string) error {
	ctx, cancel := s.with(ctx)
	defer cancel()
	return fail("unlock", name, s.why(s.be.Unlock(ctx, name)))
}

// Mode implements Owner.
func (s *Session) Mode(ctx context.Context, name string) (Mode, error) {
	ctx, cancel := s.with(ctx)
	defer cancel()
	m, err := s.be.HeldMode(ctx, name)
	return m, fail("lock mode", name, s.why(err))
}

// Test implements Owner.
func (s *Session) Test(ctx context.Context, name string, mode Mode) (bool, error) {
	if err := check(name, mode); err != nil {
		return false, fail("lock test", name, err)
	}
	ctx, cancel := s.with(ctx)
	defer cancel()
	ok, err := s.be.LockTest(ctx, name, mode)
	return ok, fail("lock test", name, s.why(err))
}

// with makes a context that ends with the session as well.
func (s *Session) with(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// why replaces the error of a call that the end of the session ended.
func (s *Session) why(err error) error {
	if err != nil && s.ctx.Err() != nil {
		if errors.Is(context.Cause(s.ctx), parley.ErrFenced) {
			return parley.ErrFenced
		}
		return parley.ErrClosed
	}
	return err
}
