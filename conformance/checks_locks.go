package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "L01", Name: "every pair of modes, between sessions", Run: checkLockPairs},
		Check{ID: "L01", Name: "every pair of modes, between transactions and sessions", Run: checkLockPairsOfTx},
		Check{ID: "L01", Name: "every triple of modes", Run: checkLockTriples},

		Check{ID: "L02", Name: "a refused request fails in its time", Run: checkLockTimeout},
		Check{ID: "L02", Name: "a refused request leaves the transaction usable", Run: checkLockTxUsable},
		Check{ID: "L02", Name: "a waiting request is granted when it can be, and leaves no trace when it gives up", Run: checkLockWaits},

		Check{ID: "L03", Name: "a lock counts how often it was taken", Run: checkLockCounts},
		Check{ID: "L03", Name: "a transaction's lock counts, and is free before its end", Run: checkLockCountsOfTx},

		Check{ID: "L04", Name: "modes add up and stay", Run: checkLockUnions},

		Check{ID: "L05", Name: "nobody passes an incompatible request that waits", Run: checkLockFairness},

		Check{ID: "L06", Name: "the locks of a transaction end with it, and only they", Run: checkLockTxEnds},

		Check{ID: "L07", Name: "the locks of a session end with it or its lease, and fences grow", Run: checkLockSessionEnds},
		Check{ID: "L07", Name: "a former owner's writes are refused", Run: checkLockFence},
		Check{ID: "L07", Name: "the locks of a process that was killed", Run: checkLockKilled},

		Check{ID: "L08", Name: "of owners that wait for each other one is told", Run: checkLockDeadlock},
		Check{ID: "L08", Name: "of many owners in many cycles some go on", Run: checkLockCycles},
		Check{ID: "L08", Name: "a transaction that is told goes on", Run: checkLockDeadlockTx},

		Check{ID: "L09", Name: "names are compared byte by byte", Run: checkLockNames},
		Check{ID: "L09", Name: "long names, and those of another store", Run: checkLockLongNames},

		Check{ID: "L10", Name: "intent on the parent, exclusive on the child", Run: checkLockHierarchy},
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

func checkLockCountsOfTx(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("others do not see the locks of a transaction here before its end")
	}
	s := lckSession(e, e.Handle())
	tx := lckTx(e, e.Handle())
	name := e.Name("lock")
	for _, mode := range lckModes {
		lckGet(e, tx, name, mode)
		lckGet(e, tx, name, mode)
		e.Must(tx.Unlock(e.Ctx, name))
		lckTry(e, s, name, backend.LockX, false, fmt.Sprintf("after a transaction took mode %v twice and released it once", mode))
		e.Must(tx.Unlock(e.Ctx, name))
		lckMode(e, tx, name, backend.LockNone)
		lckTry(e, s, name, backend.LockX, true, fmt.Sprintf("after a transaction released mode %v as often as it took it", mode))
		e.Is(tx.Unlock(e.Ctx, name), backend.ErrNotLocked)
	}
	e.Must(tx.Commit(e.Ctx))
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

func checkLockTriples(e *Env) {
	a, b, c := lckSession(e, e.Handle()), lckSession(e, e.Handle()), lckSession(e, e.Handle())
	for i, first := range lckModes {
		for j, second := range lckModes {
			if !lckMatrix[i][j] {
				continue // no two hold these: see the pairs
			}
			for k, third := range lckModes {
				name := e.Name(fmt.Sprint(i, j, k))
				lckGet(e, a, name, first)
				lckGet(e, b, name, second)
				lckTry(e, c, name, third, lckMatrix[i][k] && lckMatrix[j][k], fmt.Sprintf("while others hold modes %v and %v", first, second))
				e.Must(a.Unlock(e.Ctx, name))
				lckTry(e, c, name, third, lckMatrix[j][k], fmt.Sprintf("while another holds mode %v, and %v was released", second, first))
				e.Must(b.Unlock(e.Ctx, name))
			}
		}
	}
}

func checkLockFence(e *Env) {
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
	e.Must(write(first)) // nobody has written since: it came before
	tx := lckTx(e, be)
	e.Must(tx.Fence(e.Ctx, name, second))
	e.Must(tx.Rollback(e.Ctx))
	e.Must(write(first)) // that did not happen
	e.Must(write(second))
	e.Is(write(first), backend.ErrFenced)
	e.Must(write(second))

	// One that is under way makes the others wait for its end.
	if !e.HoldsInTransaction() {
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
const lckChildLease = time.Second

func init() {
	addRole("hold a lock", func(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
		s, err := b.OpenSession(ctx, &parley.SessionOptions{Lease: lckChildLease})
		if err != nil {
			return err
		}
		g, err := s.Lock(ctx, args[0], parley.Exclusive, -1)
		if err != nil {
			return err
		}
		return b.InTx(ctx, func(tx *parley.Tx) error {
			if len(args) > 1 {
				if _, err := tx.Lock(ctx, args[1], parley.Exclusive, -1); err != nil {
					return err
				}
			}
			say("%d", g.Fence)
			hear.Scan() // until it is killed
			return nil
		})
	})
}

func checkLockKilled(e *Env) {
	name, inTx := e.Name("session's"), e.Name("transaction's")
	args := []string{name}
	if e.HoldsInTransaction() {
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
	for start := time.Now(); time.Since(start) < 2*lckChildLease; time.Sleep(lckChildLease / 5) {
		lckTry(e, s, name, backend.LockIS, false, "while another process holds it and renews its session")
	}
	child.Kill()
	start := time.Now()
	for _, n := range args {
		g, err := s.Lock(e.Ctx, n, backend.LockX, queLost)
		e.Must(err)
		if took := time.Since(start); took > lckChildLease+queSlow {
			e.Errorf("a lock of a process that was killed was free after %v, its lease was %v", took, lckChildLease)
		}
		if n == name && g.Fence <= fence {
			e.Errorf("the fence of the next owner is %d, that of the one before %d", g.Fence, fence)
		}
	}
}

// checkLockCycles lets owners take locks in random orders, as deadlocks come
// about: all end, with all that they wanted or as victims, and at every time one
// has each lock.
func checkLockCycles(e *Env) {
	const owners, locks, rounds = 6, 4, 8
	var mu sync.Mutex
	holder := make([]int, locks) // 0: nobody
	var done, victims int
	var wg sync.WaitGroup
	for i := range owners {
		s := lckSession(e, e.Handle())
		random := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for range rounds {
				order := random.Perm(locks)[:3]
				var held []int
				failed := false
				for _, l := range order {
					_, err := s.Lock(e.Ctx, e.Name(fmt.Sprint(l)), backend.LockX, queLost)
					if errors.Is(err, backend.ErrLockDeadlock) {
						failed = true
						break
					}
					if err != nil {
						e.Errorf("lock: %v", err)
						failed = true
						break
					}
					mu.Lock()
					if holder[l] != 0 {
						e.Errorf("owner %d was granted lock %d, which owner %d holds", i+1, l, holder[l])
					}
					holder[l] = i + 1
					mu.Unlock()
					held = append(held, l)
				}
				for _, l := range held {
					mu.Lock()
					holder[l] = 0
					mu.Unlock()
					if err := s.Unlock(e.Ctx, e.Name(fmt.Sprint(l))); err != nil {
						e.Errorf("a victim lost what it had: %v", err)
					}
				}
				mu.Lock()
				if failed {
					victims++
				} else {
					done++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if done == 0 {
		e.Errorf("of %d rounds all ended as victims", victims)
	}
	e.Logf("%d rounds done, %d victims", done, victims)
}

func checkLockDeadlockTx(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("transactions that write exclude each other here")
	}
	// Two that read and both want to write.
	name := e.Name("lock")
	type outcome struct {
		tx  backend.Tx
		err error
	}
	ends := make(chan outcome, 2)
	var both []backend.Tx
	for i := range 2 {
		tx := lckTx(e, e.Handle())
		if _, err := tx.Once(e.Ctx, e.Name(fmt.Sprint("before ", i))); err != nil {
			e.Fatalf("write: %v", err)
		}
		lckGet(e, tx, name, backend.LockS)
		both = append(both, tx)
	}
	for _, tx := range both {
		go func() {
			_, err := tx.Lock(e.Ctx, name, backend.LockX, queLost)
			ends <- outcome{tx, err}
		}()
	}
	start := time.Now()
	victim := <-ends
	e.Is(victim.err, backend.ErrLockDeadlock)
	if took := time.Since(start); took > queSlow {
		e.Errorf("of two transactions that wait for each other one was told after %v", took)
	}
	if _, err := victim.tx.Once(e.Ctx, e.Name("after")); err != nil {
		e.Fatalf("the transaction of a victim does not go on: %v", err)
	}
	lckMode(e, victim.tx, name, backend.LockS)
	e.Must(victim.tx.Commit(e.Ctx))
	other := <-ends
	e.Must(other.err)
	e.Must(other.tx.Commit(e.Ctx))
	e.Must(tskTx(e.Ctx, e.Handle(), func(tx backend.Tx) error {
		fresh, err := tx.Once(e.Ctx, e.Name("after"))
		if fresh {
			e.Errorf("what a victim wrote was not committed")
		}
		return err
	}))
}

func checkLockLongNames(e *Env) {
	a, b := lckSession(e, e.Handle()), lckSession(e, e.Handle())
	stem := e.Name("")
	fill := func(r string, n int, end string) string {
		return stem + strings.Repeat(r, n-utf8.RuneCountInString(stem)-utf8.RuneCountInString(end)) + end
	}
	for _, r := range []string{"x", "\u00e9", "\U0001F600"} {
		lckGet(e, a, fill(r, backend.MaxLockName, "1"), backend.LockX)
		lckTry(e, b, fill(r, backend.MaxLockName, "2"), backend.LockX, true, "while another holds a name that differs in the 255th character")
		lckTry(e, b, fill(r, backend.MaxLockName, "1"), backend.LockIS, false, "while another holds it")
		for _, n := range []int{backend.MaxLockName + 1, 300, 5000} {
			if _, err := b.Lock(e.Ctx, fill(r, n, "1"), backend.LockX, 0); err == nil || errors.Is(err, backend.ErrLockTimeout) {
				e.Errorf("a name of %d characters: %v, want it refused", n, err)
			}
		}
	}
	if e.r.store.Fresh == nil {
		return
	}
	other, err := e.r.store.Fresh(e.Ctx)
	e.Must(err)
	e.Cleanup(func() {
		if err := other.Uninstall(context.WithoutCancel(e.Ctx)); err != nil {
			e.Errorf("uninstall: %v", err)
		}
		other.Close()
	})
	e.Must(other.Migrate(e.Ctx))
	lckTry(e, lckSession(e, other), fill("x", backend.MaxLockName, "1"), backend.LockX, true, "while another holds it in another store")
}

func checkLockHierarchy(e *Env) {
	one, two, whole := lckSession(e, e.Handle()), lckSession(e, e.Handle()), lckSession(e, e.Handle())
	parent, first, second := e.Name("orders"), e.Name("orders/1"), e.Name("orders/2")
	lckGet(e, one, parent, backend.LockIX)
	lckGet(e, one, first, backend.LockX)
	lckTry(e, whole, parent, backend.LockS, false, "while another works on a child")
	lckTry(e, whole, parent, backend.LockIS, true, "to look at a child, while another works on one")
	lckTry(e, two, parent, backend.LockIX, true, "to work on another child")
	lckGet(e, two, parent, backend.LockIX)
	lckTry(e, two, first, backend.LockS, false, "on a child that another works on")
	lckGet(e, two, second, backend.LockX)
	e.Must(one.Unlock(e.Ctx, first))
	e.Must(one.Unlock(e.Ctx, parent))
	lckTry(e, whole, parent, backend.LockS, false, "while the second still works on a child")
	e.Must(two.Unlock(e.Ctx, second))
	e.Must(two.Unlock(e.Ctx, parent))
	lckGet(e, whole, parent, backend.LockS)
	lckTry(e, one, parent, backend.LockIX, false, "while another has the whole")
	lckTry(e, one, parent, backend.LockIS, true, "to look at a child, while another has the whole")
}
