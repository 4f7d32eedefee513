package pgxstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/backend/sqlstore"
	"github.com/parleymq/parley/conformance"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// pool opens a pool of the test's own.
func pool(t *testing.T, conns int32) *pgxpool.Pool {
	t.Helper()
	server := backendtest.Server(t, "postgres", "PARLEY_TEST_POSTGRES", "the data source name of a PostgreSQL server for tests")
	c, err := pgxpool.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	c.MaxConns = conns
	p, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// schema is the name of a schema of the test's own.
func schema(t *testing.T, p *pgxpool.Pool) string {
	name := backendtest.Name()
	backendtest.DropSchema(t, name, func(query string) error {
		_, err := p.Exec(context.Background(), query)
		return err
	})
	return name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shop is a broker beside a table of the application's.
func shop(t *testing.T, p *pgxpool.Pool) (b *parley.Broker, table string) {
	t.Helper()
	name := schema(t, p)
	b, err := parley.New(t.Context(), New(p, &postgres.Options{Schema: name}), nil)
	must(t, err)
	t.Cleanup(func() { b.Close() })
	must(t, b.Migrate(t.Context()))
	must(t, b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))
	_, err = p.Exec(t.Context(), "CREATE TABLE "+name+".orders (id text PRIMARY KEY)")
	must(t, err)
	return b, name + ".orders"
}

// count counts the rows of a table.
func count(t *testing.T, p *pgxpool.Pool, table string) (n int) {
	t.Helper()
	must(t, p.QueryRow(context.Background(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// TestAlone: posts and sends by themselves, on connections that break and beside callers that give up.
func TestAlone(t *testing.T) {
	server := backendtest.Server(t, "postgres", "PARLEY_TEST_POSTGRES", "the data source name of a PostgreSQL server for tests")
	direct := pool(t, 4)
	own := schema(t, direct)
	open := func(t *testing.T, through string) backend.Backend {
		p, err := pgxpool.New(t.Context(), through)
		must(t, err)
		t.Cleanup(p.Close)
		b := New(p, &postgres.Options{Schema: own})
		t.Cleanup(func() { b.Close() })
		must(t, b.Migrate(t.Context()))
		return b
	}
	lock := func(t *testing.T, table string) func() {
		tx, err := direct.Begin(t.Context())
		must(t, err)
		unlock := func() { tx.Rollback(context.Background()) }
		t.Cleanup(unlock)
		_, err = tx.Exec(t.Context(), "LOCK TABLE "+own+"."+table+" IN EXCLUSIVE MODE")
		must(t, err)
		return unlock
	}
	t.Run("posts", func(t *testing.T) { backendtest.Alone(t, server, open, lock) })
	t.Run("batches", func(t *testing.T) { backendtest.AloneBatches(t, server, open, lock) })
	t.Run("sends", func(t *testing.T) { backendtest.AloneSends(t, server, open, lock) })
}

// TestJoin: what is posted in a transaction of pgx comes with its commit, and not at all
// after a rollback.
func TestJoin(t *testing.T) {
	ctx := t.Context()
	p := pool(t, 4)
	b, table := shop(t, p)
	order := func(id string, end func(pgx.Tx) error) {
		t.Helper()
		tx, err := p.Begin(ctx)
		must(t, err)
		_, err = tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", id)
		must(t, err)
		_, err = Join(b, tx).Post(ctx, "mail", parley.Payload{Body: []byte(id)})
		must(t, err)
		must(t, end(tx))
	}
	order("one", func(tx pgx.Tx) error { return tx.Rollback(ctx) })
	if d, err := b.Receive(ctx, "mail", nil); !errors.Is(err, parley.ErrNoMessage) {
		t.Fatalf("after the rollback: %v, %v", d, err)
	}
	order("two", func(tx pgx.Tx) error { return tx.Commit(ctx) })
	d, err := b.Receive(ctx, "mail", nil)
	must(t, err)
	if body := string(d.Messages[0].Body); body != "two" || len(d.Messages) != 1 {
		t.Errorf("received %d messages, the first %q", len(d.Messages), body)
	}
	must(t, d.Ack(ctx))
	if n := count(t, p, table); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
	if _, err := Join(b, nil).Post(ctx, "mail", parley.Payload{}); !errors.Is(err, parley.ErrTxDone) {
		t.Errorf("in no transaction: %v", err)
	}
}

// TestManyRequests: a web service stores an order and posts in one transaction of pgx. There are 16 concurrent
// requests, which share a pool of four connections with the worker. None hangs, and what was rolled back brings no
// message.
func TestManyRequests(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), slow.By(90*time.Second))
	defer cancel()
	p := pool(t, 4)
	b, table := shop(t, p)
	_, err := p.Exec(ctx, "CREATE TABLE "+table+"_mails (id text PRIMARY KEY)")
	must(t, err)
	store := func(ctx context.Context, id string) error {
		return pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", id); err != nil {
				return err
			}
			if _, err := Join(b, tx).Post(ctx, "mail", parley.Payload{Body: []byte(id)}); err != nil {
				return err
			}
			if strings.HasSuffix(id, "3") {
				return errRefused
			}
			return nil
		})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := store(r.Context(), r.URL.Query().Get("id")); {
		case errors.Is(err, errRefused):
			w.WriteHeader(http.StatusConflict)
		case err != nil:
			t.Error(err)
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()

	w := sure.Of(b.NewWorker("mail", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		if err != nil {
			return err
		}
		own, err := Tx(ctx, tx)
		if err != nil {
			return err
		}
		_, err = own.Exec(ctx, "INSERT INTO "+table+"_mails VALUES ($1)", string(m.Body))
		return err
	}), nil))
	working, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- w.Run(working) }()

	const clients, each = 16, 20
	stored := request(ctx, t, server, clients, each)
	want := clients * each * 9 / 10
	slow.Eventually(t, 30*time.Second, "each order has its mail", func() (any, bool) {
		n := count(t, p, table+"_mails")
		return n, n >= want
	})
	stop()
	must(t, <-over)
	if n := count(t, p, table); n != want || stored != want {
		t.Errorf("%d orders, %d answers that say so, want %d", n, stored, want)
	}
	var differ int
	must(t, p.QueryRow(ctx, "SELECT count(*) FROM "+table+" FULL JOIN "+table+"_mails USING (id) WHERE "+
		table+".id IS NULL OR "+table+"_mails.id IS NULL").Scan(&differ))
	if differ > 0 {
		t.Errorf("%d orders without mail, or mails without order", differ)
	}
}

// request has clients send requests at once, and counts those that were granted.
func request(ctx context.Context, t *testing.T, server *httptest.Server, clients, each int) int {
	var all sync.WaitGroup
	var granted atomic.Int32
	for c := range clients {
		all.Go(func() {
			for i := range each {
				r, err := http.NewRequestWithContext(ctx, "POST", fmt.Sprintf("%s?id=%d-%d", server.URL, c, i), nil)
				if err != nil {
					t.Error(err)
					return
				}
				a, err := server.Client().Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				a.Body.Close()
				if a.StatusCode == http.StatusOK {
					granted.Add(1)
				}
			}
		})
	}
	all.Wait()
	return int(granted.Load())
}

var errRefused = errors.New("the order is refused")

// TestHandlerTx: what a handler writes by pgx commits with its message, and is undone with it.
func TestHandlerTx(t *testing.T) {
	ctx := t.Context()
	p := pool(t, 4)
	b, table := shop(t, p)
	for _, id := range []string{"one", "two"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(id)})
		must(t, err)
	}
	calls := 0
	handler := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		if err != nil {
			return err
		}
		own, err := Tx(ctx, tx)
		if err != nil {
			return err
		}
		calls++
		if _, err := own.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", string(m.Body)); err != nil {
			return err
		}
		if own.Commit(ctx) == nil || own.Rollback(ctx) == nil {
			t.Error("a handler has ended the transaction of its messages")
		}
		return pgx.BeginFunc(ctx, own, func(inner pgx.Tx) error { // a savepoint
			if calls == 1 {
				return errors.New("the first call fails")
			}
			_, err := inner.Exec(ctx, "UPDATE "+table+" SET id = id || '!' WHERE id = $1", string(m.Body))
			return err
		})
	})
	w := sure.Of(b.NewWorker("mail", handler, &parley.WorkerOptions{MaxReaders: 1, Backoff: func(int) time.Duration { return time.Millisecond }}))
	slow.Eventually(t, 20*time.Second, "both orders are there", func() (any, bool) {
		must(t, w.Drain(ctx)) // what is to be tried again is not due at once
		n := count(t, p, table)
		return n, n >= 2
	})
	if n := count(t, p, table+" WHERE id LIKE '%!'"); n != 2 || calls != 3 {
		t.Errorf("%d orders after %d calls, want 2 after 3", n, calls)
	}
	name, _, _ := strings.Cut(table, ".")
	db := backendtest.Connect(t, "postgres", p.Config().ConnString())
	lib, err := parley.New(ctx, postgres.New(db, &postgres.Options{Schema: name}), nil)
	must(t, err)
	defer lib.Close()
	err = lib.InTx(ctx, func(tx *parley.Tx) error { _, err := Tx(ctx, tx); return err })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of lib/pq: %v", err)
	}
}

// TestPoolIsGivenBack: a store leaves nothing in the pool, and no connection listens for it
// any more.
func TestPoolIsGivenBack(t *testing.T) {
	ctx := t.Context()
	p := pool(t, 4)
	b, _ := shop(t, p)
	if _, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{Wait: 300 * time.Millisecond}); !errors.Is(err, parley.ErrNoMessage) {
		t.Fatal(err)
	}
	if total := p.Stat().TotalConns(); total > 4 {
		t.Errorf("%d connections of 4", total)
	}
	must(t, b.Close())
	var all []*pgxpool.Conn
	for range p.Config().MaxConns {
		waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
		c, err := p.Acquire(waiting)
		cancel()
		must(t, err)
		all = append(all, c)
		var n int
		must(t, c.QueryRow(ctx, "SELECT count(*) FROM pg_listening_channels()").Scan(&n))
		if n > 0 {
			t.Error("a connection listens still")
		}
	}
	for _, c := range all {
		c.Release()
	}
}

func TestBackendPool(t *testing.T) {
	p := pool(t, 16)
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b := New(p, &postgres.Options{Schema: schema(t, p)})
		t.Cleanup(func() { b.Close() })
		must(t, b.Migrate(context.Background()))
		return b
	})
}

// TestBackendJoined has all transactions be those of a program.
func TestBackendJoined(t *testing.T) {
	p := pool(t, 16)
	own := schema(t, p)
	conformance.RunMatching(t, conformance.Store{Open: func(context.Context) (backend.Backend, error) {
		return &foreign{New(p, &postgres.Options{Schema: own}), p}, nil
	}}, backendtest.Sessions)
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		b := &foreign{New(p, &postgres.Options{Schema: schema(t, p)}), p}
		t.Cleanup(func() { b.Close() })
		must(t, b.Migrate(context.Background()))
		return b
	})
}

// foreign is a store that joins transactions of pgx where others begin their own.
type foreign struct {
	*Store
	pool *pgxpool.Pool
}

// foreignTx is a transaction that is joined. It ends as its own.
type foreignTx struct {
	backend.Tx
	pgx pgx.Tx
}

func (f *foreign) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := f.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	joined, err := f.Capabilities().Joiner.Join(ctx, joined{tx})
	return &foreignTx{joined, tx}, err
}

func (t *foreignTx) Commit(ctx context.Context) error {
	err := t.pgx.Commit(ctx)
	if errors.Is(err, pgx.ErrTxClosed) {
		err = backend.ErrTxDone
	}
	return err
}

func (t *foreignTx) Rollback(ctx context.Context) error {
	t.pgx.Rollback(ctx)
	return nil
}

// SQL implements backend.Tx. Nothing watches over the statements of a program in its own
// transaction; here they are as those in one of the store's.
func (t *foreignTx) SQL() backend.Execer {
	return watched{sqlstore.Whole{Execer: t.Tx.SQL(), May: func() {}}}
}

type watched struct{ sqlstore.Whole }

func (w watched) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if strings.HasPrefix(query, "SELECT 1; ") {
		return nil, errors.New("one statement at a time")
	}
	return w.Whole.ExecContext(ctx, query, args...)
}

// TestConformancePGXPool runs the suite on a pool of pgx, in which all handles share.
func TestConformancePGXPool(t *testing.T) {
	t.Parallel()
	p := pool(t, 40)
	own := os.Getenv(conformance.StoreEnv) // a child process has its parent's schema
	fresh := ""
	if own == "" {
		own, fresh = schema(t, p), schema(t, p)
	}
	on := func(p *pgxpool.Pool, schema string) (backend.Backend, error) {
		return New(p, &postgres.Options{Schema: schema}), nil
	}
	conformance.Run(t, conformance.Store{
		Process:    own,
		Disposable: true,
		Lose:       conformance.LoseBySQL("SELECT pg_terminate_backend(pg_backend_pid())"),
		Open:       func(context.Context) (backend.Backend, error) { return on(p, own) },
		Limit: func(_ context.Context, conns int) (backend.Backend, error) {
			return on(pool(t, int32(conns)), own)
		},
		Fresh: func(context.Context) (backend.Backend, error) { return on(p, fresh) },
	})
}

// TestCut: what pgx says of a connection that breaks.
func TestCut(t *testing.T) {
	own := schema(t, pool(t, 2))
	server := backendtest.Server(t, "postgres", "PARLEY_TEST_POSTGRES", "the data source name of a PostgreSQL server for tests")
	backendtest.Cut(t, server, "begin", func(t *testing.T, through string) backend.Backend {
		p, err := pgxpool.New(t.Context(), through)
		must(t, err)
		t.Cleanup(p.Close)
		b := New(p, &postgres.Options{Schema: own})
		t.Cleanup(func() { b.Close() })
		must(t, b.Migrate(t.Context()))
		return b
	})
}

// TestAcquiring: a pool whose connections are all in use and a pool that cannot open any return different errors.
func TestAcquiring(t *testing.T) {
	connect := func(p *pgxpool.Pool) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := acquiring{stdlib.GetPoolConnector(p), p}.Connect(ctx)
		return err
	}
	c, err := pgxpool.ParseConfig("postgres://app@127.0.0.1:1/app")
	must(t, err)
	over := make(chan struct{})
	c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		<-over
		return nil, errors.New("over")
	}
	deaf, err := pgxpool.NewWithConfig(t.Context(), c)
	must(t, err)
	if err := connect(deaf); err == context.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a connection is opened: %v, want an error that says so and is the context's", err)
	}
	close(over)
	deaf.Close()
	p := pool(t, 1)
	conn, err := p.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	if err := connect(p); err != context.DeadlineExceeded {
		t.Errorf("while all are in use: %v, want the context's error alone", err)
	}
}
