package mysql_test

import (
	"context"
	"os"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server string) {
		t.Parallel()
		s := checked(t, server)
		s.Beside = []conformance.Store{checked(t, server)} // with more, workers starve each other
		conformance.Run(t, s)
	})
}

// checked is a database of its own for the suite.
func checked(t *testing.T, server string) conformance.Store {
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's database
	if dsn == "" {
		dsn = in(t, server, database(t, server))
	}
	return conformance.Store{
		Process:    dsn,
		Disposable: true,
		Lose:       conformance.LoseBySQL("KILL CONNECTION_ID()"),
		Open:       func(ctx context.Context) (backend.Backend, error) { return mysql.Open(ctx, dsn, nil) },
		Limit: func(ctx context.Context, conns int) (backend.Backend, error) {
			return mysql.Open(ctx, dsn, &mysql.Options{MaxConns: conns})
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return mysql.Open(ctx, in(t, server, database(t, server)), nil)
		},
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			dsn := in(t, server, database(t, server))
			return func(ctx context.Context) (backend.Backend, error) { return mysql.Open(ctx, dsn, nil) }
		}),
	}
}
