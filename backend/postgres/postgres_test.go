package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// server returns the data source name of the server for tests.
func server(t testing.TB) string {
	t.Helper()
	return backendtest.Server(t, "postgres", "PARLEY_TEST_POSTGRES", "the data source name of a PostgreSQL server for tests")
}

// schema returns the name of a schema that is the test's own.
func schema(t testing.TB, db *sql.DB) string {
	t.Helper()
	name := backendtest.Name()
	backendtest.DropSchema(t, name, func(query string) error {
		_, err := db.Exec(query)
		return err
	})
	return name
}

// connect opens a pool.
func connect(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	return backendtest.Connect(t, driver, dsn)
}

// open returns a migrated store in a separate schema.
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

// TestMigrateAtOnce lets many handles migrate the same schema at the same time.
func TestMigrateAtOnce(t *testing.T) {
	db := connect(t, "postgres", server(t))
	db.SetMaxOpenConns(50)
	name := schema(t, db)
	errs := make(chan error)
	for range 20 {
		go func() {
			b := postgres.New(db, &postgres.Options{Schema: name, Pooler: postgres.PoolerNever})
			defer b.Close()
			if err := b.Migrate(context.Background()); err != nil {
				errs <- err
				return
			}
			errs <- b.Check(context.Background())
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	b := postgres.New(db, &postgres.Options{Schema: name})
	if _, err := db.Exec("UPDATE " + name + ".parley_meta SET schema_version = 1000"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{b.Check(context.Background()), b.Migrate(context.Background())} {
		if !errors.Is(err, backend.ErrNewerSchema) {
			t.Errorf("error %v, want ErrNewerSchema", err)
		}
	}
}

// TestPrefix has two installations side by side in one schema, one of them put
// there by hand.
func TestPrefix(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	one := open(t, db, postgres.Options{Schema: name})
	two := postgres.New(db, &postgres.Options{Schema: name, Prefix: "other_"})
	ctx := context.Background()
	if err := two.Check(ctx); !errors.Is(err, backend.ErrNotMigrated) {
		t.Fatalf("check: %v", err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SET LOCAL search_path = " + name + "; " + two.MigrationSQL(0)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := two.Check(ctx); err != nil {
		t.Fatal(err)
	}
	backendtest.Uninstalls(t, one, two, func() int {
		return backendtest.Number(t, db, `
			SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace)
			     + (SELECT count(*) FROM pg_proc WHERE pronamespace = $1::regnamespace)`, name)
	})
}

func TestOptions(t *testing.T) {
	db := connect(t, "postgres", "host=127.0.0.1 port=1")
	for _, o := range []postgres.Options{{Prefix: "a b"}, {Schema: `x"; DROP TABLE users; --`}, {Prefix: "Upper"}, {Schema: "1"}} {
		b := postgres.New(db, &o)
		if err := b.Check(context.Background()); err == nil || errors.Is(err, backend.ErrConnection) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
	if _, err := postgres.Open(context.Background(), "postgres://x/y?parley_pooler=maybe", nil); err == nil {
		t.Error("parley_pooler=maybe was accepted")
	}
}

// TestListenPGX listens on a connection of the pool's.
func TestListenPGX(t *testing.T) {
	db := connect(t, "pgx", server(t))
	f := backendtest.New(t, open(t, db, postgres.Options{}))
	listener := f.Backend.Capabilities().Listener
	woken := make(chan int64, 10)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- listener.Listen(ctx, func(queue int64) { woken <- queue }) }()
	wake := func(want int64) {
		t.Helper()
		select {
		case q := <-woken:
			f.Equal("woken for queue", q, want)
		case <-time.After(10 * time.Second):
			t.Fatal("the listener was not woken")
		}
	}
	wake(0)
	f.OK(listener.Notify(t.Context(), []int64{3, 4}))
	wake(3)
	wake(4)
	tx := f.Begin()
	f.OK(tx.NotifyAtCommit(t.Context(), []int64{5}))
	f.OK(tx.Commit(t.Context()))
	wake(5)
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}

	plain := postgres.New(connect(t, "postgres", server(t)), nil)
	if err := plain.Listen(t.Context(), func(int64) {}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("with nothing to listen with: %v", err)
	}
}

// TestNotifyLeavesSettings: a notification's commit does not wait for the disk,
// and those that come after it on its connection do.
func TestNotifyLeavesSettings(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		db := connect(t, driver, server(t))
		db.SetMaxOpenConns(1)
		s := postgres.New(db, &postgres.Options{Pooler: postgres.PoolerNever})
		if _, err := db.Exec("SET synchronous_commit = on"); err != nil {
			t.Fatal(err)
		}
		if err := s.Notify(t.Context(), []int64{1}); err != nil {
			t.Fatal(err)
		}
		var setting string
		if err := db.QueryRow("SHOW synchronous_commit").Scan(&setting); err != nil || setting != "on" {
			t.Errorf("%s: synchronous_commit is %q, %v", driver, setting, err)
		}
	}
}

// TestListenAgain has a listener of lib/pq lose its connection.
func TestListenAgain(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	b := open(t, db, postgres.Options{Schema: name, Listen: server(t)})
	woken := make(chan int64, 10)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- b.Listen(ctx, func(queue int64) { woken <- queue }) }()
	for range 3 {
		select {
		case q := <-woken:
			if q != 0 {
				t.Errorf("woken for %d", q)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the listener was not woken after the connection was lost")
		}
		if _, err := db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' || $1 || '%'`, name); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-stopped
}

// TestPooler finds out what is in between.
func TestPooler(t *testing.T) {
	for driver, dsn := range map[string]string{"postgres": server(t), "pgx": server(t), "pgbouncer": os.Getenv("PARLEY_TEST_PGBOUNCER")} {
		if dsn == "" {
			t.Logf("%s: not looked at, as PARLEY_TEST_PGBOUNCER is not set", driver)
			continue
		}
		pooled := driver == "pgbouncer"
		if pooled {
			driver = "postgres"
		}
		for range 5 {
			db := connect(t, driver, dsn)
			info, err := postgres.New(db, nil).Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Settings["pooler"]; got != fmt.Sprint(pooled) {
				t.Errorf("%s: pooler %s", dsn, got)
			}
		}
	}
}
