package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/parleymq/parley/backend"
)

// Reads are the contexts of the application's statements in a transaction of ours. They end with the transaction.
// Rows that the application has left open are closed then, and a statement that is under way is interrupted, both
// with sql.ErrTxDone. Otherwise a connection with open rows could not be given back, nor closed.
type Reads struct {
	mu   sync.Mutex
	open map[*reading]struct{}
	over bool
}

// Context returns the context of a statement, and what to call when the statement is over. Rows outlive their
// statement: what they take from the context ends with them.
func (r *Reads) Context(ctx context.Context) (own context.Context, done func()) {
	c := &reading{Context: ctx, reads: r, done: make(chan struct{}), calls: make(map[*func()]struct{}), busy: 1}
	r.mu.Lock()
	if r.open == nil {
		r.open = make(map[*reading]struct{})
	}
	r.open[c] = struct{}{}
	over := r.over
	r.mu.Unlock()
	if c.stop = context.AfterFunc(ctx, func() { c.end(ctx.Err()) }); over {
		c.end(sql.ErrTxDone)
	}
	return c, func() {
		c.mu.Lock()
		c.said = true
		c.mu.Unlock()
		c.left()
	}
}

// Left reports whether there are rows that are open though their statements are over.
func (r *Reads) Left() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		if c.rows() {
			return true
		}
	}
	return false
}

func (c *reading) rows() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said && len(c.calls) > 0
}

// Cut ends the context of a statement that will not be answered.
func (r *Reads) Cut(ctx context.Context) {
	if c, ok := ctx.(*reading); ok {
		c.end(context.Canceled)
	}
}

// Close ends all contexts, now and from now on.
func (r *Reads) Close() {
	r.mu.Lock()
	r.over = true
	open := make([]*reading, 0, len(r.open))
	for c := range r.open {
		open = append(open, c)
	}
	r.mu.Unlock()
	for _, c := range open {
		c.end(sql.ErrTxDone)
	}
}

// reading is a context that knows what is derived from it. Package context calls AfterFunc of a context whose type
// it does not know, and stops that function when the derived context ends. The context of rows does when they are
// closed.
type reading struct {
	context.Context
	reads *Reads
	done  chan struct{}
	stop  func() bool

	mu    sync.Mutex
	err   error
	calls map[*func()]struct{}
	busy  int  // calls, and the statement itself
	said  bool // the statement is over
}

func (c *reading) Done() <-chan struct{} { return c.done }

func (c *reading) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *reading) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	c.calls[&f] = struct{}{}
	c.busy++
	return func() bool {
		c.mu.Lock()
		_, had := c.calls[&f]
		delete(c.calls, &f)
		c.mu.Unlock()
		if had {
			c.left()
		}
		return had
	}
}

// left takes note that the statement, or what was derived from the context, is over.
func (c *reading) left() {
	c.mu.Lock()
	c.busy--
	last := c.busy == 0
	c.mu.Unlock()
	if last {
		c.stop()
		c.reads.forget(c)
	}
}

func (r *Reads) forget(c *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
}

// end ends the context, and with it what is derived from it.
func (c *reading) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls := c.calls
	c.calls = nil
	close(c.done)
	c.mu.Unlock()
	for f := range calls {
		go (*f)()
	}
	c.reads.forget(c)
}

// Reader is an Execer whose statements have contexts of Reads.
type Reader struct {
	backend.Execer
	Reads *Reads
}

// ExecContext implements backend.Execer, as the following do.
func (r Reader) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, done := r.Reads.Context(ctx)
	defer done()
	return r.Execer.ExecContext(ctx, query, args...)
}

func (r Reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, done := r.Reads.Context(ctx)
	defer done()
	return r.Execer.QueryContext(ctx, query, args...)
}

func (r Reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx, done := r.Reads.Context(ctx)
	defer done()
	return r.Execer.QueryRowContext(ctx, query, args...)
}
