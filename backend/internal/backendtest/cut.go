package backendtest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/proxy"
)

// Through starts a proxy before a server, and returns the server's URL by way of it.
func Through(t testing.TB, server string) (*proxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); p.Cut() })
	u.Host = p.Addr().String()
	return p, u.String()
}

// Cut cuts the connection at each step of a transaction. begin is a word of the statement that
// begins a transaction. open opens a migrated store through the proxy.
func Cut(t *testing.T, server, begin string, open func(t *testing.T, through string) backend.Backend) {
	p, through := Through(t, server)
	be := open(t, through)
	ctx := t.Context()
	key := Name()
	write := func(tx backend.Tx) error {
		_, err := tx.Once(ctx, key, time.Hour)
		return err
	}
	begins := func(t *testing.T) backend.Tx {
		t.Helper()
		tx, err := be.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback(context.Background()) })
		return tx
	}
	if tx := begins(t); write(tx) != nil || tx.Commit(ctx) != nil {
		t.Fatal("nothing works")
	}
	for _, answered := range []bool{false, true} {
		name := map[bool]string{false: " unsent", true: " sent"}[answered]
		t.Run("begin"+name, func(t *testing.T) {
			p.CutAt(answered, begin)
			tx, err := be.Begin(ctx)
			if err == nil { // by another connection
				err = errors.Join(write(tx), tx.Commit(ctx))
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, backend.ErrNotBegun) || !errors.Is(err, backend.ErrConnection) {
				t.Errorf("%v, want ErrNotBegun", err)
			}
		})
		t.Run("statement"+name, func(t *testing.T) {
			tx := begins(t)
			p.CutAt(answered, "parley_once", key) // if it is not prepared, and if it is
			lost(t, write(tx))
			lost(t, write(tx))
			lost(t, tx.Commit(ctx))
		})
		t.Run("savepoint"+name, func(t *testing.T) {
			tx := begins(t)
			p.CutAt(answered, "savepoint")
			lost(t, errors.Join(tx.Savepoint(ctx, "x"), write(tx))) // the statement sets it, or it was set
			lost(t, tx.RollbackTo(ctx, "x"))
		})
		t.Run("commit"+name, func(t *testing.T) {
			tx := begins(t)
			if err := write(tx); err != nil {
				t.Fatal(err)
			}
			p.CutAt(answered, "commit")
			lost(t, tx.Commit(ctx))
		})
	}
	t.Run("between statements", func(t *testing.T) {
		tx := begins(t)
		if err := write(tx); err != nil { // which begins it, on some stores
			t.Fatal(err)
		}
		p.Cut()
		lost(t, write(tx))
	})
	for name, lose := range map[string]func(*testing.T, backend.Tx, context.CancelFunc){
		"after a cut":                 func(*testing.T, backend.Tx, context.CancelFunc) { p.Cut() },
		"after a lost statement":      func(t *testing.T, tx backend.Tx, _ context.CancelFunc) { p.Cut(); lost(t, write(tx)) },
		"after its context":           func(_ *testing.T, _ backend.Tx, cancel context.CancelFunc) { cancel() },
		"after a cut and its context": func(_ *testing.T, _ backend.Tx, cancel context.CancelFunc) { p.Cut(); cancel() },
	} {
		t.Run("rollback "+name, func(t *testing.T) { rollsBack(t, be, key, lose) })
	}
}

// rollsBack wants a rollback that has nothing to say but that the connection has gone: the log would warn of anything
// else.
func rollsBack(t *testing.T, be backend.Backend, key string, lose func(*testing.T, backend.Tx, context.CancelFunc)) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tx, err := be.Begin(ctx)
	if err == nil {
		_, err = tx.Once(ctx, key, time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	lose(t, tx, cancel)
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, backend.ErrConnection) {
		t.Errorf("rollback: %v, want ErrConnection or nothing", err)
	}
}

// lost wants the error of a transaction that is over with its connection, and may have committed.
func lost(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, backend.ErrConnection) || errors.Is(err, backend.ErrNotBegun) {
		t.Errorf("%v, want ErrConnection, and not ErrNotBegun", err)
	}
}

// overdue is a context whose deadline is over, of which it has not taken notice yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now().Add(-time.Microsecond), true }

// Dial opens a store by a dialler that fails, and looks what becomes of its time-outs.
func Dial(t *testing.T, open func(t *testing.T, dial func(context.Context) error) backend.Backend) {
	var fails error
	be := open(t, func(context.Context) error { return fails })
	t.Cleanup(func() { be.Close() })
	for what, try := range map[string]func(context.Context) error{
		"a transaction": func(ctx context.Context) error { _, err := be.Begin(ctx); return err },
		"a read":        func(ctx context.Context) error { _, err := be.ReaderRecords(ctx); return err },
	} {
		fails = &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		if err := try(overdue{t.Context()}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrNotBegun) {
			t.Errorf("%s, at the caller's deadline: %v, want the context's error", what, err)
		}
		fails = &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
		err := try(t.Context())
		if !errors.Is(err, backend.ErrConnection) || what == "a transaction" && !errors.Is(err, backend.ErrNotBegun) {
			t.Errorf("%s, when the driver gives up dialling: %v, want ErrConnection, and of a transaction ErrNotBegun", what, err)
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrPool) {
			t.Errorf("%s, when the driver gives up dialling: %v, want nothing of a context or pool", what, err)
		}
	}
}
