package backendtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
)

// Counter counts what goes to a database: statements by their text, and the
// beginnings and ends of transactions.
type Counter struct {
	mu   sync.Mutex
	seen []string
}

func (c *Counter) add(what string) {
	c.mu.Lock()
	c.seen = append(c.seen, what)
	c.mu.Unlock()
}

// Take returns what was seen since the last call. Preparing does not count: it
// happens once per connection.
func (c *Counter) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// Count opens a database whose statements are counted. The driver must have the
// context variants of all methods.
func Count(c driver.Connector) (*sql.DB, *Counter) {
	counter := new(Counter)
	return sql.OpenDB(countingConnector{c, counter}), counter
}

type countingConnector struct {
	driver.Connector
	c *Counter
}

func (c countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, c.c}, nil
}

type countingConn struct {
	driver.Conn
	c *Counter
}

func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.c.add(query)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.c.add(query)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c countingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return countingStmt{s, c.c, query}, nil
}

func (c countingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.c.add("BEGIN")
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return countingTx{tx, c.c}, nil
}

func (c countingConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c countingConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c countingConn) CheckNamedValue(v *driver.NamedValue) error {
	if k, ok := c.Conn.(driver.NamedValueChecker); ok {
		return k.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type countingStmt struct {
	driver.Stmt
	c     *Counter
	query string
}

func (s countingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.c.add(s.query)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s countingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.c.add(s.query)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

type countingTx struct {
	driver.Tx
	c *Counter
}

func (t countingTx) Commit() error {
	t.c.add("COMMIT")
	return t.Tx.Commit()
}

func (t countingTx) Rollback() error {
	t.c.add("ROLLBACK")
	return t.Tx.Rollback()
}
