package backendtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// Rewrite opens a database whose statements are rewritten before they are sent. The
// driver must have the context variants of all methods.
func Rewrite(c driver.Connector, rewrite func(query string) string) *sql.DB {
	return sql.OpenDB(rewritingConnector{c, rewrite})
}

type rewritingConnector struct {
	driver.Connector
	rewrite func(string) string
}

func (c rewritingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &rewritingConn{conn, c.rewrite}, nil
}

type rewritingConn struct {
	driver.Conn
	rewrite func(string) string
}

func (c *rewritingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, c.rewrite(query), args)
}

func (c *rewritingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, c.rewrite(query), args)
}

func (c *rewritingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, c.rewrite(query))
}

func (c *rewritingConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c *rewritingConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *rewritingConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c *rewritingConn) CheckNamedValue(v *driver.NamedValue) error {
	if k, ok := c.Conn.(driver.NamedValueChecker); ok {
		return k.CheckNamedValue(v)
	}
	return driver.ErrSkip
}
