package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/internal/slow"
)

// pooler plays a server behind a pooler in transaction mode, as far as a store asks
// for it when it starts. Without servers each connection has its own.
type pooler struct {
	servers int
	turns   bool // servers are given out in turn, and not the last one first

	mu    sync.Mutex
	freed *sync.Cond
	idle  []int
	conns int
}

func newPooler(servers int, turns bool) *pooler {
	p := &pooler{servers: servers, turns: turns}
	p.freed = sync.NewCond(&p.mu)
	for i := range servers {
		p.idle = append(p.idle, i+1)
	}
	return p
}

func (p *pooler) Connect(context.Context) (driver.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns++
	c := &poolerConn{p: p}
	if p.servers == 0 {
		c.server, c.own = p.conns, true
	}
	return c, nil
}

func (p *pooler) Driver() driver.Driver { return nil }

type poolerConn struct {
	p      *pooler
	server int // 0: none
	own    bool
	inTx   bool
}

func (c *poolerConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("no statements") }
func (c *poolerConn) Begin() (driver.Tx, error)           { return nil, errors.New("no transactions") }
func (c *poolerConn) Close() error                        { return nil }

// take waits for a server, unless the connection has one.
func (c *poolerConn) take() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for c.server == 0 && len(c.p.idle) == 0 {
		c.p.freed.Wait()
	}
	if c.server != 0 {
		return
	}
	at := len(c.p.idle) - 1
	if c.p.turns {
		at = 0
	}
	c.server = c.p.idle[at]
	c.p.idle = append(c.p.idle[:at:at], c.p.idle[at+1:]...)
}

// leave gives the server back outside of transactions.
func (c *poolerConn) leave() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.own || c.inTx {
		return
	}
	c.p.idle = append(c.p.idle, c.server)
	c.server = 0
	c.p.freed.Signal()
}

func (c *poolerConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	c.take()
	c.inTx = query == "BEGIN"
	c.leave()
	return driver.ResultNoRows, nil
}

func (c *poolerConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	c.take()
	defer c.leave()
	switch query {
	case "SELECT pg_backend_pid()":
		return &poolerRow{value: int64(c.server)}, nil
	case "SELECT current_schema()":
		return &poolerRow{value: "public"}, nil
	}
	return nil, fmt.Errorf("the store asks %q", query)
}

type poolerRow struct {
	value any
	read  bool
}

func (r *poolerRow) Columns() []string { return []string{"x"} }
func (r *poolerRow) Close() error      { return nil }
func (r *poolerRow) Next(to []driver.Value) error {
	if r.read {
		return io.EOF
	}
	to[0], r.read = r.value, true
	return nil
}

// TestManyStartBehindPooler starts more stores concurrently than a pooler has servers. No store
// waits for a server while it holds another, and each detects the pooler.
func TestManyStartBehindPooler(t *testing.T) {
	for _, servers := range []int{0, 1, 2, 8} {
		for _, turns := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d servers, in turn %t", servers, turns), func(t *testing.T) {
				t.Parallel()
				manyStart(t, newPooler(servers, turns), servers > 0)
			})
		}
	}
}

func manyStart(t *testing.T, p *pooler, pooled bool) {
	const stores = 60
	done := make(chan error, stores)
	for range stores {
		go func() {
			db := sql.OpenDB(p)
			defer db.Close()
			s := New(db, nil)
			err := s.pool.probe(context.Background())
			if got := s.pool.pooled.Load(); err == nil && got != pooled {
				err = fmt.Errorf("a pooler is seen: %t", got)
			}
			done <- err
		}()
	}
	stuck := time.After(slow.By(20 * time.Second))
	for range stores {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-stuck:
			t.Fatal("stores wait for each other")
		}
	}
}
