package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
)

// behind is a driver with a separate pool, such as a pgxpool. A connection that database/sql closes
// goes back to that pool, if the pool has not closed it. Its first connections lead to a server
// that now refuses writes.
type behind struct{ stale, opened int }

func (b *behind) Driver() driver.Driver { return nil }

func (b *behind) Connect(context.Context) (driver.Conn, error) {
	if b.stale == 0 {
		b.opened++
	}
	return &driverConn{b: b, stale: b.stale > 0}, nil
}

type driverConn struct {
	b     *behind
	stale bool
}

func (c *driverConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *driverConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c *driverConn) Close() error                        { return nil }
func (c *driverConn) Conn() *ownConn                      { return &ownConn{c} }

func (c *driverConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	if c.stale {
		return nil, errors.New("this server is a standby")
	}
	return noTx{}, nil
}

type ownConn struct{ c *driverConn }

func (o *ownConn) Close(context.Context) error {
	if o.c.stale {
		o.c.b.stale--
	}
	return nil
}

type noTx struct{}

func (noTx) Commit() error   { return nil }
func (noTx) Rollback() error { return nil }

// TestFailoverBehindPool: after a server has refused to write, no connection to it is
// left in the pool that a driver has behind database/sql.
func TestFailoverBehindPool(t *testing.T) {
	b := &behind{stale: 5}
	db := sql.OpenDB(b)
	defer db.Close()
	db.SetMaxIdleConns(0)
	s := &Store{d: &Dialect{DB: db}}
	s.dropIdle()
	if b.stale != 0 || b.opened != 1 {
		t.Errorf("%d connections to the old server are left, and %d to the new one were opened; want 0 and 1", b.stale, b.opened)
	}
}
