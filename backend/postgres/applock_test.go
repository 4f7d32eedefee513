package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

var lockModes = []backend.LockMode{backend.LockIS, backend.LockS, backend.LockU, backend.LockIX, backend.LockX}

// locksFixture is a store with native locks, beside a connection to look at it.
type locksFixture struct {
	*testing.T
	store  *postgres.Store
	db     *sql.DB
	schema string
}

func nativeLocks(t *testing.T) *locksFixture {
	t.Parallel()
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	pool := connect(t, "postgres", server(t))
	pool.SetMaxOpenConns(16)
	return &locksFixture{t, open(t, pool, postgres.Options{Schema: name, Locks: postgres.LocksNative}), db, name}
}

func (f *locksFixture) session(lease time.Duration) backend.Session {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 10*time.Second)
	defer cancel()
	s, err := f.store.OpenSession(ctx, lease, "test")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close(context.WithoutCancel(f.Context())) })
	return s
}

func (f *locksFixture) begin() backend.Tx {
	f.Helper()
	tx, err := f.store.Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { tx.Rollback(context.WithoutCancel(f.Context())) })
	return tx
}

func (f *locksFixture) lock(o backend.Locker, name string, mode backend.LockMode) backend.Grant {
	f.Helper()
	g, err := o.Lock(f.Context(), name, mode, 0)
	if err != nil {
		f.Fatalf("lock in mode %v: %v", mode, err)
	}
	return g
}

// try asks without waiting, and gives back what it got.
func (f *locksFixture) try(o backend.Locker, name string, mode backend.LockMode, want bool, why string) {
	f.Helper()
	free, err := o.LockTest(f.Context(), name, mode)
	if err != nil || free != want {
		f.Errorf("%s: LockTest of mode %v says %t (%v), want %t", why, mode, free, err, want)
	}
	_, err = o.Lock(f.Context(), name, mode, 0)
	if want && err != nil || !want && !errors.Is(err, backend.ErrLockTimeout) {
		f.Errorf("%s: lock in mode %v: %v, want granted: %t", why, mode, err, want)
	}
	if err == nil {
		f.ok(o.Unlock(f.Context(), name))
	}
}

func (f *locksFixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *locksFixture) exec(query string, args ...any) {
	f.Helper()
	_, err := f.db.ExecContext(f.Context(), strings.ReplaceAll(query, "parley_", f.schema+".parley_"), args...)
	f.ok(err)
}

// advisory counts the advisory locks of this store that the server knows of.
// Others run tests on it, so only those of the pool's own connections count.
func (f *locksFixture) advisory() (n int) {
	f.Helper()
	f.ok(f.db.QueryRowContext(f.Context(), `
		SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid IN
		       (SELECT pid FROM pg_stat_activity WHERE application_name = $1)`, f.schema).Scan(&n))
	return n
}

// TestNativeWithoutRows removes the rows as soon as a lock is granted, so only the server's locks
// keep owners apart. The matrix still holds for every pair and triple, for sessions and
// transactions, and for unions of modes.
func TestNativeWithoutRows(t *testing.T) {
	f := nativeLocks(t)
	ctx := t.Context()
	owners := func(n int) []backend.Locker {
		if n == 0 {
			return []backend.Locker{f.session(time.Hour), f.session(time.Hour), f.session(time.Hour)}
		}
		return []backend.Locker{f.begin(), f.session(time.Hour), f.begin()}
	}
	for kind, of := range []string{"sessions", "transactions and a session"} {
		o := owners(kind)
		a, b, c := o[0], o[1], o[2]
		// Not there, it cannot be released; but the server's lock is.
		release := func(o backend.Locker, name string) {
			if err := o.Unlock(ctx, name); !errors.Is(err, backend.ErrNotLocked) {
				t.Errorf("unlock without a row: %v", err)
			}
		}
		take := func(o backend.Locker, name string, mode backend.LockMode) {
			f.lock(o, name, mode)
			f.exec("DELETE FROM parley_lock WHERE name = $1", name)
		}
		for i, first := range lockModes {
			for j, second := range lockModes {
				name := fmt.Sprint(of, i, j)
				take(a, name, first)
				f.try(b, name, second, first.Compatible(second), fmt.Sprintf("%s: while one has %v", of, first))
				if !first.Compatible(second) {
					release(a, name)
					f.try(b, name, second, true, of+": after the release")
					// The union of both, in one owner.
					take(a, name, first)
					take(a, name, second)
					for _, third := range lockModes {
						f.try(c, name, third, third.Compatible(first|second), fmt.Sprintf("%s: while one has %v and %v", of, first, second))
					}
					release(a, name)
					continue
				}
				take(b, name, second)
				for _, third := range lockModes {
					f.try(c, name, third, third.Compatible(first) && third.Compatible(second),
						fmt.Sprintf("%s: while two have %v and %v", of, first, second))
				}
				release(a, name)
				for _, third := range lockModes {
					f.try(c, name, third, third.Compatible(second), fmt.Sprintf("%s: after one with %v of two has gone, %v", of, first, second))
				}
				release(b, name)
				f.try(c, name, backend.LockX, true, of+": after all have gone")
			}
		}
	}
}

// TestNativeTest: sessions ask whether they could have a lock, while another session takes
// and releases it in an incompatible mode. They are not in its way.
func TestNativeTest(t *testing.T) {
	f := nativeLocks(t)
	a := f.session(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 2 {
		b := f.session(time.Hour)
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.LockTest(ctx, "lock", backend.LockS); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 150 {
		f.lock(a, "lock", backend.LockIX)
		f.ok(a.Unlock(t.Context(), "lock"))
	}
	cancel()
	wg.Wait()
}

// TestNativeLost ends a session's connection: its locks are free at once, long
// before its lease is over, and it is told.
func TestNativeLost(t *testing.T) {
	f := nativeLocks(t)
	a, b := f.session(time.Hour), f.session(time.Hour)
	g := f.lock(a, "lock", backend.LockX)
	f.try(b, "lock", backend.LockIS, false, "while the other has it")
	f.end("lock")
	granted, err := b.Lock(t.Context(), "lock", backend.LockX, 5*time.Second)
	f.ok(err)
	if granted.Fence <= g.Fence {
		t.Errorf("the fence of the next owner is %d, that of the one before %d", granted.Fence, g.Fence)
	}
	if err := a.Renew(t.Context()); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("renew after the connection was lost: %v", err)
	}
	if _, err := a.Lock(t.Context(), "another", backend.LockX, 0); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("lock after the connection was lost: %v", err)
	}
	list, err := f.store.AppLocks(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].Fence != granted.Fence {
		t.Errorf("the locks are %+v, %v", list, err)
	}
}

// end ends the connections that have an advisory lock of a name, as a crash does.
func (f *locksFixture) end(name string) {
	f.Helper()
	var n int
	f.ok(f.db.QueryRowContext(f.Context(), `
		SELECT count(pg_terminate_backend(pid)) FROM pg_locks
		 WHERE locktype = 'advisory' AND objsubid = 1 AND granted
		   AND (classid::bigint << 32 | objid::bigint) & -8
		       = hashtextextended($1 COLLATE "C", '`+f.schema+`.parley_lock'::regclass::oid::bigint) & -8`, name).Scan(&n))
	if n != 1 {
		f.Fatalf("%d connections had the lock %q", n, name)
	}
}

// TestNativeContext: Parley's session ends its context soon after its connection.
func TestNativeContext(t *testing.T) {
	f := nativeLocks(t)
	b, err := parley.New(t.Context(), f.store, nil)
	f.ok(err)
	defer b.Close()
	s, err := applock.Open(t.Context(), b, &applock.Options{Lease: 2 * time.Second})
	f.ok(err)
	_, err = s.Lock(t.Context(), "lock", applock.Exclusive, 0)
	f.ok(err)
	time.Sleep(3 * time.Second) // it renews itself
	f.ok(s.Context().Err())
	f.end("lock")
	select {
	case <-s.Context().Done():
		if err := context.Cause(s.Context()); !errors.Is(err, parley.ErrFenced) {
			t.Errorf("the session's context ended with %v", err)
		}
	case <-time.After(3 * time.Second):
		t.Error("a session does not notice that its connection was lost")
	}
}

// TestNativeExpired: the connection of a session whose lease is over, and which
// does not end by itself, is ended by who needs the lock.
func TestNativeExpired(t *testing.T) {
	f := nativeLocks(t)
	a, b := f.session(time.Hour), f.session(time.Minute)
	f.lock(a, "lock", backend.LockX)
	f.exec("UPDATE parley_lock_owner SET until = 1 WHERE until = (SELECT max(until) FROM parley_lock_owner)")
	_, err := b.Lock(t.Context(), "lock", backend.LockX, 5*time.Second)
	f.ok(err)
	if err := a.Renew(t.Context()); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("renew after the lease: %v", err)
	}
}

// TestNativeHangsUp: a session that is not renewed in its lease gives its
// connection back without being asked. Sessions leave two connections to others, and
// what they have is not counted among those that workers may hold.
func TestNativeHangsUp(t *testing.T) {
	f := nativeLocks(t)
	before := f.store.MaxConns()
	for range before - 2 {
		f.session(500 * time.Millisecond)
	}
	time.Sleep(time.Second)
	if n := f.store.MaxConns(); n != before {
		t.Errorf("after sessions have ended there are %d connections, want %d", n, before)
	}
	for range before - 2 {
		f.lock(f.session(time.Minute), "lock", backend.LockS)
	}
	if n := f.store.MaxConns(); n != 2 {
		t.Errorf("beside the sessions there are %d connections, want 2", n)
	}
	if _, err := f.store.OpenSession(t.Context(), time.Minute, "too many"); !errors.Is(err, backend.ErrPool) {
		t.Errorf("a session with one of the last two connections of the pool: %v", err)
	}
}

// TestNativeTx: the server's locks of a transaction are released with the
// application lock, at the latest after its end, and none stays on its connection.
func TestNativeTx(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	f := &locksFixture{t, nil, db, name}
	pool := connect(t, "postgres", backendtest.WithParam(t, server(t), "application_name", name))
	f.store = open(t, pool, postgres.Options{Schema: name, Locks: postgres.LocksNative})
	s := f.session(time.Hour)
	one := f.advisory() // that the session is there
	for _, commit := range []bool{true, false} {
		tx := f.begin()
		f.lock(tx, "x", backend.LockX)
		f.lock(tx, "u", backend.LockU)
		f.lock(tx, "u", backend.LockIX)
		if n := f.advisory(); n != one+5 {
			t.Errorf("a transaction with Exclusive on one name and Update and IntentExclusive on another has %d advisory locks, want 5", n-one)
		}
		f.ok(tx.Unlock(t.Context(), "x"))
		f.try(s, "x", backend.LockX, true, "after the release, before the end")
		f.lock(tx, "y", backend.LockX)
		if commit {
			f.ok(tx.Commit(t.Context()))
		} else {
			f.ok(tx.Rollback(t.Context()))
		}
		if n := f.advisory(); n != one {
			t.Errorf("%d advisory locks are left of a transaction, committed: %t", n-one, commit)
		}
		f.try(s, "y", backend.LockX, true, "after the end")
	}
	// A session has found the transaction gone while it went back to a savepoint: what
	// the transaction had is free, the server's locks too.
	tx := f.begin()
	f.ok(tx.Savepoint(t.Context(), "p"))
	f.lock(tx, "x", backend.LockX)
	if _, err := tx.SQL().ExecContext(t.Context(), "ROLLBACK TO SAVEPOINT s_p"); err != nil {
		t.Fatal(err)
	}
	f.try(s, "x", backend.LockIS, false, "while the server still has it") // which removes the owner's row
	f.ok(tx.RollbackTo(t.Context(), "p"))
	f.try(s, "x", backend.LockX, true, "after the transaction has found that out")
	f.lock(tx, "x", backend.LockX)
	f.try(s, "x", backend.LockIS, false, "while the transaction has it again")
	f.ok(tx.Rollback(t.Context()))
	// A statement of the handler's has failed: the transaction can only be rolled
	// back, and nothing is left then either.
	tx = f.begin()
	f.lock(tx, "x", backend.LockX)
	if _, err := tx.SQL().ExecContext(t.Context(), "SELECT 1/0"); err == nil {
		t.Error("1/0 is possible")
	}
	f.ok(tx.Rollback(t.Context()))
	if n := f.advisory(); n != one {
		t.Errorf("%d advisory locks are left of a transaction that failed", n-one)
	}
}

// TestNativeJoined: in a transaction of the caller's the server's locks end with
// it, and no earlier, which the lists show.
func TestNativeJoined(t *testing.T) {
	f := nativeLocks(t)
	ctx := t.Context()
	s := f.session(time.Hour)
	for _, commit := range []bool{true, false} {
		user, err := f.db.BeginTx(ctx, nil)
		f.ok(err)
		defer user.Rollback()
		tx, err := f.store.Join(ctx, user)
		f.ok(err)
		f.lock(tx, "lock", backend.LockS)
		f.lock(tx, "lock", backend.LockIX)
		f.try(s, "lock", backend.LockIX, false, "while a joined transaction has it")
		f.try(s, "lock", backend.LockIS, true, "while a joined transaction has it")
		f.exec("DELETE FROM parley_lock")
		f.try(s, "lock", backend.LockIX, false, "while a joined transaction has it, without its row")
		f.try(s, "lock", backend.LockIS, true, "while a joined transaction has it, without its row")
		f.lock(tx, "other", backend.LockX)
		f.ok(tx.Unlock(ctx, "other"))
		if err := tx.Unlock(ctx, "other"); !errors.Is(err, backend.ErrNotLocked) {
			t.Errorf("unlock of what was released: %v", err)
		}
		if m, err := tx.HeldMode(ctx, "other"); err != nil || m != backend.LockNone {
			t.Errorf("the mode of what was released is %v, %v", m, err)
		}
		f.try(s, "other", backend.LockS, false, "before the end of a joined transaction that has released it")
		list, err := f.store.AppLocks(ctx, "other")
		if err != nil || len(list) != 1 || list[0].Count != 0 {
			t.Errorf("what a joined transaction has released is listed as %+v, %v", list, err)
		}
		// What a rollback to a savepoint has released is taken again.
		f.ok(tx.Savepoint(ctx, "p"))
		f.lock(tx, "late", backend.LockX)
		f.ok(tx.RollbackTo(ctx, "p"))
		f.lock(tx, "late", backend.LockX)
		f.exec("DELETE FROM parley_lock WHERE name = 'late'")
		f.try(s, "late", backend.LockIS, false, "while a joined transaction has it again, without its row")
		f.lock(tx, "other", backend.LockX)
		if m, err := tx.HeldMode(ctx, "other"); err != nil || m != backend.LockX {
			t.Errorf("the mode of what was taken again is %v, %v", m, err)
		}
		if commit {
			f.ok(user.Commit())
		} else {
			f.ok(user.Rollback())
		}
		for _, name := range []string{"lock", "late", "other"} {
			f.try(s, name, backend.LockX, true, "after the end of the joined transaction")
		}
	}
}

// TestNativeGate has workers enter phases one after the other, over native locks.
func TestNativeGate(t *testing.T) {
	f := nativeLocks(t)
	b, err := parley.New(t.Context(), f.store, nil)
	f.ok(err)
	defer b.Close()
	phases := []int{100, 100, 100, 200, 200, 300, 300}
	var conversation, mu sync.Mutex
	left := map[int]int{100: 3, 200: 2, 300: 2}
	var wg sync.WaitGroup
	for range 4 {
		s, err := applock.Open(t.Context(), b, nil)
		f.ok(err)
		wg.Go(func() {
			defer s.Close()
			for {
				conversation.Lock()
				if len(phases) == 0 {
					conversation.Unlock()
					return
				}
				phase := phases[0]
				phases = phases[1:]
				pass, err := s.Enter(t.Context(), "gate", phase-100, phase, func(context.Context) error {
					conversation.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for p, n := range left {
					if p < phase && n > 0 {
						t.Errorf("one of phase %d is in when %d of phase %d have not left", phase, n, p)
					}
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
				mu.Lock()
				left[phase]--
				mu.Unlock()
				if err := pass.Leave(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestNativePooler: behind a transaction pooler there are no sessions to have
// locks, which is said before anything is done.
func TestNativePooler(t *testing.T) {
	db := connect(t, "postgres", server(t))
	s := postgres.New(db, &postgres.Options{Locks: postgres.LocksNative, Pooler: postgres.PoolerAlways})
	defer s.Close()
	if _, err := s.Begin(t.Context()); err == nil || !strings.Contains(err.Error(), "parley_locks") {
		t.Errorf("begin: %v, want an error that says what to do", err)
	}
	dsn := os.Getenv("PARLEY_TEST_PGBOUNCER")
	if dsn == "" {
		return
	}
	if s, err := postgres.Open(t.Context(), backendtest.WithParam(t, dsn, "parley_locks", "native"), nil); err == nil {
		s.Close()
		t.Error("native locks were opened through PgBouncer")
	}
}

// TestLocksParameter: the name of the database may say how locks are kept.
func TestLocksParameter(t *testing.T) {
	dsn := server(t)
	s, err := postgres.Open(t.Context(), backendtest.WithParam(t, dsn, "parley_locks", "native"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Info(t.Context())
	if err != nil || info.Settings["locks"] != "native" {
		t.Errorf("the store keeps locks as %q, %v", info.Settings["locks"], err)
	}
	if _, err := postgres.Open(t.Context(), backendtest.WithParam(t, dsn, "parley_locks", "leases"), nil); err == nil || !strings.Contains(err.Error(), "rows or native") {
		t.Errorf("parley_locks=leases: %v", err)
	}
}
