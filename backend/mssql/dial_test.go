package mssql

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"

	driver "github.com/microsoft/go-mssqldb"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

type dialler func(context.Context) error

func (d dialler) DialContext(ctx context.Context, _, _ string) (net.Conn, error) { return nil, d(ctx) }

// TestUntyped: the driver has no type for much of what goes wrong before it is connected.
func TestUntyped(t *testing.T) {
	c, err := driver.NewConnector("sqlserver://app@127.0.0.1:1?database=app")
	if err != nil {
		t.Fatal(err)
	}
	c.Dialer = dialler(func(context.Context) error { return errors.New("no type") })
	s := New(sql.OpenDB(c), nil)
	if _, err := s.pool.begin(t.Context()); !errors.Is(err, backend.ErrConnection) {
		t.Errorf("%v, want ErrConnection", err)
	}
}

// TestDial: how the driver's time-outs of dialling are told from those of callers.
func TestDial(t *testing.T) {
	backendtest.Dial(t, func(t *testing.T, dial func(context.Context) error) backend.Backend {
		c, err := driver.NewConnector("sqlserver://app@127.0.0.1:1?database=app")
		if err != nil {
			t.Fatal(err)
		}
		c.Dialer = dialler(dial)
		return New(sql.OpenDB(c), nil)
	})
}
