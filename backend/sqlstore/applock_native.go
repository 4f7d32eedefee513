package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// On an engine with locks of its own an owner may have these beside its rows. The rows say who
// comes next, count, name and list. What they would grant is granted only when the engine has given
// its own locks as well, on the owner's connection. No owner ever waits for these in the engine:
// they are tried under the name's stripe. So two live owners never have a lock together, whatever
// happens to rows, leases and clocks. The locks of a lost connection are free at once.

// Locks is how application locks are kept.
type Locks int

// The values of Locks: as rows, or as the engine's own locks too.
const (
	LocksRows Locks = iota
	LocksNative
)

// String returns what ParseLocks takes.
func (l Locks) String() string {
	if l == LocksNative {
		return "native"
	}
	return "rows"
}

// ParseLocks is for a parameter of a data source name.
func ParseLocks(s string) (Locks, error) {
	switch s {
	case "", "rows":
		return LocksRows, nil
	case "native":
		return LocksNative, nil
	}
	return 0, fmt.Errorf("parley_locks=%s: want rows or native", s)
}

// NativeLocks are the engine's own locks of one owner.
type NativeLocks interface {
	// Take adds a mode to what it has of a name, without waiting, and reports
	// whether it could.
	Take(ctx context.Context, name string, mode backend.LockMode) (bool, error)
	// Test reports whether Take could. Both are called under the name's stripe, since
	// an engine may have to take for a moment what it is asked about.
	Test(ctx context.Context, name string, mode backend.LockMode) (bool, error)
	// Drop goes back to an earlier mode of a name, as far as the engine can;
	// LockNone is letting go of it. It reports false if that has to wait for the
	// end of the transaction.
	Drop(ctx context.Context, name string, to backend.LockMode) (bool, error)
}

// Line is the NativeLocks of a session, on a connection that others can see.
type Line interface {
	NativeLocks
	// Beat fails with ErrFenced if the connection is lost.
	Beat(ctx context.Context) error
	// Close lets go of everything.
	Close(ctx context.Context) error
}

// nativeLocks lets one request of an owner after the other use its NativeLocks.
type nativeLocks struct {
	sync.Mutex
	NativeLocks
	names map[string]bool // that it may have
}

// dropAll lets go of everything, for an owner whose rows are gone.
func (k *nativeLocks) dropAll(ctx context.Context) error {
	for name := range k.names {
		if _, err := k.Drop(ctx, name, backend.LockNone); err != nil {
			return err
		}
		delete(k.names, name)
	}
	return nil
}

// exclusively decides about an owner's request in a transaction, and takes back
// what the engine gave if that comes to nothing.
func (a *ask) exclusively(ctx context.Context, decide func() error) error {
	k := a.owner.native
	if k == nil {
		return decide()
	}
	k.Lock()
	defer k.Unlock()
	a.taken = false
	err := decide()
	if err != nil && a.taken {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		_, dropping := k.Drop(ctx, a.name, a.had)
		err = errors.Join(err, dropping)
	}
	return err
}

// take has the engine lock what the rows grant. had is what the owner has.
func (a *ask) take(ctx context.Context, had *lockRow) (ok bool, err error) {
	switch {
	case a.owner.native == nil:
		return true, nil
	case a.test:
		return a.owner.native.Test(ctx, a.name, a.mode)
	}
	a.had = backend.LockNone
	if had != nil {
		a.had = had.mode
	}
	k := a.owner.native
	if a.taken, err = k.Take(ctx, a.name, a.mode); a.taken {
		if k.names == nil {
			k.names = map[string]bool{}
		}
		k.names[a.name] = true
	}
	return a.taken, err
}

// drop lets go of a name, and reports whether the engine has.
func (o lockOwner) drop(ctx context.Context, name string) (bool, error) {
	if o.native == nil {
		return true, nil
	}
	dropped, err := o.native.Drop(ctx, name, backend.LockNone)
	if dropped {
		delete(o.native.names, name)
	}
	return dropped, err
}

// end ends the connection of a native session whose lease is over, so that its
// locks can be given to others.
func (t *Tx) end(ctx context.Context, id backend.ID) error {
	if t.s.q.OwnerEnd.Empty() {
		return nil
	}
	if _, err := t.Row(ctx, []any{new(any)}, t.s.q.OwnerEnd, id); err != nil {
		return fmt.Errorf("parley: the connection of a session whose lease is over is still there, and could not be ended: %w", err)
	}
	return nil
}

// spareConns are left to others by lines, as by workers.
const spareConns = 2

// openLine makes a session native.
func (x *session) openLine(ctx context.Context) error {
	s := x.s
	s.mu.Lock()
	if n := s.conns(); n > 0 && n <= spareConns {
		s.mu.Unlock()
		return fmt.Errorf("parley: a session with native locks keeps a connection of the pool, and only %d are left: raise the pool's limit: %w", n, backend.ErrPool)
	}
	s.lines[x] = struct{}{}
	x.unkept = s.KeepsConn()
	s.mu.Unlock()
	line, err := patiently(ctx, s, func(ctx context.Context) (Line, error) { return s.d.OpenLine(ctx, x.owner.id) })
	s.mu.Lock()
	if err != nil {
		delete(s.lines, x)
		x.unkept()
		s.mu.Unlock()
		return s.fail(ctx, err)
	}
	x.line, x.owner.native = line, &nativeLocks{NativeLocks: line}
	x.watch = time.AfterFunc(x.lease, x.hangUp)
	s.mu.Unlock()
	if s.closed.Load() { // meanwhile, and Close may have looked before there was a line
		x.hangUp()
		return backend.ErrClosed
	}
	return nil
}

// hangUp ends the line, and with it the locks.
func (x *session) hangUp() {
	x.s.mu.Lock()
	_, open := x.s.lines[x]
	open = open && x.line != nil // it may still be on the way
	if open {
		delete(x.s.lines, x)
	}
	x.s.mu.Unlock()
	if !open {
		return
	}
	x.watch.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), cleanUp)
	defer cancel()
	_ = x.line.Close(ctx) // the connection is given up if it fails
	x.unkept()
	x.s.released.signal()
}

// beat proves that a native session still has its connection.
func (x *session) beat(ctx context.Context) error {
	if x.line == nil {
		return nil
	}
	// A driver may give up the connection when the caller's context ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.lease)
	defer cancel()
	return x.line.Beat(ctx)
}

// native returns the NativeLocks of a transaction, nil if the engine has none.
func (t *Tx) native() *nativeLocks {
	if t.locks.native == nil && t.s.d.TxNative != nil {
		t.locks.native = &nativeLocks{NativeLocks: t.s.d.TxNative(t)}
	}
	return t.locks.native
}
