package postgres_test

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/conformance"
)

// TestConformancePGX runs the suite on handles of a *sql.DB of pgx, which also
// listens on a connection of its pool.
func TestConformancePGX(t *testing.T) {
	t.Parallel()
	conformanceOf(t, nil, "pgx", server(t), postgres.Options{})
}

// TestConformanceNativeLocksPGX runs the checks of application locks on those of
// the server's own, by pgx.
func TestConformanceNativeLocksPGX(t *testing.T) {
	t.Parallel()
	conformanceOf(t, ofLocks, "pgx", server(t), postgres.Options{Locks: postgres.LocksNative})
}

// TestConformancePgBouncer runs the suite through PgBouncer in transaction mode,
// with wake-ups on a connection that goes past it.
func TestConformancePgBouncer(t *testing.T) {
	t.Parallel()
	direct := server(t)
	dsn := os.Getenv("PARLEY_TEST_PGBOUNCER")
	if dsn == "" {
		if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "pgbouncer") {
			t.Fatal("PARLEY_TEST_PGBOUNCER is not set, but PARLEY_TEST_REQUIRE asks for pgbouncer")
		}
		t.Skip("PARLEY_TEST_PGBOUNCER is not set: it is the data source name of a PgBouncer in transaction mode")
	}
	conformanceOf(t, nil, "postgres", dsn, postgres.Options{Listen: direct, Pooler: postgres.PoolerAlways})
}

// conformanceOf runs the checks that match on stores that are made of a *sql.DB,
// each of one of its own.
func conformanceOf(t *testing.T, match *regexp.Regexp, driver, dsn string, o postgres.Options) {
	open := func(schema string) (backend.Backend, error) {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(16)
		o := o
		o.Schema = schema
		return handle{postgres.New(db, &o), db}, nil
	}
	own := os.Getenv(conformance.StoreEnv) // a child process has its parent's schema
	var fresh string
	if own == "" {
		db := connect(t, "postgres", server(t))
		own, fresh = schema(t, db), schema(t, db)
	}
	conformance.RunMatching(t, conformance.Store{
		Process:    own,
		Disposable: true,
		Open:       func(context.Context) (backend.Backend, error) { return open(own) },
		Fresh:      func(context.Context) (backend.Backend, error) { return open(fresh) },
	}, match)
}

// handle closes the pool, which is the application's, with the store.
type handle struct {
	*postgres.Store
	db *sql.DB
}

func (h handle) Close() error {
	err := h.Store.Close()
	h.db.Close()
	return err
}
