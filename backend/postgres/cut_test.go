package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/workertest"
)

// TestCut: what the drivers say of a connection that breaks.
func TestCut(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			name := schema(t, connect(t, "postgres", server(t)))
			backendtest.Cut(t, server(t), "begin", func(t *testing.T, through string) backend.Backend {
				return open(t, connect(t, driver, through), postgres.Options{Schema: name, Pooler: postgres.PoolerNever})
			})
		})
	}
}

type dialler func(context.Context) error

func (d dialler) Dial(string, string) (net.Conn, error) { return nil, d(context.Background()) }

func (d dialler) DialTimeout(string, string, time.Duration) (net.Conn, error) {
	return nil, d(context.Background())
}

// TestWorkerIsCut: no message is charged with connections that break.
func TestWorkerIsCut(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			p, through := backendtest.Through(t, server(t))
			direct := connect(t, "postgres", server(t))
			o := postgres.Options{Schema: schema(t, direct)}
			workertest.Cut(t, p, open(t, direct, o), open(t, connect(t, driver, through), o))
		})
	}
}

// TestCloseMute: Close does not wait for a server that has stopped answering.
func TestCloseMute(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p, through := backendtest.Through(t, server(t))
			o := postgres.Options{Schema: schema(t, connect(t, "postgres", server(t)))}
			workertest.Mute(t, p, open(t, connect(t, driver, through), o))
		})
	}
}

// TestUntyped: the drivers have no type for much of what goes wrong before they are connected,
// such as a standby where a primary is wanted.
func TestUntyped(t *testing.T) {
	c, err := pq.NewConnector("postgres://app@127.0.0.1:1/app?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	c.Dialer(dialler(func(context.Context) error { return errors.New("session is read-only") }))
	if _, err := postgres.New(sql.OpenDB(c), nil).Begin(t.Context()); !errors.Is(err, backend.ErrNotBegun) {
		t.Errorf("%v, want ErrNotBegun", err)
	}
}

// TestDial: how the drivers' time-outs of dialling are told from those of callers.
func TestDial(t *testing.T) {
	t.Run("pq", func(t *testing.T) {
		backendtest.Dial(t, func(t *testing.T, dial func(context.Context) error) backend.Backend {
			c, err := pq.NewConnector("postgres://app@127.0.0.1:1/app?sslmode=disable")
			if err != nil {
				t.Fatal(err)
			}
			c.Dialer(dialler(dial))
			return postgres.New(sql.OpenDB(c), nil)
		})
	})
	t.Run("pgx", func(t *testing.T) {
		backendtest.Dial(t, func(t *testing.T, dial func(context.Context) error) backend.Backend {
			c, err := pgx.ParseConfig("postgres://app@127.0.0.1:1/app?sslmode=disable")
			if err != nil {
				t.Fatal(err)
			}
			c.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, dial(ctx) }
			return postgres.New(stdlib.OpenDB(*c), nil)
		})
	})
}
