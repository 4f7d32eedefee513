package postgres_test

import (
	"context"
	"net/url"
	"os"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's schema
	in := func(name string) string {
		u, err := url.Parse(server(t))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("parley_schema", name)
		u.RawQuery = q.Encode()
		return u.String()
	}
	var fresh string
	if dsn == "" {
		db := connect(t, "postgres", server(t))
		dsn, fresh = in(schema(t, db)), in(schema(t, db))
	}
	conformance.Run(t, conformance.Store{
		Process: dsn,
		Open: func(ctx context.Context) (backend.Backend, error) {
			return postgres.Open(ctx, dsn, nil)
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return postgres.Open(ctx, fresh, nil)
		},
	})
}
