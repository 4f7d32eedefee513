package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "L01", Name: "every pair of modes, between sessions", Run: checkLockPairs},
		Check{ID: "L01", Name: "every pair of modes, between transactions and sessions", Run: checkLockPairsOfTx},
		Check{ID: "L01", Name: "names are compared byte by byte", Run: checkLockNames},

		Check{ID: "L02", Name: "a refused request fails in its time", Run: checkLockTimeout},
		Check{ID: "L02", Name: "a refused request leaves the transaction usable", Run: checkLockTxUsable},
		Check{ID: "L02", Name: "a waiting request is granted when it can be, and leaves no trace when it gives up", Run: checkLockWaits},
		Check{ID: "L02", Name: "of owners that wait for each other one is told", Run: checkLockDeadlock},

		Check{ID: "L03", Name: "a lock counts how often it was taken", Run: checkLockCounts},
		Check{ID: "L03", Name: "the locks of a transaction end with it, and only they", Run: checkLockTxEnds},
		Check{ID: "L03", Name: "the locks of a session end with it or its lease, and fences grow", Run: checkLockSessionEnds},

		Check{ID: "L04", Name: "modes add up and stay", Run: checkLockUnions},

		Check{ID: "L05", Name: "nobody passes an incompatible request that waits", Run: checkLockFairness},
	)
}

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
func lckSession(e *Env, be backend.Backend) backend.Session {
	s, err := be.OpenSession(e.Ctx, 30*time.Second, "conformance")
	if errors.Is(err, errors.ErrUnsupported) {
		e.Skipf("this backend has no application locks yet")
	}
	e.Must(err)
	e.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.Ctx), 10*time.Second)
		defer cancel()
		s.Close(ctx)
	})
	return s
}

// lckTx opens a transaction, rolled back at the end of the check.
func lckTx(e *Env, be backend.Backend) backend.Tx {
	tx, err := be.Begin(e.Ctx)
	e.Must(err)
	e.Cleanup(func() { tx.Rollback(context.WithoutCancel(e.Ctx)) })
	return tx
}

// lckGet takes a lock that must be granted at once.
func lckGet(e *Env, o backend.Locker, name string, mode backend.LockMode) backend.Grant {
	g, err := o.Lock(e.Ctx, name, mode, 0)
	if errors.Is(err, errors.ErrUnsupported) {
		e.Skipf("this backend has no application locks yet")
	}
	if err != nil {
		e.Fatalf("lock in mode %v: %v, want it granted", mode, err)
	}
	return g
}

// lckTry asks without waiting, compares with what should come, and gives back
// what was granted.
func lckTry(e *Env, o backend.Locker, name string, mode backend.LockMode, want bool, why string) {
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

func checkLockPairs(e *Env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	for i, held := range lckModes {
		for j, asked := range lckModes {
			name := e.Name(fmt.Sprint(i, j))
			lckGet(e, a, name, held)
			lckTry(e, b, name, asked, lckMatrix[i][j], fmt.Sprintf("while another session holds mode %v", held))
			e.Must(a.Unlock(e.Ctx, name))
			lckTry(e, b, name, asked, true, "after the other session has released it")
		}
	}
}

func checkLockPairsOfTx(e *Env) {
	be, other := e.Handle(), e.Handle()
	s := lckSession(e, other)
	for i, held := range lckModes {
		for j, asked := range lckModes {
			name := e.Name(fmt.Sprint(i, j))
			why := fmt.Sprintf("while another owner holds mode %v", held)

			lckGet(e, s, name, held)
			tx := lckTx(e, be)
			lckTry(e, tx, name, asked, lckMatrix[i][j], why)
			e.Must(tx.Rollback(e.Ctx))
			e.Must(s.Unlock(e.Ctx, name))

			if !e.HoldsInTransaction() {
				continue // with a single writer nobody else can ask meanwhile
			}
			tx = lckTx(e, be)
			lckGet(e, tx, name, held)
			lckTry(e, s, name, asked, lckMatrix[i][j], why)
			tx2 := lckTx(e, other)
			lckTry(e, tx2, name, asked, lckMatrix[i][j], why)
			e.Must(tx.Commit(e.Ctx))
			lckTry(e, tx2, name, asked, true, "after the other transaction has ended")
			e.Must(tx2.Rollback(e.Ctx))
		}
	}
}

func checkLockNames(e *Env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("name")
	lckGet(e, a, name, backend.LockX)
	for _, other := range []string{e.Name("Name"), name + " ", " " + name, name + "\u0301", name + "%"} {
		lckTry(e, b, other, backend.LockX, true, fmt.Sprintf("while another session holds %q, asking for %q", name, other))
	}
	lckTry(e, b, name, backend.LockIS, false, "while another session holds it")
}

func checkLockTimeout(e *Env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("lock")
	lckGet(e, a, name, backend.LockX)
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		start := time.Now()
		_, err := b.Lock(e.Ctx, name, backend.LockS, wait)
		took := time.Since(start)
		e.Is(err, backend.ErrLockTimeout)
		if took < wait-tmrEarly || took > wait+queSlow {
			e.Errorf("a request with a wait of %v was refused after %v", wait, took)
		}
	}
	ctx, cancel := context.WithTimeout(e.Ctx, 200*time.Millisecond)
	defer cancel()
	_, err := b.Lock(ctx, name, backend.LockS, -1)
	e.Is(err, context.DeadlineExceeded)
	lckMode(e, b, name, backend.LockNone)
	lckMode(e, a, name, backend.LockX)
}

// lckMode compares the mode in which an owner holds a lock.
func lckMode(e *Env, o backend.Locker, name string, want backend.LockMode) {
	got, err := o.LockMode(e.Ctx, name)
	e.Must(err)
	if got.String() != want.String() {
		e.Errorf("the owner holds mode %v, want %v", got, want)
	}
}

func checkLockTxUsable(e *Env) {
	s := lckSession(e, e.Handle())
	name := e.Name("lock")
	lckGet(e, s, name, backend.LockX)
	be := e.Handle()
	waits := []time.Duration{0}
	if e.HoldsInTransaction() { // else nobody could release it meanwhile
		waits = append(waits, 200*time.Millisecond)
	}
	for i, wait := range waits {
		tx := lckTx(e, be)
		key := e.Name(fmt.Sprint("key ", i))
		before, err := tx.Once(e.Ctx, key+" before")
		e.Must(err)
		_, err = tx.Lock(e.Ctx, name, backend.LockS, wait)
		e.Is(err, backend.ErrLockTimeout)
		after, err := tx.Once(e.Ctx, key+" after")
		e.Must(err)
		lckGet(e, tx, e.Name("another"), backend.LockX)
		e.Must(tx.Commit(e.Ctx))
		tx = lckTx(e, be)
		for _, k := range []string{" before", " after"} {
			fresh, err := tx.Once(e.Ctx, key+k)
			e.Must(err)
			if fresh || !before || !after {
				e.Errorf("what a transaction wrote%s a refused request was not committed with it", k)
			}
		}
		e.Must(tx.Rollback(e.Ctx))
	}
}

// lckGranted is the outcome of a request that waits in another goroutine.
type lckGranted struct {
	g   backend.Grant
	err error
}

// lckWait asks in another goroutine and returns once the request is seen to
// wait.
func lckWait(e *Env, be backend.Backend, o backend.Locker, name string, mode backend.LockMode, wait time.Duration) <-chan lckGranted {
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
func lckGrantedSoon(e *Env, c <-chan lckGranted) backend.Grant {
	start := time.Now()
	r := <-c
	if r.err != nil {
		e.Fatalf("a request that waited got %v, want it granted", r.err)
	}
	if !r.g.Waited {
		e.Errorf("a request that waited was granted as one that did not")
	}
	if took := time.Since(start); took > queSlow {
		e.Errorf("a request was granted %v after it could be", took)
	}
	return r.g
}

func checkLockWaits(e *Env) {
	be := e.Handle()
	a, b, c := lckSession(e, be), lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("lock")
	if g := lckGet(e, a, name, backend.LockX); g.Waited {
		e.Errorf("a lock that was free was granted as one that had to be waited for")
	}
	granted := lckWait(e, be, b, name, backend.LockX, 20*time.Second)
	e.Must(a.Unlock(e.Ctx, name))
	if g := lckGrantedSoon(e, granted); g.Mode&backend.LockX == 0 {
		e.Errorf("the granted mode is %v, want %v", g.Mode, backend.LockX)
	}

	// One that gave up stands in nobody's way.
	_, err := a.Lock(e.Ctx, name, backend.LockX, 100*time.Millisecond)
	e.Is(err, backend.ErrLockTimeout)
	e.Must(b.Unlock(e.Ctx, name))
	lckGet(e, b, name, backend.LockS)
	lckTry(e, c, name, backend.LockS, true, "after a request for mode Exclusive gave up")
}

func checkLockDeadlock(e *Env) {
	be := e.Handle()
	a, b := lckSession(e, be), lckSession(e, e.Handle())
	mine, theirs := e.Name("a's"), e.Name("b's")
	lckGet(e, a, mine, backend.LockX)
	lckGet(e, b, theirs, backend.LockX)
	first := lckWait(e, be, a, theirs, backend.LockX, queLost)
	start := time.Now()
	second := make(chan lckGranted, 1)
	go func() {
		g, err := b.Lock(e.Ctx, mine, backend.LockX, queLost)
		second <- lckGranted{g, err}
	}()
	victim, other := backend.Session(nil), (<-chan lckGranted)(nil)
	var r lckGranted
	select {
	case r = <-first:
		victim, other = a, second
	case r = <-second:
		victim, other = b, first
	}
	e.Is(r.err, backend.ErrLockDeadlock)
	if took := time.Since(start); took > queSlow {
		e.Errorf("of two owners that wait for each other one was told after %v", took)
	}
	// The victim still has what it had, and letting go of it helps the other.
	held := map[backend.Session]string{a: mine, b: theirs}[victim]
	lckMode(e, victim, held, backend.LockX)
	e.Must(victim.Unlock(e.Ctx, held))
	lckGrantedSoon(e, other)
}

func checkLockCounts(e *Env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("lock")
	e.Is(a.Unlock(e.Ctx, name), backend.ErrNotLocked)
	for _, mode := range lckModes {
		for range 3 {
			lckGet(e, a, name, mode)
		}
		for i := range 3 {
			if i == 1 {
				e.Is(b.Unlock(e.Ctx, name), backend.ErrNotLocked) // it is not b's
			}
			lckTry(e, b, name, backend.LockX, false, fmt.Sprintf("after mode %v was taken three times and released %d times", mode, i))
			e.Must(a.Unlock(e.Ctx, name))
		}
		lckMode(e, a, name, backend.LockNone)
		lckTry(e, b, name, backend.LockX, true, fmt.Sprintf("after mode %v was released as often as it was taken", mode))
		e.Is(a.Unlock(e.Ctx, name), backend.ErrNotLocked)
	}
}

func checkLockTxEnds(e *Env) {
	be := e.Handle()
	s := lckSession(e, e.Handle())
	name := e.Name("lock")
	for _, commit := range []bool{true, false} {
		tx := lckTx(e, be)
		e.Is(tx.Unlock(e.Ctx, name), backend.ErrNotLocked)
		lckGet(e, tx, name, backend.LockX)
		lckGet(e, tx, name, backend.LockX)
		if e.HoldsInTransaction() {
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

func checkLockSessionEnds(e *Env) {
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

	// One that is renewed lives on; then it is not.
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
	if passed := time.Since(renewed); passed < lease-tmrEarly || passed > lease+queSlow {
		e.Errorf("the lock of a session that was no longer renewed, with a lease of %v, was granted to the next after %v", lease, passed)
	}
	fence(g)
	e.Is(mortal.Renew(e.Ctx), backend.ErrFenced)
}

func checkLockUnions(e *Env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	name := e.Name("lock")
	const is, s, u, ix, x = backend.LockIS, backend.LockS, backend.LockU, backend.LockIX, backend.LockX
	for _, c := range []struct {
		take []backend.LockMode
		want backend.LockMode
	}{
		{[]backend.LockMode{s, ix}, backend.LockSIX},
		{[]backend.LockMode{ix, s}, backend.LockSIX},
		{[]backend.LockMode{u, ix}, backend.LockUIX},
		{[]backend.LockMode{s, x}, x},
		{[]backend.LockMode{x, s}, x},
		{[]backend.LockMode{is, u}, u},
		{[]backend.LockMode{is, s, ix, is}, backend.LockSIX},
	} {
		// Together they allow what each of them allows.
		allows := func(asked int) bool {
			for _, m := range c.take {
				for i, mode := range lckModes {
					if mode == m && !lckMatrix[i][asked] {
						return false
					}
				}
			}
			return true
		}
		for _, m := range c.take {
			lckGet(e, a, name, m)
		}
		for released := range c.take {
			why := fmt.Sprintf("while another session holds what it took as %v, released %d times", c.take, released)
			lckMode(e, a, name, c.want)
			for j, asked := range lckModes {
				lckTry(e, b, name, asked, allows(j), why)
			}
			e.Must(a.Unlock(e.Ctx, name))
		}
		lckMode(e, a, name, backend.LockNone)
		lckTry(e, b, name, x, true, "after all was released")
	}

	// Nobody is given more than the others' modes allow.
	lckGet(e, a, name, s)
	lckGet(e, b, name, s)
	_, err := a.Lock(e.Ctx, name, x, 0)
	e.Is(err, backend.ErrLockTimeout)
	lckMode(e, a, name, s)
}

func checkLockFairness(e *Env) {
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
