package code

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/backend/postgres/pgxstore"
	"github.com/parleymq/parley/backend/sqlite"
)

// The code of docs/start.

type Mail struct{ To, Text string }

var SendMail = parley.Type[Mail]("SendMail", parley.JSON)

func setUp(ctx context.Context, b *parley.Broker) error {
	return errors.Join(b.Migrate(ctx), b.Define(ctx, parley.Catalog{
		Types:  []parley.MessageType{{Name: "SendMail"}},
		Queues: []parley.Queue{{Name: "mails"}},
	}))
}

func register(ctx context.Context, b *parley.Broker, name string) error {
	return b.Retry(ctx, func(tx *parley.Tx) error {
		if _, err := tx.SQL().ExecContext(ctx, "INSERT INTO users (name) VALUES (?)", name); err != nil {
			return err
		}
		_, err := SendMail.Post(ctx, tx, "mails", Mail{To: name, Text: "Welcome."})
		return err
	})
}

func work(ctx context.Context, b *parley.Broker) error {
	mux := parley.NewMux()
	parley.Handle(mux, SendMail, func(ctx context.Context, m *parley.Message, mail Mail) error {
		fmt.Printf("to %s: %s\n", mail.To, mail.Text)
		return nil // an error: the message stays, and is tried again later
	})
	worker, err := b.NewWorker("mails", mux, nil)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func run(ctx context.Context, b *parley.Broker) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := setUp(ctx, b); err != nil {
		return err
	}
	return work(ctx, b)
}

func openSQLite(ctx context.Context) (*parley.Broker, error) {
	db, err := sql.Open("sqlite", "app.db?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	if err != nil {
		return nil, err
	}
	return parley.New(ctx, sqlite.New(db, nil), nil)
}

func openPostgres(ctx context.Context, dsn string) (*parley.Broker, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return parley.New(ctx, pgxstore.New(pool, nil), nil)
}

func openMySQL(ctx context.Context, dsn string) (*parley.Broker, error) {
	db, err := sql.Open("mysql", dsn+"?interpolateParams=true")
	if err != nil {
		return nil, err
	}
	return parley.New(ctx, mysql.New(db, nil), nil)
}

func registerPostgres(ctx context.Context, pool *pgxpool.Pool, b *parley.Broker, name string) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "INSERT INTO users (name) VALUES ($1)", name); err != nil {
		return err
	}
	if _, err := SendMail.Post(ctx, pgxstore.Join(b, tx), "mails", Mail{To: name, Text: "Welcome."}); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// drained handles what waits and returns the mails.
func drained(t *testing.T, b *parley.Broker) (to []string) {
	t.Helper()
	mux := parley.NewMux()
	parley.Handle(mux, SendMail, func(_ context.Context, _ *parley.Message, mail Mail) error {
		to = append(to, mail.To)
		return nil
	})
	worker, err := b.NewWorker("mails", mux, &parley.WorkerOptions{MaxReaders: 1})
	if err == nil {
		err = worker.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestStartSQLite(t *testing.T) {
	t.Chdir(t.TempDir())
	b, err := openSQLite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	started(t, b, "CREATE TABLE users (name TEXT)")
}

// started goes through a page with a Broker that is open.
func started(t *testing.T, b *parley.Broker, create string) {
	t.Helper()
	ctx := t.Context()
	if err := setUp(ctx, b); err != nil {
		t.Fatal(err)
	}
	err := b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := tx.SQL().ExecContext(ctx, create)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := register(ctx, b, "ann"); err != nil {
		t.Fatal(err)
	}
	if to := drained(t, b); !slices.Equal(to, []string{"ann"}) {
		t.Error(to)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := run(ended, b); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// server returns the name of a test server, or ends the test.
func server(t *testing.T, name string) string {
	t.Helper()
	variable := "PARLEY_TEST_" + strings.ToUpper(name)
	dsn := os.Getenv(variable)
	if dsn == "" {
		if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), name) {
			t.Fatalf("%s is not set, but PARLEY_TEST_REQUIRE asks for %s", variable, name)
		}
		t.Skipf("%s is not set: it is the data source name of a server", variable)
	}
	return dsn
}

func TestStartPostgres(t *testing.T) {
	dsn := server(t, "postgres")
	ctx := t.Context()
	const schema = "parley_docs"
	exec := func(ctx context.Context, pool *pgxpool.Pool, text string) {
		if _, err := pool.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := pgxpool.New(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	exec(ctx, admin, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	exec(ctx, admin, "CREATE SCHEMA "+schema)
	defer exec(context.WithoutCancel(ctx), admin, "DROP SCHEMA "+schema+" CASCADE")
	between := "?"
	if strings.Contains(dsn, "?") {
		between = "&"
	}
	dsn += between + "search_path=" + schema
	b, err := openPostgres(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := setUp(ctx, b); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	exec(ctx, pool, "CREATE TABLE users (name TEXT)")
	if err := registerPostgres(ctx, pool, b, "ann"); err != nil {
		t.Fatal(err)
	}
	if to := drained(t, b); !slices.Equal(to, []string{"ann"}) {
		t.Error(to)
	}
}

func TestStartMySQL(t *testing.T) {
	for _, engine := range []string{"mysql", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			u := strings.TrimPrefix(server(t, engine), "mysql://")
			user, rest, _ := strings.Cut(u, "@")
			host, _, _ := strings.Cut(rest, "/")
			const base = "parley_docs"
			admin, err := sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)/", user, host))
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			for _, text := range []string{"DROP DATABASE IF EXISTS " + base, "CREATE DATABASE " + base} {
				if _, err := admin.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			defer admin.Exec("DROP DATABASE " + base)
			b, err := openMySQL(t.Context(), fmt.Sprintf("%s@tcp(%s)/%s", user, host, base))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			started(t, b, "CREATE TABLE users (name VARCHAR(100))")
		})
	}
}
