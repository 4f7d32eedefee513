package postgres_test

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/conformance"
	"github.com/parleymq/parley/internal/slow"
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

// conformanceOf runs the checks that match on stores that share a *sql.DB.
func conformanceOf(t *testing.T, match *regexp.Regexp, driver, dsn string, o postgres.Options) {
	conformance.RunMatching(t, sharing(t, driver, dsn, o), match)
}

// sharing is a separate schema for the suite. All handles but those with a limit share a *sql.DB.
func sharing(t *testing.T, driver, dsn string, o postgres.Options) conformance.Store {
	db := connect(t, driver, dsn)
	db.SetMaxIdleConns(16)
	on := func(db *sql.DB, schema string) (backend.Backend, error) {
		o := o
		o.Schema = schema
		return postgres.New(db, &o), nil
	}
	open := func(schema string) (backend.Backend, error) { return on(db, schema) }
	// What is closed holds no connection of the pool's any more.
	t.Cleanup(func() {
		slow.Eventually(t, 20*time.Second, "no connection is in use after everything was closed", func() (any, bool) {
			n := db.Stats().InUse
			return n, n == 0
		})
	})
	own := os.Getenv(conformance.StoreEnv) // a child process has its parent's schema
	var fresh string
	if own == "" {
		direct := connect(t, "postgres", server(t))
		own, fresh = schema(t, direct), schema(t, direct)
	}
	return conformance.Store{
		Process:    own,
		Disposable: true,
		Lose:       lose,
		Open:       func(context.Context) (backend.Backend, error) { return open(own) },
		Limit: func(_ context.Context, conns int) (backend.Backend, error) {
			db := connect(t, driver, dsn)
			db.SetMaxOpenConns(conns)
			return on(db, own)
		},
		Fresh: func(context.Context) (backend.Backend, error) { return open(fresh) },
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			name := schema(t, connect(t, "postgres", server(t)))
			return func(context.Context) (backend.Backend, error) { return open(name) }
		}),
	}
}
