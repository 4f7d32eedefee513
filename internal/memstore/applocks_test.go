package memstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

var modes = []backend.LockMode{backend.LockIS, backend.LockS, backend.LockU, backend.LockIX, backend.LockX}

// TestLockMatrix tries every pair of modes, the unions included, as the lock
// guide of the original has them.
func TestLockMatrix(t *testing.T) {
	held := append([]backend.LockMode{backend.LockSIX, backend.LockUIX}, modes...)
	yes := map[backend.LockMode]map[backend.LockMode]bool{
		backend.LockIS: {backend.LockIS: true, backend.LockS: true, backend.LockU: true, backend.LockIX: true, backend.LockSIX: true, backend.LockUIX: true},
		backend.LockS:  {backend.LockIS: true, backend.LockS: true, backend.LockU: true},
		backend.LockU:  {backend.LockIS: true, backend.LockS: true},
		backend.LockIX: {backend.LockIS: true, backend.LockIX: true},
	}
	b := newBench(t, "")
	for _, have := range held {
		for _, ask := range modes {
			one, two := b.begin(), b.begin()
			for _, m := range modes {
				if have&m != 0 {
					_, err := one.Lock(ctx, "r", m, 0)
					b.must(err)
				}
			}
			if got, _ := one.HeldMode(ctx, "r"); got != have {
				t.Errorf("mode %v, want %v", got, have)
			}
			test, err := two.LockTest(ctx, "r", ask)
			b.must(err)
			_, err = two.Lock(ctx, "r", ask, 0)
			if granted := err == nil; granted != yes[ask][have] || test != granted {
				t.Errorf("%v beside %v: granted %v, test %v, want %v", ask, have, granted, test, yes[ask][have])
			}
			if err != nil {
				b.want(err, backend.ErrLockTimeout)
			}
			b.must(one.Commit(ctx))
			b.must(two.Rollback(ctx))
		}
	}
	if n := len(b.store.resources); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// waiting waits until so many requests wait for locks.
func (b *bench) waiting(n int) {
	b.Helper()
	slow.Eventually(b, 20*time.Second, fmt.Sprintf("%d requests wait", n), func() (any, bool) {
		list, err := b.h.AppLocks(ctx, "")
		b.must(err)
		got := 0
		for _, l := range list {
			if l.Waiting {
				got++
			}
		}
		return got, got == n
	})
}

// ask asks for a lock in the background.
func (b *bench) ask(l backend.Locker, name string, mode backend.LockMode) chan error {
	came := make(chan error, 1)
	go func() {
		_, err := l.Lock(ctx, name, mode, 10*time.Second)
		came <- err
	}()
	return came
}

func TestLockOrder(t *testing.T) {
	b := newBench(t, "")
	reader, writer, late, intent := b.begin(), b.begin(), b.begin(), b.begin()
	_, err := reader.Lock(ctx, "r", backend.LockS, 0)
	b.must(err)
	wrote := b.ask(writer, "r", backend.LockIX)
	b.waiting(1)

	// A reader that comes now waits behind the writer. A request that is compatible with all others
	// may pass. An owner that already holds the lock does not wait for the writer.
	read := b.ask(late, "r", backend.LockS)
	b.waiting(2)
	_, err = intent.Lock(ctx, "r", backend.LockIS, 0)
	b.must(err)
	if ok, _ := reader.LockTest(ctx, "r", backend.LockU); !ok {
		t.Error("a conversion does not wait for waiters")
	}
	_, err = reader.Lock(ctx, "r", backend.LockS, 0)
	b.must(err)
	b.must(reader.Unlock(ctx, "r"))
	b.waiting(2)
	b.must(reader.Unlock(ctx, "r"))
	b.must(<-wrote)
	b.waiting(1)
	b.must(writer.Commit(ctx))
	b.must(<-read)
	b.want(reader.Unlock(ctx, "r"), backend.ErrNotLocked)
	b.must(late.Rollback(ctx))
	b.must(intent.Rollback(ctx))
}

func TestLockCounts(t *testing.T) {
	b := newBench(t, "")
	one, two := b.begin(), b.begin()
	first, err := one.Lock(ctx, "r", backend.LockS, 0)
	b.must(err)
	second, err := one.Lock(ctx, "r", backend.LockX, 0)
	b.must(err)
	if second.Mode != backend.LockS|backend.LockX || second.Fence != first.Fence || second.Waited {
		t.Errorf("grants %+v, %+v", first, second)
	}
	b.must(one.Unlock(ctx, "r"))
	_, err = two.Lock(ctx, "r", backend.LockIS, 0) // still exclusive
	b.want(err, backend.ErrLockTimeout)
	start := time.Now()
	_, err = two.Lock(ctx, "r", backend.LockIS, 50*time.Millisecond)
	b.want(err, backend.ErrLockTimeout)
	if d := time.Since(start); d < 50*time.Millisecond || d > 5*time.Second {
		t.Errorf("waited %v", d)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = two.Lock(short, "r", backend.LockIS, -1)
	b.want(err, context.DeadlineExceeded)
	_, err = two.Lock(ctx, "R", backend.LockX, 0) // another name
	b.must(err)
	b.must(one.Unlock(ctx, "r"))
	g, err := two.Lock(ctx, "r", backend.LockX, 0)
	b.must(err)
	if g.Fence <= first.Fence {
		t.Errorf("fence %d after %d", g.Fence, first.Fence)
	}
	b.must(one.Rollback(ctx))
	b.must(two.Rollback(ctx))
}

// TestLockDeadlock: rings of two to four, each broken by one victim whose
// transaction goes on, and one over a lock and a stream.
func TestLockDeadlock(t *testing.T) {
	for n := 2; n <= 4; n++ {
		b := newBench(t, "")
		var txs []*Tx
		for i := range n {
			tx := b.begin()
			_, err := tx.Lock(ctx, fmt.Sprint(i), backend.LockX, 0)
			b.must(err)
			txs = append(txs, tx)
		}
		var came []chan error
		for i, tx := range txs {
			came = append(came, b.ask(tx, fmt.Sprint((i+1)%n), backend.LockS))
			if i < n-1 {
				b.waiting(i + 1)
			}
		}
		b.want(<-came[n-1], backend.ErrLockDeadlock)
		if mode, err := txs[n-1].HeldMode(ctx, fmt.Sprint(n-1)); err != nil || mode != backend.LockX {
			t.Errorf("the victim holds %v, %v", mode, err)
		}
		b.must(txs[n-1].Commit(ctx))
		for i := n - 2; i >= 0; i-- {
			b.must(<-came[i])
			b.must(txs[i].Commit(ctx))
		}
	}

	b := newBench(t, "")
	from, _ := b.dialog(5)
	one, two := b.begin(), b.begin()
	_, err := one.Lock(ctx, "r", backend.LockX, 0)
	b.must(err)
	b.send(two, from, "1")
	came := b.ask(two, "r", backend.LockX)
	b.waiting(1)
	_, err = one.Send(ctx, b.version, []backend.Outgoing{{ID: backend.NewID(), From: from, Kind: backend.KindUser}})
	b.want(err, backend.ErrSerialization)
	b.must(one.Rollback(ctx))
	b.must(<-came)
}

func TestSessions(t *testing.T) {
	b := newBench(t, "")
	other := b.store.Open()
	s, err := other.OpenSession(ctx, time.Minute, "worker 1")
	b.must(err)
	g, err := s.Lock(ctx, "job", backend.LockX, 0)
	b.must(err)
	b.clock.add(50 * time.Second)
	b.must(s.Renew(ctx))
	other.Crash() // the process releases nothing
	b.clock.add(50 * time.Second)

	tx := b.begin()
	_, err = tx.Lock(ctx, "job", backend.LockS, 0)
	b.want(err, backend.ErrLockTimeout)
	list, err := b.h.AppLocks(ctx, "jo")
	b.must(err)
	if len(list) != 1 || list[0].Owner != "worker 1" || list[0].Mode != backend.LockX || list[0].Count != 1 || list[0].Fence != g.Fence {
		t.Errorf("locks %+v", list)
	}
	came := b.ask(tx, "job", backend.LockS)
	b.waiting(1)
	b.clock.add(time.Minute)
	b.must(<-came) // the lease is over
	b.must(tx.Rollback(ctx))

	s, err = b.h.OpenSession(ctx, time.Minute, "worker 2")
	b.must(err)
	_, err = s.Lock(ctx, "job", backend.LockX, 0)
	b.must(err)
	b.clock.add(2 * time.Minute)
	b.want(s.Renew(ctx), backend.ErrFenced)
	_, err = s.Lock(ctx, "job", backend.LockX, 0)
	b.want(err, backend.ErrFenced)
	b.must(s.Close(ctx))

	s, err = b.h.OpenSession(ctx, time.Minute, "worker 3")
	b.must(err)
	_, err = s.Lock(ctx, "job", backend.LockX, 0)
	b.must(err)
	b.must(s.Close(ctx))
	b.do(func(tx *Tx) {
		_, err := tx.Lock(ctx, "job", backend.LockX, 0)
		b.must(err)
	})
}
