package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// server returns the data source name of the server for tests.
func server(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv("PARLEY_TEST_POSTGRES")
	if dsn == "" {
		if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "postgres") {
			t.Fatal("PARLEY_TEST_POSTGRES is not set, but PARLEY_TEST_REQUIRE asks for postgres")
		}
		t.Skip("PARLEY_TEST_POSTGRES is not set: it is the data source name of a PostgreSQL server for tests")
	}
	return dsn
}

var schemas atomic.Int64

// schema returns the name of a schema that is the test's own.
func schema(t testing.TB, db *sql.DB) string {
	t.Helper()
	name := fmt.Sprintf("t%d_%d_%d", os.Getpid(), time.Now().Unix()%100000, schemas.Add(1))
	t.Cleanup(func() {
		if _, err := db.Exec("DROP SCHEMA IF EXISTS " + name + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	return name
}

// connect opens a pool.
func connect(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// open returns a migrated store in a schema of its own.
func open(t testing.TB, db *sql.DB, o postgres.Options) *postgres.Store {
	t.Helper()
	if o.Schema == "" {
		o.Schema = schema(t, db)
	}
	b := postgres.New(db, &o)
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackend(t *testing.T) {
	db := connect(t, "postgres", server(t))
	backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t, db, postgres.Options{}) })
}

func TestBackendPGX(t *testing.T) {
	db := connect(t, "pgx", server(t))
	backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t, db, postgres.Options{}) })
}

// TestBackendUnprepared runs without prepared statements, as behind a pooler.
func TestBackendUnprepared(t *testing.T) {
	db := connect(t, "postgres", server(t))
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		return open(t, db, postgres.Options{Pooler: postgres.PoolerAlways})
	})
}

var _ = pq.ErrInFailedTransaction
