package mysql_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

func several(c *driver.Config) { c.MultiStatements = true }

// TestBeginsWithFirstQuery: a transaction begins in the trip of its first query, if the connection takes several
// statements in a text.
func TestBeginsWithFirstQuery(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		for together, set := range map[bool]func(*driver.Config){false: nil, true: several} {
			db, count := counted(t, server, set)
			f := backendtest.New(t, open(t, db, nil))
			f.None(f.Request(f.QP)) // the store has found out by then what the connection takes
			tx := f.Begin()
			count.Take()
			_, err := tx.Claim(f.Ctx, f.Request(f.QP))
			f.OK(err)
			begins := 0
			for _, text := range count.Take() {
				if strings.Contains(text, "START TRANSACTION") {
					begins++
					f.Equal("the query is in the same trip", strings.Contains(text, "parley_"), together)
				}
			}
			f.Equal("beginnings", begins, 1)
			f.OK(tx.Rollback(f.Ctx))
		}
	})
}

// TestFirstQueryFails: if the query fails that was to begin a transaction, what follows is in a transaction all the same.
func TestFirstQueryFails(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		var fails atomic.Bool
		db := backendtest.Rewrite(connector(t, server, several), func(query string) string {
			if fails.Load() && strings.Contains(query, "START TRANSACTION;") {
				return strings.ReplaceAll(query, "parley_", "no_")
			}
			return query
		})
		t.Cleanup(func() { db.Close() })
		f := backendtest.New(t, open(t, db, nil))
		tx := f.Begin()
		fails.Store(true)
		if _, err := tx.Claim(f.Ctx, f.Request(f.QP)); err == nil {
			t.Fatal("the claim did not fail")
		}
		fails.Store(false)
		_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("x")})})
		f.OK(err)
		f.OK(tx.Rollback(f.Ctx))
		f.Equal("drained", f.Drain(f.QP), []string(nil))
		f.Post(backend.Posting{Body: []byte("y")})
		f.Equal("drained", f.Drain(f.QP), []string{"y"})
	})
}

// TestFirstQueryIsWork: a statement of the application's that commits ends a transaction that began with a query.
func TestFirstQueryIsWork(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db, _ := counted(t, server, several)
		f := backendtest.New(t, open(t, db, nil))
		tx := f.Begin()
		_, err := tx.Claim(f.Ctx, f.Request(f.QP))
		f.OK(err)
		_, err = tx.SQL().ExecContext(f.Ctx, "CREATE TABLE app (id INT PRIMARY KEY)")
		f.OK(err)
		f.Is(tx.Commit(f.Ctx), backend.ErrTxDone)
	})
}

// TestFirstStatementNotBegun: if the server has gone since Begin took a connection, the first statement says that nothing
// has begun, so that Broker.Retry tries again.
func TestFirstStatementNotBegun(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		for _, first := range []func(*backendtest.Fixture, backend.Tx) error{
			func(f *backendtest.Fixture, tx backend.Tx) error {
				_, err := tx.Claim(f.Ctx, f.Request(f.QP))
				return err
			},
			func(f *backendtest.Fixture, tx backend.Tx) error {
				_, err := tx.Once(f.Ctx, "key", time.Hour)
				return err
			},
		} {
			p, through := backendtest.Through(t, server)
			f := backendtest.New(t, open(t, connect(t, through, database(t, server), func(c *driver.Config) {
				several(c)
				c.Logger = &driver.NopLogger{}
			}), nil))
			f.None(f.Request(f.QP))
			tx := f.Begin()
			p.Close()
			p.Cut()
			err := first(f, tx)
			f.Is(err, backend.ErrNotBegun)
			f.Is(err, backend.ErrConnection)
			tx.Rollback(f.Ctx)
		}
	})
}
