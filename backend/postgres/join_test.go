package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// TestWakeAfterRollbackToSavepoint: a message that a joined transaction sends after a rollback to a
// savepoint wakes receivers of other processes. The server has dropped the notification of earlier
// sends.
func TestWakeAfterRollbackToSavepoint(t *testing.T) {
	ctx := t.Context()
	db := connect(t, "pgx", server(t))
	name := schema(t, db)
	var brokers [2]*parley.Broker
	for i := range brokers {
		b, err := parley.New(ctx, open(t, db, postgres.Options{Schema: name}), &parley.Options{NoMaintenance: true, Poll: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		brokers[i] = b
	}
	sends, receives := brokers[0], brokers[1]
	if err := sends.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	for _, rolledBack := range []bool{false, true} { // the first to know that it listens
		got := make(chan error, 1)
		go func() {
			d, err := receives.Receive(ctx, "q", &parley.ReceiveOptions{Wait: 10 * time.Second})
			if err == nil {
				err = d.Ack(ctx)
			}
			got <- err
		}()
		time.Sleep(100 * time.Millisecond) // most likely it waits by now; if not, the test finds nothing
		mine, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		tx := sends.Join(mine)
		post := func() error {
			_, err := tx.Post(ctx, "q", parley.Payload{})
			return err
		}
		if rolledBack {
			if err := errors.Join(tx.Savepoint(ctx, "before"), post(), tx.RollbackTo(ctx, "before")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(400 * time.Millisecond) // until this process has stopped looking again
		if err := errors.Join(post(), mine.Commit()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("rolled back: %t: %v", rolledBack, err)
		}
	}
}

// TestJoiningFirst: transactions may have all connections of the pool when a store joins them first.
func TestJoiningFirst(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			db := connect(t, driver, server(t))
			o := postgres.Options{Schema: schema(t, db)}
			another := postgres.New(db, &o)
			defer another.Close()
			backendtest.JoiningFirst(t, open(t, db, o), another, db)
		})
	}
}

// TestJoining: a *sql.DB, and a *sql.Conn without a transaction, are refused.
func TestJoining(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			db := connect(t, driver, server(t))
			backendtest.Joining(t, open(t, db, postgres.Options{}), db)
		})
	}
}

// TestSettings: a handler, or a program whose transaction is joined, that takes the store's tables
// out of sight is told by which setting.
func TestSettings(t *testing.T) {
	ctx := t.Context()
	for _, driver := range []string{"postgres", "pgx"} {
		admin := connect(t, "postgres", server(t))
		name := schema(t, admin)
		if _, err := admin.Exec("CREATE SCHEMA " + name); err != nil {
			t.Fatal(err)
		}
		db := connect(t, driver, with(t, server(t), "search_path", name))
		store := postgres.New(db, nil)
		b, err := parley.New(ctx, store, nil)
		if err == nil {
			err = errors.Join(b.Migrate(ctx), b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := admin.Exec("GRANT USAGE ON SCHEMA " + name + " TO pg_monitor"); err != nil {
			t.Fatal(err)
		}
		const text = "(SET search_path, SET ROLE)"
		for setting, want := range map[string]error{
			"SET LOCAL search_path = pg_catalog":  parley.ErrTxSettings,
			"SET LOCAL ROLE pg_read_all_settings": parley.ErrTxSettings, // it does not see the schema
			"SET LOCAL ROLE pg_monitor":           parley.ErrDenied,
		} {
			mine, err := db.BeginTx(ctx, nil)
			if err == nil {
				_, err = mine.ExecContext(ctx, setting)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Join(mine).Post(ctx, "q", parley.Payload{}); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %s, in a joined transaction: %v", driver, setting, err)
			}
			mine.Rollback()
			if _, err := b.Post(ctx, "q", parley.Payload{Body: []byte(setting)}); err != nil {
				t.Fatal(err)
			}
			w := sure.Of(b.NewWorker("q", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
				tx, err := m.Tx(ctx)
				if err == nil {
					_, err = tx.SQL().ExecContext(ctx, string(m.Body))
				}
				return err
			}), &parley.WorkerOptions{MaxAttempts: 1}))
			if err := w.Drain(ctx); err != nil {
				t.Error(err)
			}
			groups, err := b.Admin().Parked(ctx, "q", parley.Place{}, 10)
			if err != nil || len(groups) != 1 || !strings.Contains(groups[0].Reason, text) {
				t.Fatalf("%s: %s, by a handler: parked are %+v, %v; want a reason with %q", driver, setting, groups, err, text)
			}
			if _, err := b.Admin().DiscardParked(ctx, "q", groups[0].Group); err != nil {
				t.Fatal(err)
			}
		}
		// A store that names its schema does without search_path.
		named := postgres.New(db, &postgres.Options{Schema: name})
		other, err := parley.New(ctx, named, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		err = other.InTx(ctx, func(tx *parley.Tx) error {
			if _, err := tx.SQL().ExecContext(ctx, "SET LOCAL search_path = pg_catalog"); err != nil {
				return err
			}
			_, err := tx.Post(ctx, "q", parley.Payload{})
			return err
		})
		if err != nil {
			t.Errorf("%s: with Options.Schema: %v", driver, err)
		}
	}
}

// TestJoinedCommitsAreFollowed: listeners hear of a joined transaction once it has committed. This
// holds after a rollback to a savepoint, and if the store is closed at once. They never hear of a
// transaction that was rolled back.
func TestJoinedCommitsAreFollowed(t *testing.T) {
	ctx := t.Context()
	db := connect(t, "pgx", server(t))
	name := schema(t, db)
	hears := listening(t, open(t, db, postgres.Options{Schema: name}))
	sender := postgres.New(db, &postgres.Options{Schema: name})
	notify := func(mine *sql.Tx, queue int64) {
		t.Helper()
		tx, err := sender.Capabilities().Joiner.Join(ctx, mine)
		if err == nil {
			err = tx.NotifyAtCommit(ctx, []int64{queue})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := func() *sql.Tx {
		mine, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return mine
	}
	gone, kept, undone := begin(), begin(), begin()
	notify(gone, 1)
	notify(kept, 2)
	if _, err := undone.ExecContext(ctx, "SAVEPOINT s"); err != nil {
		t.Fatal(err)
	}
	notify(undone, 3)
	_, err := undone.ExecContext(ctx, "ROLLBACK TO SAVEPOINT s")
	if err := errors.Join(err, gone.Rollback(), kept.Commit()); err != nil {
		t.Fatal(err)
	}
	hears(2)
	if err := undone.Commit(); err != nil {
		t.Fatal(err)
	}
	hears(3)
	last := begin()
	notify(last, 4)
	if err := errors.Join(last.Commit(), sender.Close()); err != nil {
		t.Fatal(err)
	}
	hears(4)
}

// listening listens at a store. It returns a function that waits until a listener is woken for a queue.
func listening(t *testing.T, store *postgres.Store) (hears func(queue int64)) {
	t.Helper()
	woken := make(chan int64, 100)
	go store.Listen(t.Context(), func(q int64) { woken <- q })
	hears = func(want int64) {
		t.Helper()
		for end := time.After(slow.By(10 * time.Second)); ; {
			select {
			case q := <-woken:
				if q == want {
					return
				}
				if q != 0 {
					t.Errorf("a listener was woken for queue %d, want %d", q, want)
				}
			case <-end:
				t.Fatalf("no listener was woken for queue %d", want)
			}
		}
	}
	hears(0)
	return hears
}

// TestJoinedOnOneConnection: a joined transaction that holds the pool's only connection goes on and commits while
// the store wants to ask what became of it. Its receivers hear of it afterwards.
func TestJoinedOnOneConnection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, small := connect(t, "pgx", server(t)), connect(t, "postgres", server(t))
	small.SetMaxOpenConns(1)
	name := schema(t, db)
	hears := listening(t, open(t, db, postgres.Options{Schema: name}))
	sender := postgres.New(small, &postgres.Options{Schema: name})
	defer sender.Close()
	mine, err := small.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Rollback()
	tx, err := sender.Capabilities().Joiner.Join(ctx, mine)
	if err == nil {
		err = tx.NotifyAtCommit(ctx, []int64{1})
	}
	if err != nil {
		t.Fatal(err)
	}
	slow.Eventually(t, 10*time.Second, "the store has waited for the connection twice", func() (any, bool) {
		n := small.Stats().WaitCount
		return n, n >= 2
	})
	if _, err := mine.ExecContext(ctx, "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	if err := mine.Commit(); err != nil {
		t.Fatal(err)
	}
	hears(1)
}

// TestJoinedStatementsArePrepared: in a transaction of the store's own pool, and not in one of another pool, where
// everything works all the same.
func TestJoinedStatementsArePrepared(t *testing.T) {
	ctx := t.Context()
	db, other := connect(t, "postgres", server(t)), connect(t, "postgres", server(t))
	be := open(t, db, postgres.Options{Pooler: postgres.PoolerNever})
	b := sure.Of(parley.New(ctx, be, &parley.Options{NoMaintenance: true}))
	defer b.Close()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	post := func(db *sql.DB) (prepared int) {
		t.Helper()
		mine := sure.Of(db.BeginTx(ctx, nil))
		defer mine.Rollback()
		sure.Of(b.Join(mine).Post(ctx, "q", parley.Payload{}))
		err := mine.QueryRowContext(ctx, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%parley_post%'").Scan(&prepared)
		if err := errors.Join(err, mine.Commit()); err != nil {
			t.Fatal(err)
		}
		return prepared
	}
	post(db) // asks for it, and a transaction of Parley's has it prepared
	sure.Of(b.Post(ctx, "q", parley.Payload{}))
	if n := post(db); n == 0 {
		t.Error("no statement is prepared in a transaction of the store's pool")
	}
	if n := post(other); n != 0 {
		t.Errorf("%d statements are prepared in a transaction of another pool", n)
	}
	q := sure.Of(b.Admin().Queues(ctx, "q"))
	if q[0].Depth != 4 {
		t.Errorf("%d posts wait, want 4", q[0].Depth)
	}
}

// TestJoinedWithOpenRows: a program that has not closed its rows gets an error. Its transaction goes on, or is over
// with its connection, which lib/pq breaks where a statement is prepared. Nothing is tried a second time.
func TestJoinedWithOpenRows(t *testing.T) {
	ctx := t.Context()
	db := connect(t, "postgres", server(t))
	be := open(t, db, postgres.Options{Pooler: postgres.PoolerNever})
	b := sure.Of(parley.New(ctx, be, &parley.Options{NoMaintenance: true}))
	defer b.Close()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	posted := 0
	for range 3 { // the statement is not prepared yet the first time
		mine := sure.Of(db.BeginTx(ctx, nil))
		rows := sure.Of(mine.QueryContext(ctx, "SELECT generate_series(1, 100000)"))
		rows.Next()
		if _, err := b.Join(mine).Post(ctx, "q", parley.Payload{}); err == nil {
			t.Error("posted while rows are open")
		}
		rows.Close()
		_, err := b.Join(mine).Post(ctx, "q", parley.Payload{})
		if err == nil {
			if err := mine.Commit(); err != nil {
				t.Fatal(err)
			}
			posted++
		} else if mine.Rollback(); !errors.Is(err, parley.ErrConnection) {
			t.Errorf("%v, want ErrConnection or nothing", err)
		}
		sure.Of(b.Post(ctx, "q", parley.Payload{})) // prepares what was asked for
		posted++
		if q := sure.Of(b.Admin().Queues(ctx, "q")); q[0].Depth != posted {
			t.Errorf("%d posts wait, want %d", q[0].Depth, posted)
		}
	}
}
