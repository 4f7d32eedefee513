package backend

import (
	"context"
	"time"
)

// LockMode is the mode of an application lock: a set of bits, so that holding
// two modes is their union.
type LockMode int

// The modes that can be asked for, and the unions that can come of them.
const (
	LockIS LockMode = 1 << iota
	LockS
	LockU
	LockIX
	LockX

	LockNone LockMode = 0
	LockSIX           = LockS | LockIX
	LockUIX           = LockU | LockIX
)

// Compatible reports whether two owners may hold a and b at the same time.
func (a LockMode) Compatible(b LockMode) bool {
	for x := LockIS; x <= LockX; x <<= 1 {
		for y := LockIS; y <= LockX; y <<= 1 {
			if a&x != 0 && b&y != 0 && !compatible(x, y) {
				return false
			}
		}
	}
	return true
}

// compatible is the matrix of Service Broker's host for the five plain modes.
func compatible(a, b LockMode) bool {
	switch {
	case a == LockX || b == LockX:
		return false
	case a == LockIS || b == LockIS:
		return true
	case a == LockIX || b == LockIX:
		return a == b
	default: // S and U
		return a != LockU || b != LockU
	}
}

// String returns the strongest name of the mode, as APPLOCK_MODE does.
func (a LockMode) String() string {
	switch {
	case a == 0:
		return "NoLock"
	case a&LockX != 0:
		return "Exclusive"
	case a&LockU != 0 && a&LockIX != 0:
		return "UpdateIntentExclusive"
	case a&LockS != 0 && a&LockIX != 0:
		return "SharedIntentExclusive"
	case a&LockIX != 0:
		return "IntentExclusive"
	case a&LockU != 0:
		return "Update"
	case a&LockS != 0:
		return "Shared"
	default:
		return "IntentShared"
	}
}

// MaxLockName is how long the name of a lock may be, in characters. Longer ones
// are refused, never cut: two names are one lock only if they are equal.
const MaxLockName = 255

// Locker is an owner of application locks. Requests are granted in the order in
// which they came, with two exceptions. A request may pass if it is compatible
// with everything granted and everything that waits ahead of it. An owner that
// holds the lock already waits only for other owners.
type Locker interface {
	// Lock requests the lock in a mode and waits for it at most wait (zero: not at all; below zero:
	// until ctx ends). An owner may lock again; a different mode is added to the first.
	// ErrLockTimeout, ErrLockDeadlock; ErrFenced if the owner is a session that has expired. On a
	// store with a single writer a transaction that has written cannot wait: ErrLockTimeout that is
	// ErrWouldDeadlock as well.
	Lock(ctx context.Context, name string, mode LockMode, wait time.Duration) (Grant, error)
	// Unlock undoes one Lock; the lock is free when all are undone, and keeps
	// its mode until then. ErrNotLocked.
	Unlock(ctx context.Context, name string) error
	// HeldMode returns the mode in which this owner holds the lock.
	HeldMode(ctx context.Context, name string) (LockMode, error)
	// LockTest reports whether Lock without waiting would be granted.
	LockTest(ctx context.Context, name string, mode LockMode) (bool, error)
}

// Grant is a granted application lock.
type Grant struct {
	Waited bool
	Mode   LockMode // held now
	Fence  int64    // greater than that of every earlier owner
}

// TxLocks makes a transaction an owner: its locks end with it. Those taken after
// a savepoint may or may not end with a rollback to it.
type TxLocks interface {
	Locker
	// Fence protects what the transaction writes under a lock. It returns ErrFenced if a higher
	// fence has passed for the name, that is, if a later owner has written. After this transaction
	// commits, lower fences fail. Other transactions that call Fence with the name wait until this
	// one ends.
	Fence(ctx context.Context, name string, fence int64) error
}

// Locks makes sessions that own application locks.
type Locks interface {
	// OpenSession returns an owner that outlives transactions. Its locks end with Close, or when
	// its lease expires without Renew. If the session is a connection, they also end when that is
	// lost.
	OpenSession(ctx context.Context, lease time.Duration, owner string) (Session, error)
	// AppLocks lists holders and waiters of locks whose names begin with prefix.
	AppLocks(ctx context.Context, prefix string) ([]AppLock, error)
}

// Session is an owner of application locks outside transactions. Its methods
// may be called from several goroutines.
type Session interface {
	Locker
	// Renew extends the session; ErrFenced if it has expired.
	Renew(ctx context.Context) error
	Close(ctx context.Context) error
}

// AppLock is one holder or waiter.
type AppLock struct {
	Name    string
	Owner   string
	Mode    LockMode
	Waiting bool
	Count   int
	Fence   int64
	For     time.Duration
}
