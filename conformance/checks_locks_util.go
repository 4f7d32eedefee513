package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
)

// lckModes are the modes that can be asked for.
var lckModes = []backend.LockMode{backend.LockIS, backend.LockS, backend.LockU, backend.LockIX, backend.LockX}

// lckMatrix says which of lckModes may be held together. It stands here once
// more, so that a mistake in backend.LockMode.Compatible, which backends use,
// does not pass.
var lckMatrix = [][]bool{
	//  IS     S      U      IX     X
	{true, true, true, true, false},     // IS
	{true, true, true, false, false},    // S
	{true, true, false, false, false},   // U
	{true, false, false, true, false},   // IX
	{false, false, false, false, false}, // X
}

// lckSession opens a session on a handle, closed at the end of the check.
func lckSession(e *env, be backend.Backend) backend.Session {
	s, err := be.OpenSession(e.Ctx, 30*time.Second, "conformance")
	e.Must(err)
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Ctx), 10*time.Second)
		defer cancel()
		s.Close(ctx)
	})
	return s
}

// lckTx opens a transaction, rolled back at the end of the check.
func lckTx(e *env, be backend.Backend) backend.Tx {
	tx, err := be.Begin(e.Ctx)
	e.Must(err)
	e.Cleanup(func() { tx.Rollback(context.WithoutCancel(e.Ctx)) })
	return tx
}

// lckGet takes a lock that must be granted at once.
func lckGet(e *env, o backend.Locker, name string, mode backend.LockMode) backend.Grant {
	g, err := o.Lock(e.Ctx, name, mode, 0)
	if err != nil {
		e.Fatalf("lock in mode %v: %v, want it granted", mode, err)
	}
	return g
}

// lckTry asks without waiting, compares with what should come, and gives back
// what was granted.
func lckTry(e *env, o backend.Locker, name string, mode backend.LockMode, want bool, why string) {
	free, err := o.LockTest(e.Ctx, name, mode)
	e.Must(err)
	if free != want {
		e.Errorf("%s: LockTest of mode %v says %t, want %t", why, mode, free, want)
	}
	_, err = o.Lock(e.Ctx, name, mode, 0)
	switch {
	case err == nil && !want:
		e.Errorf("%s: mode %v was granted", why, mode)
	case err != nil && (want || !errors.Is(err, backend.ErrLockTimeout)):
		e.Errorf("%s: lock in mode %v: %v, want granted: %t", why, mode, err, want)
	}
	if err == nil {
		e.Must(o.Unlock(e.Ctx, name))
	}
}

// lckMode compares the mode in which an owner holds a lock.
func lckMode(e *env, o backend.Locker, name string, want backend.LockMode) {
	got, err := o.HeldMode(e.Ctx, name)
	e.Must(err)
	if got.String() != want.String() {
		e.Errorf("the owner holds mode %v, want %v", got, want)
	}
}

// lckGranted is the outcome of a request that waits in another goroutine.
type lckGranted struct {
	g   backend.Grant
	err error
}

// lckWait asks in another goroutine and returns once the request is seen to
// wait.
func lckWait(e *env, be backend.Backend, o backend.Locker, name string, mode backend.LockMode, wait time.Duration) <-chan lckGranted {
	waiting := func() (n int) {
		locks, err := be.AppLocks(e.Ctx, name)
		e.Must(err)
		for _, l := range locks {
			if l.Waiting && l.Name == name {
				n++
			}
		}
		return n
	}
	before := waiting()
	c := make(chan lckGranted, 1)
	go func() {
		g, err := o.Lock(e.Ctx, name, mode, wait)
		c <- lckGranted{g, err}
	}()
	if !e.Soon(5*time.Second, func() bool { return waiting() > before }) {
		e.Fatalf("a request for mode %v that has to wait is not seen to do so; it got %+v", mode, <-c)
	}
	return c
}

// lckGrantedSoon ends the check unless the request is granted soon.
func lckGrantedSoon(e *env, c <-chan lckGranted) backend.Grant {
	start := time.Now()
	r := <-c
	if r.err != nil {
		e.Fatalf("a request that waited got %v, want it granted", r.err)
	}
	if !r.g.Waited {
		e.Errorf("a request that waited was granted with Waited false")
	}
	e.Within(queSlow, time.Since(start), "a request was granted %v after it could be")
	return r.g
}
