package parley

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// LockMode is the mode of an application lock.
type LockMode = backend.LockMode

// The modes of application locks. Which of them two owners may hold together:
//
//	                 IS  S   U   IX  X
//	IntentShared     yes yes yes yes no
//	Shared           yes yes yes no  no
//	Update           yes yes no  no  no
//	IntentExclusive  yes no  no  yes no
//	Exclusive        no  no  no  no  no
const (
	IntentShared    = backend.LockIS
	Shared          = backend.LockS
	Update          = backend.LockU
	IntentExclusive = backend.LockIX
	Exclusive       = backend.LockX
)

// What is known of locks; the fields are explained in package backend.
type (
	Grant   = backend.Grant
	AppLock = backend.AppLock
)

// Lock asks for an application lock: a name that means what the application
// wants it to mean. It waits at most wait for those that hold it in a mode that
// is not compatible, and for those that asked before (zero: not at all; below
// zero: until ctx ends), and fails with ErrLockTimeout, or ErrLockDeadlock if
// its wait would close a cycle of waiters and it came last; the transaction
// goes on then. A lock that is asked for again counts, and modes add up.
//
// The transaction's locks end with it. On a store with a single writer
// transactions that have written exclude each other anyhow, and cannot wait for
// a lock: take locks before anything else there.
func (tx *Tx) Lock(ctx context.Context, name string, mode LockMode, wait time.Duration) (Grant, error) {
	err := tx.ready()
	if err == nil {
		err = checkLock(name, mode)
	}
	if err != nil {
		return Grant{}, failLock("lock", name, err)
	}
	g, err := tx.be.Lock(ctx, name, mode, wait)
	return g, failLock("lock", name, err)
}

// Unlock undoes one Lock. Before the end of a transaction it is seldom right:
// what was written under the lock is not committed yet.
func (tx *Tx) Unlock(ctx context.Context, name string) error {
	err := tx.ready()
	if err == nil {
		err = tx.be.Unlock(ctx, name)
	}
	return failLock("unlock", name, err)
}

// LockMode returns in which mode the transaction holds the lock.
func (tx *Tx) LockMode(ctx context.Context, name string) (m LockMode, err error) {
	if err = tx.ready(); err == nil {
		m, err = tx.be.LockMode(ctx, name)
	}
	return m, failLock("lock mode", name, err)
}

// LockTest reports whether Lock would be granted at once.
func (tx *Tx) LockTest(ctx context.Context, name string, mode LockMode) (ok bool, err error) {
	err = tx.ready()
	if err == nil {
		err = checkLock(name, mode)
	}
	if err == nil {
		ok, err = tx.be.LockTest(ctx, name, mode)
	}
	return ok, failLock("lock test", name, err)
}

// Fence guards what the transaction writes against an owner of a lock who has
// lost it without knowing: it fails with ErrFenced if a transaction of a later
// owner has passed. fence is that of the Grant. Call it in every transaction
// that writes what the lock protects; others that do for the same name wait
// until this one ends.
func (tx *Tx) Fence(ctx context.Context, name string, fence int64) error {
	err := tx.ready()
	if err == nil {
		err = checkLock(name, Shared)
	}
	if err == nil {
		err = tx.be.Fence(ctx, name, fence)
	}
	return failLock("fence", name, err)
}

// Locks lists holders and waiters of the locks whose names begin with prefix.
// Those of a transaction cannot be seen on a store with a single writer.
func (b *Broker) Locks(ctx context.Context, prefix string) ([]AppLock, error) {
	return read(b, "locks", func() ([]AppLock, error) { return b.be.AppLocks(ctx, prefix) })
}

func checkLock(name string, mode LockMode) error {
	switch n := utf8.RuneCountInString(name); {
	case n == 0 || n > backend.MaxLockName || !isText(name):
		return fmt.Errorf("%d characters: want UTF-8 of 1 to %d, without zero bytes: %w", n, backend.MaxLockName, ErrInvalidName)
	case mode != IntentShared && mode != Shared && mode != Update && mode != IntentExclusive && mode != Exclusive:
		return fmt.Errorf("mode %d: want one of the five modes: %w", mode, ErrInvalidOption)
	}
	return nil
}

func failLock(op, name string, err error) error {
	if err != nil && errors.Is(err, ErrFenced) {
		return &Error{Op: op, Object: objLock(name), Err: err, Hint: "the lock belongs to somebody else by now"}
	}
	return fail(op, objLock(name), err)
}

func objLock(name string) string {
	if utf8.RuneCountInString(name) > 60 {
		name = string([]rune(name)[:60]) + "…"
	}
	return fmt.Sprintf("lock %q", name)
}

// SessionOptions are the options of a Session. Nil means all the defaults.
type SessionOptions struct {
	// Owner is shown to operators. Default: that of the Broker.
	Owner string

	// Lease is for how long at most the session's locks stay after its process
	// has died. Default: that of the Broker; at least 100 ms.
	Lease time.Duration
}

// Session owns application locks outside of transactions. It renews itself until
// Close, or until the Broker is closed. It is safe for use by many goroutines.
type Session struct {
	b      *Broker
	be     backend.Session
	lease  time.Duration
	ctx    context.Context
	lost   context.CancelCauseFunc
	closed sync.Once
}

// OpenSession begins a session.
func (b *Broker) OpenSession(ctx context.Context, o *SessionOptions) (*Session, error) {
	var opt SessionOptions
	if o != nil {
		opt = *o
	}
	if opt.Owner == "" {
		opt.Owner = b.opt.Owner
	}
	if opt.Lease == 0 {
		opt.Lease = b.opt.Lease
	}
	if opt.Lease < 100*time.Millisecond {
		return nil, &Error{Op: "open session", Object: "Lease", Err: ErrInvalidOption, Hint: "want at least 100ms"}
	}
	if err := b.check(); err != nil {
		return nil, fail("open session", "", err)
	}
	be, err := b.be.OpenSession(ctx, opt.Lease, cleanText(opt.Owner, maxShownName))
	if err != nil {
		return nil, fail("open session", "", err)
	}
	s := &Session{b: b, be: be, lease: opt.Lease}
	s.ctx, s.lost = context.WithCancelCause(b.life)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		ctx, cancel := cleanup(ctx)
		defer cancel()
		be.Close(ctx)
		return nil, fail("open session", "", ErrClosed)
	}
	b.done.Add(1)
	go s.renew()
	return s, nil
}

// renew keeps the session alive.
func (s *Session) renew() {
	defer s.b.done.Done()
	defer s.close()
	renewed := time.Now()
	for sleep(s.ctx, jitter(s.lease/3)) == nil {
		before := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, s.lease/2)
		err := s.be.Renew(ctx)
		cancel()
		switch {
		case err == nil:
			renewed = before
		case s.ctx.Err() != nil:
		case errors.Is(err, ErrFenced) || time.Since(renewed) > s.lease:
			s.b.log.Warn("parley: a session has lost its locks", "error", err)
			s.lost(failLock("renew session", "", ErrFenced))
		default:
			s.b.log.Warn("parley: a session could not be renewed; trying again", "error", err)
		}
	}
}

func (s *Session) close() {
	s.closed.Do(func() {
		ctx, cancel := cleanup(context.Background())
		defer cancel()
		if err := s.be.Close(ctx); err != nil {
			s.b.log.Warn("parley: a session could not be closed; its locks end with its lease", "error", err)
		}
	})
}

// Context ends when the session has lost its locks or was closed: what is done
// under a lock should end with it. Its cause says which; ErrFenced if it was
// lost.
func (s *Session) Context() context.Context { return s.ctx }

// Close ends the session and its locks. It is idempotent.
func (s *Session) Close() error {
	s.lost(ErrClosed)
	s.close()
	return nil
}

// Lock asks for a lock, as Tx.Lock does. A session waits on every store. It
// fails with ErrFenced when the session has lost its locks.
func (s *Session) Lock(ctx context.Context, name string, mode LockMode, wait time.Duration) (Grant, error) {
	if err := checkLock(name, mode); err != nil {
		return Grant{}, failLock("lock", name, err)
	}
	ctx, cancel := s.with(ctx)
	defer cancel()
	g, err := s.be.Lock(ctx, name, mode, wait)
	return g, failLock("lock", name, s.why(err))
}

// Unlock undoes one Lock.
func (s *Session) Unlock(ctx context.Context, name string) error {
	ctx, cancel := s.with(ctx)
	defer cancel()
	return failLock("unlock", name, s.why(s.be.Unlock(ctx, name)))
}

// LockMode returns in which mode the session holds the lock.
func (s *Session) LockMode(ctx context.Context, name string) (LockMode, error) {
	ctx, cancel := s.with(ctx)
	defer cancel()
	m, err := s.be.LockMode(ctx, name)
	return m, failLock("lock mode", name, s.why(err))
}

// LockTest reports whether Lock would be granted at once.
func (s *Session) LockTest(ctx context.Context, name string, mode LockMode) (bool, error) {
	if err := checkLock(name, mode); err != nil {
		return false, failLock("lock test", name, err)
	}
	ctx, cancel := s.with(ctx)
	defer cancel()
	ok, err := s.be.LockTest(ctx, name, mode)
	return ok, failLock("lock test", name, s.why(err))
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
		if errors.Is(context.Cause(s.ctx), ErrFenced) {
			return ErrFenced
		}
		return ErrClosed
	}
	return err
}
