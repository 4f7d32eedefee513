package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// bell wakes those in this process that wait for a lock.
type bell struct {
	mu sync.Mutex
	c  chan struct{}
}

// listen returns a channel that is closed at the next signal.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

// newOwner stores an owner, in a separate transaction.
func (s *Store) newOwner(ctx context.Context, kind int, name string, lease time.Duration) (lockOwner, error) {
	o := lockOwner{id: backend.NewID(), kind: kind}
	return o, s.insertOwner(ctx, o, name, lease)
}

func (s *Store) insertOwner(ctx context.Context, o lockOwner, name string, lease time.Duration) error {
	return s.aside(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, s.q.OwnerInsert, o.id, o.kind, name, lease)
		return err
	})
}

// dismiss removes an owner and its locks.
func (s *Store) dismiss(ctx context.Context, o lockOwner) error {
	defer s.released.signal()
	return s.aside(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(ctx, s.q.OwnerDelete, o.id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, s.q.LockDrop, o.id)
		return err
	})
}

// sweepOwners removes sessions that have expired. That their locks are free
// does not depend on it.
func (s *Store) sweepOwners(ctx context.Context) error {
	var ids []backend.ID
	err := s.reading(ctx, func(r run) (err error) {
		ids, err = r.IDs(ctx, s.q.OwnersExpired, 20)
		return err
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	return s.aside(ctx, func(tx *Tx) error {
		for _, id := range ids {
			n, err := tx.Exec(ctx, s.q.OwnerExpire, id)
			if err == nil && n > 0 {
				_, err = tx.Exec(ctx, s.q.LockDrop, id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// OpenSession implements backend.Locks.
func (s *Store) OpenSession(ctx context.Context, lease time.Duration, owner string) (backend.Session, error) {
	if lease <= 0 {
		return nil, fmt.Errorf("parley: a session's lease of %v: want more than 0", lease)
	}
	if err := s.sweepOwners(ctx); err != nil && !errors.Is(err, backend.ErrSerialization) {
		return nil, err
	}
	x := &session{s: s, owner: lockOwner{id: backend.NewID(), kind: ownerSession}, lease: lease}
	if s.d.OpenLine != nil {
		x.owner.kind = ownerNative
		if err := x.openLine(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.insertOwner(ctx, x.owner, owner, lease); err != nil {
		x.hangUp()
		return nil, err
	}
	return x, nil
}

// session is an owner of locks outside of transactions.
type session struct {
	s      *Store
	owner  lockOwner
	lease  time.Duration
	closed atomic.Bool

	line   Line        // nil: it has rows only
	unkept func()      // the line's connection is the pool's again
	watch  *time.Timer // hangs up when the lease is over
}

func (x *session) check(ctx context.Context) error {
	if x.closed.Load() {
		return backend.ErrClosed
	}
	return ctx.Err()
}

// Lock implements backend.Locker.
func (x *session) Lock(ctx context.Context, name string, mode backend.LockMode, wait time.Duration) (backend.Grant, error) {
	if err := x.check(ctx); err != nil {
		return backend.Grant{}, err
	}
	if err := checkLock(name, mode); err != nil {
		return backend.Grant{}, err
	}
	return x.s.acquire(ctx, &ask{owner: x.owner, name: name, mode: mode}, wait)
}

// Unlock implements backend.Locker.
func (x *session) Unlock(ctx context.Context, name string) error {
	if err := x.check(ctx); err != nil {
		return err
	}
	return x.s.unlock(ctx, x.owner, name)
}

// HeldMode implements backend.Locker.
func (x *session) HeldMode(ctx context.Context, name string) (m backend.LockMode, err error) {
	if err := x.check(ctx); err != nil {
		return m, err
	}
	err = x.s.reading(ctx, func(r run) error {
		m, err = r.lockMode(ctx, x.owner, name)
		return err
	})
	return m, err
}

// LockTest implements backend.Locker.
func (x *session) LockTest(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	if err := x.check(ctx); err != nil {
		return false, err
	}
	if err := checkLock(name, mode); err != nil {
		return false, err
	}
	return x.s.lockTest(ctx, &ask{owner: x.owner, name: name, mode: mode})
}

// Renew implements backend.Session.
func (x *session) Renew(ctx context.Context) error {
	if err := x.check(ctx); err != nil {
		return err
	}
	if err := x.beat(ctx); err != nil {
		return x.s.fail(ctx, err)
	}
	err := x.s.aside(ctx, func(tx *Tx) error {
		n, err := tx.Exec(ctx, x.s.q.OwnerRenew, x.lease, x.owner.id)
		if err == nil && n == 0 {
			err = backend.ErrFenced
		}
		return err
	})
	if err == nil && x.line != nil {
		x.watch.Reset(x.lease)
	}
	return err
}

// Close implements backend.Session.
func (x *session) Close(ctx context.Context) error {
	if x.closed.Swap(true) {
		return nil
	}
	x.hangUp()
	return x.s.dismiss(ctx, x.owner)
}

// A transaction as an owner.

// txName is what operators see of it.
func txName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("transaction of %s/%d", host, os.Getpid())
}

// txLocks are the locks of a transaction.
type txLocks struct {
	owner  *lockOwner
	native *nativeLocks
	// granted are what a transaction has that is the only one: no other owner
	// needs to know.
	granted map[string]*grant
}

type grant struct {
	mode  backend.LockMode
	times int
	fence int64
}

// Lock implements backend.Locker.
func (t *Tx) Lock(ctx context.Context, name string, mode backend.LockMode, wait time.Duration) (g backend.Grant, err error) {
	if err := t.ready(ctx); err != nil {
		return g, err
	}
	if err := checkLock(name, mode); err != nil {
		return g, err
	}
	if t.s.d.Futile {
		return t.lockAlone(ctx, &ask{name: name, mode: mode}, wait)
	}
	if err := t.own(ctx); err != nil {
		return g, err
	}
	return t.s.acquire(ctx, &ask{owner: *t.locks.owner, name: name, mode: mode}, wait)
}

// own makes the transaction an owner: a row of its own, stored by another
// transaction, that this one has locked.
func (t *Tx) own(ctx context.Context) error {
	if t.locks.owner != nil {
		return nil
	}
	for {
		o, err := t.s.newOwner(ctx, ownerTx, txName(), 0)
		if err != nil {
			return err
		}
		n, err := t.Exec(ctx, t.s.q.OwnerHold, o.id)
		if err != nil {
			return err
		}
		if n > 0 { // else it was removed before it was locked
			o.native = t.native()
			t.locks.owner = &o
			return nil
		}
	}
}

// ownAgain locks the owner's row after a rollback to a savepoint, which may have
// unlocked it. Another owner may have found it so.
func (t *Tx) ownAgain(ctx context.Context) error {
	if t.locks.owner == nil || t.locks.owner.kind != ownerTx {
		return nil
	}
	n, err := t.Exec(ctx, t.s.q.OwnerHold, t.locks.owner.id)
	if err != nil || n > 0 {
		return err
	}
	if k := t.locks.owner.native; k != nil {
		k.Lock()
		defer k.Unlock()
		err = k.dropAll(ctx)
	}
	t.locks.owner = nil
	return t.s.fail(ctx, err)
}

// freeLocks ends the transaction's locks after its end. If that fails, others
// find out by themselves.
func (t *Tx) freeLocks(ctx context.Context) {
	if t.locks.owner == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	_ = t.s.dismiss(ctx, *t.locks.owner)
	t.locks.owner = nil
}

// lockAlone decides in the transaction itself: no other transaction writes meanwhile. Before
// it begins to write, others can still release what it asks for: it waits like a session, and
// then takes its turn.
func (t *Tx) lockAlone(ctx context.Context, a *ask, wait time.Duration) (g backend.Grant, err error) {
	if t.waits() && wait != 0 {
		if t.locks.owner == nil {
			o, err := t.s.newOwner(ctx, ownerSession, txName(), txLease)
			if err != nil {
				return g, err
			}
			t.locks.owner = &o
		}
		a.owner = *t.locks.owner
		if _, err := t.s.acquire(ctx, a, wait); err != nil {
			return g, err
		}
	}
	if t.locks.owner != nil {
		a.owner = *t.locks.owner
		if err := t.alive(ctx, a.owner); err != nil {
			return g, err
		}
	}
	fence, rows, err := t.turn(ctx, a.name)
	if err == nil {
		rows, err = t.clear(ctx, rows, a)
	}
	if err != nil {
		return g, err
	}
	mine := t.locks.granted[a.name]
	if mine != nil { // it waits for no request
		rows = without(rows, func(r lockRow) bool { return r.waiting })
	}
	if len(against(rows, a)) > 0 {
		if wait != 0 {
			return g, Classified(backend.ErrWouldDeadlock, backend.ErrLockTimeout)
		}
		return g, backend.ErrLockTimeout
	}
	if mine == nil {
		mine = &grant{fence: fence}
		if t.locks.granted == nil {
			t.locks.granted = make(map[string]*grant)
		}
		t.locks.granted[a.name] = mine
	}
	mine.times++
	mine.mode |= a.mode
	return backend.Grant{Waited: a.waited, Mode: mine.mode, Fence: mine.fence}, nil
}

// waits reports whether the transaction has yet to take its turn.
func (t *Tx) waits() bool {
	l, ok := t.sess.(lazy)
	return ok && !l.Begun()
}

// Unlock implements backend.Locker.
func (t *Tx) Unlock(ctx context.Context, name string) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	if t.s.d.Futile {
		g := t.locks.granted[name]
		if g == nil {
			return backend.ErrNotLocked
		}
		if g.times--; g.times == 0 {
			delete(t.locks.granted, name)
		}
		return nil
	}
	if t.locks.owner == nil {
		return backend.ErrNotLocked
	}
	return t.s.unlock(ctx, *t.locks.owner, name)
}

// HeldMode implements backend.Locker.
func (t *Tx) HeldMode(ctx context.Context, name string) (m backend.LockMode, err error) {
	if err := t.ready(ctx); err != nil {
		return m, err
	}
	if g := t.locks.granted[name]; g != nil {
		return g.mode, nil
	}
	if t.s.d.Futile || t.locks.owner == nil {
		return backend.LockNone, nil
	}
	err = t.s.reading(ctx, func(r run) error {
		m, err = r.lockMode(ctx, *t.locks.owner, name)
		return err
	})
	return m, err
}

// LockTest implements backend.Locker.
func (t *Tx) LockTest(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	if err := t.ready(ctx); err != nil {
		return false, err
	}
	if err := checkLock(name, mode); err != nil {
		return false, err
	}
	a := &ask{name: name, mode: mode, owner: lockOwner{kind: ownerTx, native: t.native()}}
	if t.locks.owner != nil {
		a.owner = *t.locks.owner
	}
	if !t.s.d.Futile {
		return t.s.lockTest(ctx, a)
	}
	free := true
	err := t.look(ctx, func(r run) error {
		rows, err := r.lockRows(ctx, name)
		for _, x := range against(rows, a) {
			free = free && (x.over() || x.waiting && t.locks.granted[name] != nil)
		}
		return err
	})
	return free, err
}

// Fence implements backend.TxLocks.
func (t *Tx) Fence(ctx context.Context, name string, fence int64) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	for range 2 {
		n, err := t.Exec(ctx, t.s.q.FenceRaise, fence, name, fence)
		if err != nil || n > 0 {
			return err
		}
		if n, err = t.Exec(ctx, t.s.q.FenceInsert, name, fence); err != nil || n > 0 {
			return err
		}
	}
	return backend.ErrFenced
}
