package mysql_test

import (
	"context"
	"database/sql"
	"net"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/workertest"
)

// TestCut: what the driver says of a connection that breaks.
func TestCut(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		own := database(t, server)
		backendtest.Cut(t, server, "start transaction", func(t *testing.T, through string) backend.Backend {
			return open(t, connect(t, through, own, func(c *driver.Config) { c.Logger = &driver.NopLogger{} }), nil)
		})
	})
}

// TestWorkerIsCut: no message is charged with connections that break.
func TestWorkerIsCut(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		p, through := backendtest.Through(t, server)
		own := database(t, server)
		quiet := func(c *driver.Config) { c.Logger = &driver.NopLogger{} }
		workertest.Cut(t, p, open(t, connect(t, server, own, nil), nil), open(t, connect(t, through, own, quiet), nil))
	})
}

// TestCloseMute: Close does not wait for a server that has stopped answering.
func TestCloseMute(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		p, through := backendtest.Through(t, server)
		own := database(t, server)
		workertest.Mute(t, p, open(t, connect(t, through, own, func(c *driver.Config) { c.Logger = &driver.NopLogger{} }), nil))
	})
}

// TestDial: how the driver's time-outs of dialling are told from those of callers.
func TestDial(t *testing.T) {
	backendtest.Dial(t, func(t *testing.T, dial func(context.Context) error) backend.Backend {
		c := driver.NewConfig()
		c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, dial(ctx) }
		connector, err := driver.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		return mysql.New(sql.OpenDB(connector), nil)
	})
}
