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
	each(t, func(t *testing.T, server string) {
		t.Parallel()
		dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's database
		if dsn == "" {
			dsn = in(t, server, database(t, server))
		}
		conformance.Run(t, conformance.Store{
			Process:    dsn,
			Disposable: true,
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
		})
	})
}
