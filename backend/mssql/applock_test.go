package mssql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	driver "github.com/microsoft/go-mssqldb"

	"github.com/parleymq/parley/backend"
)

// lockServer plays a server that has nothing but application locks, by what the
// manual says of sp_getapplock, sp_releaseapplock, APPLOCK_TEST and APPLOCK_MODE.
type lockServer struct {
	t     *testing.T
	mu    sync.Mutex
	locks map[string]map[lockHolder]backend.LockMode // by resource
	code  *int                                       // returned next by a procedure, instead
	down  bool
}

type lockHolder struct {
	conn  *lockConn
	owner string
}

type lockConn struct{ s *lockServer }

func (s *lockServer) Connect(context.Context) (sqldriver.Conn, error) { return &lockConn{s}, nil }
func (s *lockServer) Driver() sqldriver.Driver                        { return nil }

func (c *lockConn) Prepare(string) (sqldriver.Stmt, error) { return nil, errors.New("not played") }
func (c *lockConn) Begin() (sqldriver.Tx, error)           { return nil, errors.New("not played") }
func (c *lockConn) CheckNamedValue(*sqldriver.NamedValue) error {
	return nil
}

// Close releases the locks of the session.
func (c *lockConn) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.reset(c)
	return nil
}

func (s *lockServer) reset(c *lockConn) {
	for _, holders := range s.locks {
		delete(holders, lockHolder{c, ofSession})
	}
}

// QueryContext plays one call.
func (c *lockConn) QueryContext(_ context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, sqldriver.ErrBadConn
	}
	text := string(args[0].Value.(driver.NVarCharMax))
	var values []string
	for _, a := range args[2:] {
		values = append(values, a.Value.(string))
	}
	if query != "sp_executesql" || !strings.Contains(text, `CONCAT(N'parley ', OBJECT_ID(N'app.jobs_lock'), N' ', @p1)`) {
		s.t.Errorf("the resource is not that of the store: %s", text)
	}
	holder := lockHolder{c, values[len(values)-1]}
	if strings.HasPrefix(text, inside) != (holder.owner == ofTransaction) {
		s.t.Errorf("a transaction's call has to look for it first, and no other: %s", text)
	}
	resource := values[0]
	if s.locks[resource] == nil {
		s.locks[resource] = map[lockHolder]backend.LockMode{}
	}
	holders := s.locks[resource]
	free := func(mode backend.LockMode) bool {
		for h, m := range holders {
			if h != holder && !mode.Compatible(m) {
				return false
			}
		}
		return true
	}
	modeOf := func(name string) backend.LockMode {
		for m, n := range modeNames {
			if n == name {
				return m
			}
		}
		s.t.Errorf("there is no mode %q", name)
		return 0
	}
	procedure := strings.Contains(text, "EXEC @code")
	if procedure && !strings.Contains(text, "@DbPrincipal = N'public'") {
		s.t.Errorf("not of everybody's: %s", text)
	}
	switch {
	case procedure && s.code != nil:
		code := *s.code
		s.code = nil
		return &oneInt{n: int64(code)}, nil
	case strings.Contains(text, "sp_getapplock"):
		if !strings.Contains(text, "@LockTimeout = 0") {
			s.t.Errorf("it waits: %s", text)
		}
		mode := modeOf(values[1])
		if !free(mode) {
			return &oneInt{n: -1}, nil
		}
		holders[holder] |= mode
		return &oneInt{n: 0}, nil
	case strings.Contains(text, "sp_releaseapplock"):
		if !strings.Contains(text, "WHILE @code = 0 AND APPLOCK_MODE(N'public', @resource, @p2) <> N'NoLock'") {
			s.t.Errorf("not as often as it was got: %s", text)
		}
		delete(holders, holder)
		return &oneInt{n: 0}, nil
	case strings.Contains(text, "APPLOCK_TEST"):
		if free(modeOf(values[1])) {
			return &oneInt{n: 1}, nil
		}
		return &oneInt{n: 0}, nil
	case strings.Contains(text, "APPLOCK_MODE"):
		if holders[holder].String() == "Exclusive" {
			return &oneInt{n: 1}, nil
		}
		return &oneInt{n: 0}, nil
	}
	return nil, errors.New("not played: " + text)
}

// oneInt is a result of one row.
type oneInt struct {
	n    int64
	done bool
}

func (r *oneInt) Columns() []string { return []string{"n"} }
func (r *oneInt) Close() error      { return nil }
func (r *oneInt) Next(to []sqldriver.Value) error {
	if r.done {
		return io.EOF
	}
	r.done = true
	to[0] = r.n
	return nil
}

// playLocks returns a server and a backend's on it.
func playLocks(t *testing.T) (*lockServer, *pool) {
	play := &lockServer{t: t, locks: map[string]map[lockHolder]backend.LockMode{}}
	db := sql.OpenDB(play)
	t.Cleanup(func() { db.Close() })
	p := New(db, &Options{Schema: "app", Prefix: "jobs_", Locks: LocksNative}).pool
	if p.invalid != nil {
		t.Fatal(p.invalid)
	}
	return play, p
}

func openLine(t *testing.T, p *pool) *line {
	t.Helper()
	l, err := p.openLine(t.Context(), backend.NewID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.WithoutCancel(t.Context())) })
	return l.(*line)
}

// TestNativeCodes plays every return code of both procedures.
func TestNativeCodes(t *testing.T) {
	for _, c := range []struct {
		code int
		ok   bool
		want error // nil: none; errAny: some
	}{
		{0, true, nil},
		{1, true, nil},
		{-1, false, nil},
		{-2, false, context.Canceled},
		{-3, false, backend.ErrLockDeadlock},
		{-999, false, errAny},
		{-7, false, errAny},
	} {
		play, p := playLocks(t)
		l := openLine(t, p)
		play.code = &c.code
		ok, err := l.Take(t.Context(), "lock", backend.LockS)
		if ok != c.ok || c.want == nil && err != nil || c.want == errAny && err == nil || c.want != nil && c.want != errAny && !errors.Is(err, c.want) {
			t.Errorf("sp_getapplock returned %d: granted %t, %v", c.code, ok, err)
		}

		play, p = playLocks(t)
		play.code = &c.code
		opened, err := p.openLine(t.Context(), backend.NewID())
		if (err == nil) != c.ok {
			t.Errorf("a session's own lock returned %d: %v", c.code, err)
		}
		if err == nil {
			opened.Close(t.Context())
		}
	}
	for _, code := range []int{0, -999, -1} {
		play, p := playLocks(t)
		l := openLine(t, p)
		if ok, err := l.Take(t.Context(), "lock", backend.LockS); !ok || err != nil {
			t.Fatal(err)
		}
		play.code = &code
		ok, err := l.Drop(t.Context(), "lock", backend.LockNone)
		if (err == nil) != (code == 0) || ok != (code == 0) {
			t.Errorf("sp_releaseapplock returned %d: dropped %t, %v", code, ok, err)
		}
	}
}

var errAny = errors.New("any error")

// TestNativeModes takes every triple of modes, and the union of every two, in
// sessions and a transaction.
func TestNativeModes(t *testing.T) {
	_, p := playLocks(t)
	conn, err := p.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a, c := openLine(t, p), openLine(t, p)
	b := &applocks{p: p, on: conn, owner: ofTransaction, before: inside}
	take := func(l interface {
		Take(context.Context, string, backend.LockMode) (bool, error)
		Test(context.Context, string, backend.LockMode) (bool, error)
	}, mode backend.LockMode, want bool) bool {
		t.Helper()
		free, err := l.Test(t.Context(), "lock", mode)
		if err != nil || free != want {
			t.Errorf("test of %v: %t, %v, want %t", mode, free, err, want)
		}
		ok, err := l.Take(t.Context(), "lock", mode)
		if err != nil || ok != want {
			t.Errorf("take of %v: %t, %v, want %t", mode, ok, err, want)
		}
		return ok
	}
	drop := func(l interface {
		Drop(context.Context, string, backend.LockMode) (bool, error)
	}) {
		t.Helper()
		if ok, err := l.Drop(t.Context(), "lock", backend.LockNone); !ok || err != nil {
			t.Errorf("drop: %t, %v", ok, err)
		}
	}
	modes := modesOf(backend.LockX<<1 - 1)
	for _, first := range modes {
		for _, second := range modes {
			for _, third := range modes {
				take(a, first, true)
				if take(b, second, first.Compatible(second)) {
					take(c, third, third.Compatible(first) && third.Compatible(second))
					drop(b)
				} else {
					take(a, second, true)
					take(a, first, true) // again
					take(c, third, third.Compatible(first|second))
				}
				drop(c)
				drop(a)
				take(c, backend.LockX, true)
				drop(c)
			}
		}
	}
}

// TestNativeLine: a session is told that its connection was lost, or reset, and
// its end releases all that it has.
func TestNativeLine(t *testing.T) {
	play, p := playLocks(t)
	l, other := openLine(t, p), openLine(t, p)
	if ok, err := l.Take(t.Context(), "lock", backend.LockX); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := l.Beat(t.Context()); err != nil {
		t.Errorf("beat: %v", err)
	}
	if ok, err := other.Take(t.Context(), "lock", backend.LockIS); ok || err != nil {
		t.Errorf("while another has it: %t, %v", ok, err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if ok, err := other.Take(t.Context(), "lock", backend.LockX); !ok || err != nil {
		t.Errorf("after the other has gone: %t, %v", ok, err)
	}
	if err := l.Beat(t.Context()); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("beat of a session that has ended: %v", err)
	}

	play.mu.Lock()
	for _, holders := range play.locks {
		clear(holders)
	}
	play.mu.Unlock()
	if err := other.Beat(t.Context()); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("beat on a connection that was reset: %v", err)
	}
	play.mu.Lock()
	play.down = true
	play.mu.Unlock()
	if _, err := other.Take(t.Context(), "lock", backend.LockU); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("take on a connection that was lost: %v", err)
	}
	// The caller's end is not the connection's.
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	if _, err := openLineLater(t).Take(ctx, "lock", backend.LockU); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("take in a context that is over: %v", err)
	}
}

func openLineLater(t *testing.T) *line {
	_, p := playLocks(t)
	return openLine(t, p)
}

// TestResourceName: no two names are one resource, and none is too long for one.
func TestResourceName(t *testing.T) {
	const store = len("parley -2147483648 ")
	seen := map[string]string{}
	for _, stem := range []string{"a", "A", "#", "session ", "é", "\U0001F600"} {
		for n := range backend.MaxLockName {
			for _, end := range []string{"", "1", "2", " ", ".", "\t"} {
				name := strings.Repeat(stem, n+1) + end
				if len([]rune(name)) > backend.MaxLockName {
					continue
				}
				r := resourceName(name)
				if other, ok := seen[r]; ok && other != name {
					t.Fatalf("%q and %q are one resource", name, other)
				}
				seen[r] = name
				if units := len(utf16.Encode([]rune(r))); store+units > 255 {
					t.Fatalf("the resource of a name of %d characters has %d", len([]rune(name)), store+units)
				}
			}
		}
	}
	if _, ok := seen[sessionName("")]; ok {
		t.Error("a name of the application's can be that of a session")
	}
}

// TestNativeStatements: a store with native locks asks the server whether sessions
// are there, and another one does not.
func TestNativeStatements(t *testing.T) {
	for _, locks := range []Locks{LocksRows, LocksNative} {
		s := New(sql.OpenDB(&lockServer{t: t}), &Options{Locks: locks})
		if s.pool.invalid != nil {
			t.Fatal(s.pool.invalid)
		}
		q := s.Q()
		for _, text := range []string{q.LockRows.Text, q.ListLocks.Text, q.OwnerExpire.Text} {
			const want = "APPLOCK_TEST(N'public', CONCAT(N'parley ', OBJECT_ID(N'parley_lock'), N' ', N'session ', CONVERT(nvarchar(32), owner_id, 2)), N'Shared', N'Session') = 1"
			if strings.Contains(strings.ReplaceAll(text, "o.owner_id", "owner_id"), want) != (locks == LocksNative) {
				t.Errorf("locks as %v: %s", locks, text)
			}
		}
	}
}
