package conformance

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "L06", Name: "the locks of a transaction end with it, and only they", Run: checkLockTxEnds},
		check{ID: "L07", Name: "the locks of a session end with it or its lease, and fences grow", Run: checkLockSessionEnds},
		check{ID: "L07", Name: "a former owner's writes are refused", Run: checkLockFence},
		check{ID: "L07", Name: "the locks of a process that was killed", Run: checkLockKilled},
	)
}

func init() {
	addRole("hold a lock", func(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
		s, err := applock.Open(ctx, b, &applock.Options{Lease: lckChildLease})
		if err != nil {
			return err
		}
		g, err := s.Lock(ctx, args[0], applock.Exclusive, -1)
		if err != nil {
			return err
		}
		return b.InTx(ctx, func(tx *parley.Tx) error {
			if len(args) > 1 {
				if _, err := applock.In(tx).Lock(ctx, args[1], applock.Exclusive, -1); err != nil {
					return err
				}
			}
			say("%d", g.Fence)
			hear.Scan() // until it is killed
			return nil
		})
	})
}

func checkLockTxEnds(e *env) {
	be := e.Handle()
	s := lckSession(e, e.Handle())
	name := e.Name("lock")
	for _, commit := range []bool{true, false} {
		tx := lckTx(e, be)
		e.Is(tx.Unlock(e.Ctx, name), backend.ErrNotLocked)
		lckGet(e, tx, name, backend.LockX)
		lckGet(e, tx, name, backend.LockX)
		if e.ManyWriters() {
			lckTry(e, s, name, backend.LockIS, false, "while a transaction holds it")
		}
		if commit {
			e.Must(tx.Commit(e.Ctx))
		} else {
			e.Must(tx.Rollback(e.Ctx))
		}
		lckTry(e, s, name, backend.LockX, true, fmt.Sprintf("after the transaction that held it ended, by commit: %t", commit))

		// A session's stays, whatever transactions do meanwhile.
		lckGet(e, s, name, backend.LockX)
		tx = lckTx(e, be)
		lckTry(e, tx, name, backend.LockIS, false, "while a session holds it")
		if commit {
			e.Must(tx.Commit(e.Ctx))
		} else {
			e.Must(tx.Rollback(e.Ctx))
		}
		lckMode(e, s, name, backend.LockX)
		e.Must(s.Unlock(e.Ctx, name))
	}
}

func checkLockSessionEnds(e *env) {
	be := e.Handle()
	waiter := lckSession(e, e.Handle())
	name := e.Name("lock")
	last := lckGet(e, waiter, name, backend.LockX).Fence
	e.Must(waiter.Unlock(e.Ctx, name))
	fence := func(g backend.Grant) {
		if g.Fence <= last {
			e.Errorf("the fence of a later owner is %d, that of an earlier one %d", g.Fence, last)
		}
		last = g.Fence
	}

	closed := lckSession(e, be)
	fence(lckGet(e, closed, name, backend.LockX))
	e.Must(closed.Close(e.Ctx))
	fence(lckGet(e, waiter, name, backend.LockX))
	e.Must(waiter.Unlock(e.Ctx, name))

	// A renewed session lives on; then it is renewed no more.
	const lease = 500 * time.Millisecond
	mortal, err := be.OpenSession(e.Ctx, lease, "conformance, mortal")
	e.Must(err)
	e.Cleanup(func() { mortal.Close(context.WithoutCancel(e.Ctx)) })
	fence(lckGet(e, mortal, name, backend.LockX))
	var renewed time.Time
	for start := time.Now(); time.Since(start) < 2*lease; time.Sleep(lease / 10) {
		before := time.Now()
		if err := mortal.Renew(e.Ctx); err != nil {
			if time.Since(renewed) < lease { // else this process was too slow to say
				e.Errorf("a session with a lease of %v that is renewed all the time: %v", lease, err)
			}
			return
		}
		renewed = before
	}
	g, err := waiter.Lock(e.Ctx, name, backend.LockX, queLost)
	e.Must(err)
	passed := time.Since(renewed)
	if passed < lease-tmrEarly {
		e.Errorf("the lock of a session that was no longer renewed, with a lease of %v, was granted to the next after %v", lease, passed)
	}
	e.Within(lease+queSlow, passed, "the lock of a session that was no longer renewed was granted to the next after %v")
	fence(g)
	e.Is(mortal.Renew(e.Ctx), backend.ErrFenced)
}

func checkLockFence(e *env) {
	be := e.Handle()
	name := e.Name("lock")
	a, b := lckSession(e, be), lckSession(e, e.Handle())
	first := lckGet(e, a, name, backend.LockX).Fence
	write := func(fence int64) error {
		return tskTx(e.Ctx, be, func(tx backend.Tx) error { return tx.Fence(e.Ctx, name, fence) })
	}
	e.Must(write(first))
	e.Must(write(first)) // any number of times
	e.Must(a.Close(e.Ctx))
	second := lckGet(e, b, name, backend.LockX).Fence
	if second <= first {
		e.Errorf("the fence of the next owner is %d, that of the one before %d", second, first)
	}
	e.Must(write(first)) // the next owner has not written yet: it came before
	tx := lckTx(e, be)
	e.Must(tx.Fence(e.Ctx, name, second))
	e.Must(tx.Rollback(e.Ctx))
	e.Must(write(first)) // that did not happen
	e.Must(write(second))
	e.Is(write(first), backend.ErrFenced)
	e.Must(write(second))

	// A write that is in flight makes the others wait for its end.
	if !e.ManyWriters() {
		return
	}
	third := second + 1
	tx = lckTx(e, be)
	e.Must(tx.Fence(e.Ctx, name, third))
	late := make(chan error, 1)
	go func() { late <- write(second) }()
	select {
	case err := <-late:
		e.Fatalf("a write under an older fence ended with %v while one under a later fence was not committed", err)
	case <-time.After(100 * time.Millisecond):
	}
	e.Must(tx.Commit(e.Ctx))
	e.Is(<-late, backend.ErrFenced)
}

// lckChildLease is the lease of the session of a child.
const lckChildLease = 3 * time.Second // a busy machine may let a process wait for a second

func checkLockKilled(e *env) {
	name, inTx := e.Name("session's"), e.Name("transaction's")
	args := []string{name}
	if e.ManyWriters() {
		args = append(args, inTx)
	}
	child := e.Child("hold a lock", args...)
	var fence int64
	if _, err := fmt.Sscan(child.Hear(), &fence); err != nil {
		e.Fatalf("the child's fence: %v", err)
	}
	be := e.Handle()
	s := lckSession(e, be)
	for _, n := range args {
		lckTry(e, s, n, backend.LockIS, false, "while another process holds it")
	}
	// A session that renewed itself once would be over by then.
	for start := time.Now(); time.Since(start) < 3*lckChildLease/2; time.Sleep(lckChildLease / 5) {
		lckTry(e, s, name, backend.LockIS, false, "while another process holds it and renews its session")
	}
	child.Kill()
	start := time.Now()
	for _, n := range args {
		g, err := s.Lock(e.Ctx, n, backend.LockX, queLost)
		e.Must(err)
		e.Within(lckChildLease+queSlow, time.Since(start), "a lock of a process that was killed was free after %v")
		if n == name && g.Fence <= fence {
			e.Errorf("the fence of the next owner is %d, that of the one before %d", g.Fence, fence)
		}
	}
}
