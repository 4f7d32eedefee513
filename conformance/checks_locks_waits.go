package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "L02", Name: "a refused request fails in its time", Run: checkLockTimeout},
		check{ID: "L02", Name: "a refused request leaves the transaction usable", Run: checkLockTxUsable},
		check{ID: "L02", Name: "a waiting request is granted when it can be, and leaves no trace when it gives up", Run: checkLockWaits},
		check{ID: "L05", Name: "no request passes an incompatible waiting request", Run: checkLockFairness},
	)
}

func checkLockTimeout(e *env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("lock")
	lckGet(e, a, name, backend.LockX)
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		start := time.Now()
		_, err := b.Lock(e.Ctx, name, backend.LockS, wait)
		took := time.Since(start)
		e.Is(err, backend.ErrLockTimeout)
		if took < wait-tmrEarly {
			e.Errorf("a request with a wait of %v was refused after %v", wait, took)
		}
		e.Within(wait+queSlow, took, "a request whose wait was over was refused after %v")
	}
	ctx, cancel := context.WithTimeout(e.Ctx, 200*time.Millisecond)
	defer cancel()
	_, err := b.Lock(ctx, name, backend.LockS, -1)
	e.Is(err, context.DeadlineExceeded)
	lckMode(e, b, name, backend.LockNone)
	lckMode(e, a, name, backend.LockX)
}

func checkLockTxUsable(e *env) {
	s := lckSession(e, e.Handle())
	name := e.Name("lock")
	lckGet(e, s, name, backend.LockX)
	be := e.Handle()
	waits := []time.Duration{0}
	if e.ManyWriters() { // else no session could release it meanwhile
		waits = append(waits, 200*time.Millisecond)
	}
	for i, wait := range waits {
		tx := lckTx(e, be)
		key := e.Name(fmt.Sprint("key ", i))
		before, err := tx.Once(e.Ctx, key+" before", time.Hour)
		e.Must(err)
		_, err = tx.Lock(e.Ctx, name, backend.LockS, wait)
		e.Is(err, backend.ErrLockTimeout)
		after, err := tx.Once(e.Ctx, key+" after", time.Hour)
		e.Must(err)
		lckGet(e, tx, e.Name("another"), backend.LockX)
		e.Must(tx.Commit(e.Ctx))
		tx = lckTx(e, be)
		for _, k := range []string{" before", " after"} {
			fresh, err := tx.Once(e.Ctx, key+k, time.Hour)
			e.Must(err)
			if fresh || !before || !after {
				e.Errorf("what a transaction wrote%s a refused request was not committed with it", k)
			}
		}
		e.Must(tx.Rollback(e.Ctx))
	}
}

func checkLockWaits(e *env) {
	be := e.Handle()
	a, b, c := lckSession(e, be), lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("lock")
	if g := lckGet(e, a, name, backend.LockX); g.Waited {
		e.Errorf("a lock that was free was granted with Waited true")
	}
	granted := lckWait(e, be, b, name, backend.LockX, 20*time.Second)
	e.Must(a.Unlock(e.Ctx, name))
	if g := lckGrantedSoon(e, granted); g.Mode&backend.LockX == 0 {
		e.Errorf("the granted mode is %v, want %v", g.Mode, backend.LockX)
	}

	// A request that gave up stands in no other request's way.
	_, err := a.Lock(e.Ctx, name, backend.LockX, 100*time.Millisecond)
	e.Is(err, backend.ErrLockTimeout)
	e.Must(b.Unlock(e.Ctx, name))
	lckGet(e, b, name, backend.LockS)
	lckTry(e, c, name, backend.LockS, true, "after a request for mode Exclusive gave up")
}

func checkLockFairness(e *env) {
	be := e.Handle()
	first, second, third, fourth := lckSession(e, be), lckSession(e, e.Handle()), lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("lock")
	lckGet(e, first, name, backend.LockS)
	exclusive := lckWait(e, be, second, name, backend.LockX, 30*time.Second)
	lckTry(e, third, name, backend.LockS, false, "while another holds mode Shared and one waits for Exclusive")
	shared := lckWait(e, be, third, name, backend.LockS, 30*time.Second)
	also := lckWait(e, be, fourth, name, backend.LockS, 30*time.Second)

	// Who holds it already waits for other owners only.
	lckGet(e, first, name, backend.LockS)
	e.Must(first.Unlock(e.Ctx, name))
	e.Must(first.Unlock(e.Ctx, name))

	lckGrantedSoon(e, exclusive)
	select {
	case r := <-shared:
		e.Fatalf("a request that came after one for mode Exclusive got %+v while that is held", r)
	case r := <-also:
		e.Fatalf("a request that came after one for mode Exclusive got %+v while that is held", r)
	case <-time.After(50 * time.Millisecond):
	}
	e.Must(second.Unlock(e.Ctx, name))
	lckGrantedSoon(e, shared)
	lckGrantedSoon(e, also)
}
