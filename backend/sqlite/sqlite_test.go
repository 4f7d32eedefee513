package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/internal/slow"
)

func path(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") }

// open returns a migrated store on a file.
func open(t *testing.T, file string) *sqlite.Store {
	t.Helper()
	b, err := sqlite.Open(t.Context(), "sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// user opens the file as an application would.
func user(t *testing.T, file string) *sql.DB {
	t.Helper()
	return backendtest.Connect(t, "sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
}

func TestBackend(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t, path(t)) })
}

func TestBackendInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("TestBackend runs the same on a file")
	}
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t, ":memory:") })
}

// TestNew makes a store of the application's handle, which has one connection
// only, and takes over its settings.
func TestNew(t *testing.T) {
	db := user(t, path(t))
	db.SetMaxOpenConns(1)
	b := sqlite.New(db, &sqlite.Options{Prefix: "app_"})
	defer b.Close()
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := backendtest.New(t, b)
	f.Post(backend.Posting{Body: []byte("x")})
	f.Do(func(tx backend.Tx) error {
		var keys int
		err := tx.SQL().QueryRowContext(f.Ctx, "PRAGMA foreign_keys").Scan(&keys)
		f.Equal("foreign_keys in a transaction of the store's", keys, 1)
		return err
	})
	var n int
	if err := db.QueryRow("SELECT count(*) FROM app_post").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d posts, %v", n, err)
	}
	f.Equal("drained", f.Drain(f.QP), []string{"x"})
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := db.Ping(); err != nil {
		t.Error("the application's handle was closed:", err)
	}
	if _, err := b.Begin(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}

	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	if err := sqlite.New(memory, nil).Migrate(t.Context()); err == nil {
		t.Error("a database in memory was shared")
	}
	if err := sqlite.New(db, &sqlite.Options{Prefix: "no spaces"}).Check(t.Context()); err == nil {
		t.Error("a prefix with a space was accepted")
	}
	if _, err := sqlite.Open(t.Context(), "sqlite:x.db?parley_synchronous=maybe", nil); err == nil {
		t.Error("parley_synchronous=maybe was accepted")
	}
}

func TestMigrateAtOnce(t *testing.T) {
	file := path(t)
	errs := make(chan error)
	for range 20 {
		go func() {
			b, err := sqlite.Open(context.Background(), "sqlite:"+file, nil)
			if err == nil {
				defer b.Close()
				err = b.Migrate(context.Background())
			}
			if err == nil {
				err = b.Check(context.Background())
			}
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	db := user(t, file)
	if _, err := db.Exec("UPDATE parley_meta SET schema_version = 1000"); err != nil {
		t.Fatal(err)
	}
	b, err := sqlite.Open(t.Context(), "sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, err := range []error{b.Check(t.Context()), b.Migrate(t.Context())} {
		if !errors.Is(err, backend.ErrNewerSchema) {
			t.Errorf("error %v, want ErrNewerSchema", err)
		}
	}
}

// TestPrintedSchema puts the schema in place by hand.
func TestPrintedSchema(t *testing.T) {
	file := path(t)
	b, err := sqlite.Open(t.Context(), "sqlite:"+file+"?parley_prefix=p_", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	db := user(t, file)
	if _, err := db.Exec(b.MigrationSQL(0)); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d things are left after Uninstall, %v", left, err)
	}
}

// TestWriteInsideTransaction asks for a second write transaction from within the
// first.
func TestWriteInsideTransaction(t *testing.T) {
	f := backendtest.New(t, open(t, path(t)))
	post := func(ctx context.Context) error {
		tx, err := f.Backend.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		_, err = tx.Post(ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{})})
		if err == nil {
			err = tx.Commit(ctx)
		}
		return err
	}
	tx := f.Begin()
	inside := backend.InsideTx(f.Ctx, tx)
	f.OK(post(inside)) // it has not begun to write yet
	_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{})})
	f.OK(err)
	f.Is(post(inside), backend.ErrWouldDeadlock)
	_, err = f.Backend.Maintain(inside, backend.JobGroups, 1)
	f.OK(err) // nothing to write
	f.Is(f.Backend.Migrate(inside), nil)
	f.Is(f.Backend.Extend(inside, []*backend.Hold{{}}, time.Second), backend.ErrWouldDeadlock)
	// Reading goes on, and so does the transaction itself.
	other, err := f.Backend.Begin(inside)
	f.OK(err)
	_, err = other.Catalog(inside, false)
	f.OK(err)
	f.OK(other.Rollback(f.Ctx))
	_, err = tx.Post(inside, f.Version, []backend.Posting{f.Posting(backend.Posting{})})
	f.OK(err)
	f.OK(tx.Commit(f.Ctx))
	f.OK(post(inside))
	f.Equal("posts", len(f.Drain(f.QP)), 4)
}

// TestTurns has a writer wait for another, with a context that ends.
func TestTurns(t *testing.T) {
	f := backendtest.New(t, open(t, path(t)))
	tx := f.Begin()
	_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{})})
	f.OK(err)
	ctx, cancel := context.WithTimeout(f.Ctx, 50*time.Millisecond)
	defer cancel()
	second := f.Begin()
	if _, err := second.Once(ctx, "k", time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	f.None(f.Request(f.QP)) // an idle claim does not wait
	done := make(chan error)
	go func() {
		_, err := second.Once(f.Ctx, "k", time.Hour)
		done <- errors.Join(err, second.Commit(f.Ctx))
	}()
	f.OK(tx.Commit(f.Ctx))
	f.OK(<-done)
}

// TestInterrupted ends the context of a statement of the user's: SQLite then
// rolls the whole transaction back by itself, and nothing of ours may be written
// as if it were still open.
func TestInterrupted(t *testing.T) {
	f := backendtest.New(t, open(t, path(t)))
	f.Do(func(tx backend.Tx) error {
		_, err := tx.SQL().ExecContext(f.Ctx, "CREATE TABLE big (n INTEGER)")
		return err
	})
	tx := f.Begin()
	_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{})})
	f.OK(err)
	ctx, cancel := context.WithTimeout(f.Ctx, 50*time.Millisecond)
	defer cancel()
	_, err = tx.SQL().ExecContext(ctx, `
		WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000000)
		INSERT INTO big SELECT n FROM c`)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	_, err = tx.Once(f.Ctx, "lost", time.Hour)
	f.Is(err, backend.ErrSerialization)
	f.Is(tx.Commit(f.Ctx), backend.ErrSerialization)
	f.Do(func(tx backend.Tx) error {
		fresh, err := tx.Once(f.Ctx, "lost", time.Hour)
		f.Equal("fresh", fresh, true)
		return err
	})
	f.Equal("posts", len(f.Drain(f.QP)), 0)
}

// TestJoin sends in a transaction of the application's.
func TestJoin(t *testing.T) {
	file := path(t)
	b := open(t, file)
	f := backendtest.New(t, b)
	db := user(t, file)
	for _, commit := range []bool{false, true} {
		mine, err := db.Begin()
		f.OK(err)
		tx, err := b.Join(f.Ctx, mine)
		f.OK(err)
		_, err = tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("joined")})})
		f.OK(err)
		// The application's transaction is the writer now.
		inside := backend.InsideTx(f.Ctx, tx)
		other, err := b.Begin(inside)
		f.OK(err)
		_, err = other.Once(inside, "k", time.Hour)
		f.Is(err, backend.ErrWouldDeadlock)
		f.OK(tx.Commit(f.Ctx))
		_, err = tx.Once(f.Ctx, "k", time.Hour)
		f.Is(err, backend.ErrTxDone)
		if commit {
			f.OK(mine.Commit())
		} else {
			f.OK(mine.Rollback())
		}
	}
	f.Equal("drained", f.Drain(f.QP), []string{"joined"})
}

// TestListen has one store notice what another, and plain SQL, has written.
func TestListen(t *testing.T) {
	file := path(t)
	b := open(t, file)
	f := backendtest.New(t, open(t, file))
	woken := make(chan int64, 100)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- b.Listen(ctx, func(queue int64) { woken <- queue }) }()
	wake := func(what string) {
		t.Helper()
		select {
		case <-woken:
		case <-time.After(5 * time.Second):
			t.Fatalf("the listener was not woken by %s", what)
		}
	}
	wake("the beginning, before which a commit may have been missed")
	f.Post(backend.Posting{})
	wake("a post")
	if _, err := user(t, file).Exec("INSERT INTO parley_outbox (queue, type) VALUES ('qp', 'm')"); err != nil {
		t.Fatal(err)
	}
	wake("an insert")
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := b.Notify(t.Context(), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}

// TestOutbox posts by SQL and by the API and compares what arrives.
func TestOutbox(t *testing.T) {
	file := path(t)
	f := backendtest.New(t, open(t, file))
	db := user(t, file)
	post := func(queue string, typ sql.NullString, body []byte, key sql.NullString) (id string, err error) {
		_, err = db.Exec("INSERT INTO parley_outbox (queue, type, body, key) VALUES (?, ?, ?, ?)", queue, typ, body, key)
		return "", err
	}
	backendtest.PlainPosts(f, post, func(err error) string { return fmt.Sprint(err != nil) }, "true", "true")
	g := backendtest.New(t, open(t, file))
	insert := "INSERT INTO parley_outbox_with_headers (queue, type, body, key, headers) VALUES (?, ?, ?, ?, ?)"
	backendtest.PlainHeaders(g, func(headers sql.NullString, key string) error {
		_, err := db.Exec(insert, "qp", "m", nil, key, headers)
		return err
	}, func(oldest int) {
		_, err := db.Exec("UPDATE parley_meta SET oldest_program = ?", oldest)
		g.OK(err)
	}, func(err error) string {
		_, text, _ := strings.Cut(fmt.Sprint(err), "parley: ")
		text, _, _ = strings.Cut(text, " (")
		return text
	}, "the headers are not valid", "programs that would lose headers may still be there")
}

func TestViews(t *testing.T) {
	file := path(t)
	f := backendtest.New(t, open(t, file))
	db := user(t, file)
	backendtest.Views(f, func(query string) []string { return backendtest.Texts(t, db, query) })
}

// TestTwoStores lets two stores, as two processes would, work on one file.
func TestTwoStores(t *testing.T) {
	file := path(t)
	one, two := backendtest.New(t, open(t, file)), open(t, file)
	const n = 200
	errs := make(chan error, 2)
	go func() {
		for i := range n {
			tx, err := two.Begin(context.Background())
			if err == nil {
				_, err = tx.Post(context.Background(), one.Version, []backend.Posting{one.Posting(backend.Posting{Key: "k", Body: []byte(fmt.Sprintf("%03d", i))})})
			}
			if err == nil {
				err = tx.Commit(context.Background())
			}
			if err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	}()
	var got []string
	slow.Eventually(t, 30*time.Second, "all posts arrive", func() (any, bool) {
		got = append(got, one.Drain(one.QP)...)
		return len(got), len(got) >= n
	})
	one.OK(<-errs)
	one.Equal("posts", len(got), n)
	for i, s := range got {
		if s != fmt.Sprintf("%03d", i) {
			t.Fatalf("post %d is %s", i, s)
		}
	}
}

// records are what was logged.
type records struct {
	slog.Handler
	said chan string
}

func (r records) Enabled(context.Context, slog.Level) bool { return true }

func (r records) Handle(_ context.Context, rec slog.Record) error {
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" || a.Key == "by" {
			r.said <- a.Value.String()
		}
		return true
	})
	return nil
}

// TestWriterThatStays: a transaction waits for another transaction of the same store only for a
// bounded time. Its error and the log name the function that keeps it waiting.
func TestWriterThatStays(t *testing.T) {
	s, err := sqlite.Open(t.Context(), "sqlite:"+path(t), &sqlite.Options{TurnTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	said := make(chan string, 100)
	s.LogTo(slog.New(records{said: said}))
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := backendtest.New(t, s)
	for len(said) > 0 {
		<-said // setting up may have been slow
	}
	tx := f.Begin()
	_, err = tx.Once(f.Ctx, "first", time.Hour)
	f.OK(err)
	second := f.Begin()
	_, err = second.Once(f.Ctx, "second", time.Hour)
	f.Is(err, backend.ErrSerialization)
	const name = "sqlite_test.TestWriterThatStays"
	if !strings.Contains(err.Error(), name) {
		t.Errorf("the error does not name who writes: %v", err)
	}
	f.OK(tx.Commit(f.Ctx))
	_, err = second.Once(f.Ctx, "second", time.Hour) // it has not begun to write
	f.OK(err)
	f.OK(second.Commit(f.Ctx))
	logged := make(map[string]bool) // a timer logs the first, and may be late on a busy machine
	for range 2 {
		event, by := <-said, <-said
		if logged[event] = true; !strings.Contains(by, name) {
			t.Errorf("logged %q by %q, want by %s", event, by, name)
		}
	}
	if !logged["turn.long"] || !logged["turn.over"] {
		t.Errorf("logged %v, want turn.long and turn.over", logged)
	}
}

// TestJoining: a *sql.DB, and a *sql.Conn without a transaction, are refused.
func TestJoining(t *testing.T) {
	file := path(t)
	backendtest.Joining(t, open(t, file), user(t, file))
}
