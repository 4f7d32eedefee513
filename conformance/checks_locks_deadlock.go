package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "L08", Name: "of owners that wait for each other one is told", Run: checkLockDeadlock},
		check{ID: "L08", Name: "of many owners in many cycles some go on", Run: checkLockCycles},
		check{ID: "L08", Name: "a transaction that is told goes on", Run: checkLockDeadlockTx},
	)
}

func checkLockDeadlock(e *env) {
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
	e.Within(queSlow, time.Since(start), "of two owners that wait for each other one was told after %v")
	// The victim still has what it had, and letting go of it helps the other.
	held := map[backend.Session]string{a: mine, b: theirs}[victim]
	lckMode(e, victim, held, backend.LockX)
	e.Must(victim.Unlock(e.Ctx, held))
	lckGrantedSoon(e, other)
}

// checkLockCycles lets owners acquire locks in random orders, so that deadlocks occur. Each owner
// ends with all its locks or as a victim, and each lock has one holder at a time.
func checkLockCycles(e *env) {
	const owners, locks, rounds = 6, 4, 8
	var mu sync.Mutex
	holder := make([]int, locks) // 0: no owner
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

func checkLockDeadlockTx(e *env) {
	if !e.ManyWriters() {
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
		if _, err := tx.Once(e.Ctx, e.Name(fmt.Sprint("before ", i)), time.Hour); err != nil {
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
	e.Within(queSlow, time.Since(start), "of two transactions that wait for each other one was told after %v")
	if _, err := victim.tx.Once(e.Ctx, e.Name("after"), time.Hour); err != nil {
		e.Fatalf("the transaction of a victim does not go on: %v", err)
	}
	lckMode(e, victim.tx, name, backend.LockS)
	e.Must(victim.tx.Commit(e.Ctx))
	other := <-ends
	e.Must(other.err)
	e.Must(other.tx.Commit(e.Ctx))
	e.Must(tskTx(e.Ctx, e.Handle(), func(tx backend.Tx) error {
		fresh, err := tx.Once(e.Ctx, e.Name("after"), time.Hour)
		if fresh {
			e.Errorf("what a victim wrote was not committed")
		}
		return err
	}))
}
