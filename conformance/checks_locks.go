package conformance

import (
	"fmt"

	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "L01", Name: "every pair of modes, between sessions", Run: checkLockPairs},
		check{ID: "L01", Name: "every pair of modes, between transactions and sessions", Run: checkLockPairsOfTx},
		check{ID: "L01", Name: "every triple of modes", Run: checkLockTriples},
		check{ID: "L03", Name: "a lock counts how often it was taken", Run: checkLockCounts},
		check{ID: "L03", Name: "a transaction's lock counts, and is free before its end", Run: checkLockCountsOfTx},
		check{ID: "L04", Name: "modes add up and stay", Run: checkLockUnions},
	)
}

func checkLockPairs(e *env) {
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

func checkLockPairsOfTx(e *env) {
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

			if !e.ManyWriters() {
				continue // with a single writer no other owner can ask meanwhile
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

func checkLockCounts(e *env) {
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

func checkLockCountsOfTx(e *env) {
	if !e.ManyWriters() {
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

func checkLockUnions(e *env) {
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

	// No owner is given more than the others' modes allow.
	lckGet(e, a, name, s)
	lckGet(e, b, name, s)
	_, err := a.Lock(e.Ctx, name, x, 0)
	e.Is(err, backend.ErrLockTimeout)
	lckMode(e, a, name, s)
}

func checkLockTriples(e *env) {
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
