// Package applock has application locks: names that mean what the application wants
// them to mean, owned by a transaction or by a session. The built-in stores on PostgreSQL,
// MySQL, MariaDB, SQLite and SQL Server have them; a plugin may lack them, and then each
// call returns errors.ErrUnsupported.
package applock

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// Mode is the mode of a lock.
type Mode = backend.LockMode

// The modes. Which of them two owners may hold together:
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
	Grant  = backend.Grant
	Status = backend.AppLock
)

// Owner owns locks: a transaction (In) or a session (Open).
type Owner interface {
	// Lock requests a lock. It waits at most wait for owners that hold the lock in an incompatible
	// mode, and for earlier requests. Zero means not at all; below zero means until ctx ends. It
	// fails with ErrLockTimeout, or with ErrLockDeadlock if it came last and its wait would close a
	// cycle of waiters; a transaction then stays usable. An owner may take a lock several times,
	// and modes add up.
	Lock(ctx context.Context, name string, mode Mode, wait time.Duration) (Grant, error)

	// Unlock undoes one Lock.
	Unlock(ctx context.Context, name string) error

	// Mode returns the mode in which the owner holds the lock.
	Mode(ctx context.Context, name string) (Mode, error)

	// Test reports whether Lock would be granted at once.
	Test(ctx context.Context, name string, mode Mode) (bool, error)
}

// Tx owns locks in a transaction, with which they end.
type Tx struct{ tx *parley.Tx }

var (
	_ Owner = Tx{}
	_ Owner = (*Session)(nil)
)

// In takes locks in a transaction. On a store with a single writer, transactions that have written
// exclude each other anyway, and cannot wait for a lock. There, take locks before you do anything
// else.
func In(tx *parley.Tx) Tx { return Tx{tx} }

// Lock implements Owner.
func (t Tx) Lock(ctx context.Context, name string, mode Mode, wait time.Duration) (g Grant, err error) {
	be, err := t.tx.Backend()
	if err == nil {
		err = check(name, mode)
	}
	if err == nil {
		g, err = be.Lock(ctx, name, mode, wait)
	}
	return g, fail("lock", name, err)
}

// Unlock implements Owner. Before the end of a transaction it is rarely right, because what was
// written under the lock is not committed yet.
func (t Tx) Unlock(ctx context.Context, name string) error {
	be, err := t.tx.Backend()
	if err == nil {
		err = be.Unlock(ctx, name)
	}
	return fail("unlock", name, err)
}

// Mode implements Owner.
func (t Tx) Mode(ctx context.Context, name string) (m Mode, err error) {
	be, err := t.tx.Backend()
	if err == nil {
		m, err = be.HeldMode(ctx, name)
	}
	return m, fail("lock mode", name, err)
}

// Test implements Owner.
func (t Tx) Test(ctx context.Context, name string, mode Mode) (ok bool, err error) {
	be, err := t.tx.Backend()
	if err == nil {
		err = check(name, mode)
	}
	if err == nil {
		ok, err = be.LockTest(ctx, name, mode)
	}
	return ok, fail("lock test", name, err)
}

// Fence protects what the transaction writes from an owner that has lost a lock without knowing. It
// fails with ErrFenced if a transaction of a later owner has passed. fence is that of the Grant.
// Call it in every transaction that writes what the lock protects. Transactions that call it for
// the same name wait for each other.
func (t Tx) Fence(ctx context.Context, name string, fence int64) error {
	be, err := t.tx.Backend()
	if err == nil {
		err = check(name, Shared)
	}
	if err == nil {
		err = be.Fence(ctx, name, fence)
	}
	return fail("fence", name, err)
}

// List lists holders and waiters of the locks whose names begin with prefix. Locks of a transaction
// are not visible on a store with a single writer.
func List(ctx context.Context, b *parley.Broker, prefix string) ([]Status, error) {
	if b.Context().Err() != nil {
		return nil, parley.WrapError("locks", "", parley.ErrClosed)
	}
	list, err := b.Backend().AppLocks(ctx, prefix)
	return list, parley.WrapError("locks", "", err)
}

func check(name string, mode Mode) error {
	switch n := utf8.RuneCountInString(name); {
	case n == 0 || n > backend.MaxLockName || !backend.IsText(name):
		return fmt.Errorf("%d characters: want UTF-8 of 1 to %d, without zero bytes: %w", n, backend.MaxLockName, parley.ErrInvalidName)
	case mode != IntentShared && mode != Shared && mode != Update && mode != IntentExclusive && mode != Exclusive:
		return fmt.Errorf("mode %d: want one of the five modes: %w", mode, parley.ErrInvalidOption)
	}
	return nil
}

func fail(op, name string, err error) error {
	const most = 60
	if name := []rune(name); len(name) > most {
		return failOn(op, fmt.Sprintf("lock %q", string(name[:most])+"…"), err)
	}
	return failOn(op, fmt.Sprintf("lock %q", name), err)
}

func failOn(op, object string, err error) error {
	if err != nil && errors.Is(err, parley.ErrFenced) {
		return &parley.Error{Op: op, Object: object, Err: err, Hint: "another owner has the lock now"}
	}
	return parley.WrapError(op, object, err)
}
