package pgxstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/slow"
)

// trips counts round trips: reads from the server that follow a write.
type trips struct {
	net.Conn
	wrote atomic.Bool
	n     *atomic.Int64
}

func (c *trips) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *trips) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.wrote.Swap(false) {
		c.n.Add(1)
	}
	return n, err
}

// counted is a pool of one connection whose round trips are counted.
func counted(t *testing.T, p *pgxpool.Pool) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	n := new(atomic.Int64)
	c := p.Config().Copy()
	c.MaxConns = 1
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &trips{Conn: conn, n: n}, err
	}
	one, err := pgxpool.NewWithConfig(t.Context(), c)
	must(t, err)
	t.Cleanup(one.Close)
	return one, n
}

// TestBatch: a row of the program and a post are committed together, or not at all, in one round trip. Statements whose
// answer is needed take more round trips.
func TestBatch(t *testing.T) {
	ctx := t.Context()
	p := pool(t, 4)
	b, table := shop(t, p)
	one, n := counted(t, p)
	calls := 0
	order := func(id string, o ...parley.PostOption) error {
		return InBatch(ctx, b, one, func(batch *pgx.Batch, tx *parley.Tx) error {
			calls++
			batch.Queue("INSERT INTO "+table+" VALUES ($1)", id)
			_, err := tx.Post(ctx, "mail", parley.Payload{Body: []byte(id)}, o...)
			return err
		})
	}
	received := func(want string) {
		t.Helper()
		d, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{Wait: 20 * time.Second})
		must(t, err)
		if got := string(d.Messages[0].Body); got != want {
			t.Errorf("received %q, want %q", got, want)
		}
		must(t, d.Ack(ctx))
	}
	nothing := func(what string) {
		t.Helper()
		if d, err := b.Receive(ctx, "mail", nil); !errors.Is(err, parley.ErrNoMessage) {
			t.Errorf("%s: %v, %v", what, d, err)
		}
	}
	must(t, order("prepares")) // statements, on the connection
	received("prepares")

	calls = 0
	n.Store(0)
	must(t, order("one"))
	if n.Load() != 1 || calls != 1 {
		t.Errorf("%d round trips, %d calls, want 1 of each", n.Load(), calls)
	}
	received("one")

	var e *pgconn.PgError
	if err := order("one"); !errors.As(err, &e) || e.Code != "23505" { // unique_violation
		t.Errorf("a row that is there: %v", err)
	}
	nothing("after a row that could not be added")
	failed := errors.New("no")
	err := InBatch(ctx, b, one, func(batch *pgx.Batch, tx *parley.Tx) error {
		batch.Queue("INSERT INTO " + table + " VALUES ('no')")
		_, err := tx.Post(ctx, "mail", parley.Payload{})
		return errors.Join(err, failed)
	})
	if !errors.Is(err, failed) {
		t.Errorf("an error of the function: %v", err)
	}
	nothing("after an error of the function")

	calls = 0
	must(t, order("keyed", parley.Key("k"), parley.Unique("u")))
	received("keyed")
	if calls != 2 {
		t.Errorf("the function was called %d times where answers are needed, want 2", calls)
	}
	if err := order("keyed", parley.Key("k")); !errors.As(err, &e) || e.Code != "23505" {
		t.Errorf("a row that is there, with answers: %v", err)
	}
	nothing("after a row that could not be added, with answers")
	if got := count(t, p, table); got != 3 {
		t.Errorf("%d orders, want 3", got)
	}
}

// TestBatchOfAnotherCatalog: where the catalog has changed, or the queue is off, a batch does what a transaction does.
func TestBatchOfAnotherCatalog(t *testing.T) {
	ctx := t.Context()
	p := pool(t, 4)
	b, table := shop(t, p)
	other, err := parley.New(ctx, New(p, &postgres.Options{Schema: strings.TrimSuffix(table, ".orders")}), &parley.Options{NoMaintenance: true})
	must(t, err)
	t.Cleanup(func() { other.Close() })
	order := func(id string) error {
		return InBatch(ctx, b, p, func(batch *pgx.Batch, tx *parley.Tx) error {
			batch.Queue("INSERT INTO "+table+" VALUES ($1)", id)
			_, err := tx.Post(ctx, "mail", parley.Payload{Body: []byte(id), Headers: map[string]string{"order": id}})
			return err
		})
	}
	must(t, order("first"))
	must(t, other.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "further"}}}))
	must(t, order("second"))
	must(t, other.Admin().DisableQueue(ctx, "mail"))
	if err := order("third"); !errors.Is(err, parley.ErrQueueDisabled) {
		t.Errorf("to a queue that is off: %v", err)
	}
	must(t, other.Admin().EnableQueue(ctx, "mail"))
	for _, want := range []string{"first", "second"} {
		d, err := b.Receive(ctx, "mail", nil)
		must(t, err)
		if m := d.Messages[0]; string(m.Body) != want || m.Headers["order"] != want {
			t.Errorf("received %q with %v, want %q", m.Body, m.Headers, want)
		}
		must(t, d.Ack(ctx))
	}
	if n := count(t, p, table); n != 2 {
		t.Errorf("%d orders, want 2", n)
	}
}

// TestBatchFindsItsSchema: listeners hear of a batch that is the first thing that its store does. The store has not asked
// yet for its schema, which is that of its connections.
func TestBatchFindsItsSchema(t *testing.T) {
	ctx := t.Context()
	p := pool(t, 4)
	_, table := shop(t, p)
	own := strings.TrimSuffix(table, ".orders")
	other := New(p, &postgres.Options{Schema: own})
	t.Cleanup(func() { other.Close() })
	listening, stop := context.WithCancel(ctx)
	heard, over := make(chan int64, 100), make(chan struct{})
	go func() {
		defer close(over)
		other.Listen(listening, func(queue int64) { heard <- queue })
	}()
	defer func() { stop(); <-over }()
	if queue := <-heard; queue != 0 {
		t.Fatalf("it begins with queue %d, want 0: all", queue)
	}

	c := p.Config().Copy()
	c.ConnConfig.RuntimeParams["search_path"] = own
	there, err := pgxpool.NewWithConfig(ctx, c)
	must(t, err)
	t.Cleanup(there.Close)
	store := New(there, nil)
	t.Cleanup(func() { store.Close() })
	l := &batched{batch: new(pgx.Batch)}
	tx, err := store.Join(ctx, l)
	must(t, err)
	must(t, tx.NotifyAtCommit(ctx, []int64{7}))
	must(t, send(ctx, there, l.batch))
	select {
	case queue := <-heard:
		if queue != 7 {
			t.Errorf("the listener hears of queue %d, want 7", queue)
		}
	case <-time.After(slow.By(15 * time.Second)):
		t.Error("the listener does not hear of the batch")
	}
}
