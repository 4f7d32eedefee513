package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's schema
	in := func(name string) string { return backendtest.WithParam(t, server(t), "parley_schema", name) }
	var fresh string
	if dsn == "" {
		db := connect(t, "postgres", server(t))
		dsn, fresh = in(schema(t, db)), in(schema(t, db))
	}
	conformance.Run(t, conformance.Store{
		Process:    dsn,
		Disposable: true,
		Open: func(ctx context.Context) (backend.Backend, error) {
			return postgres.Open(ctx, dsn, nil)
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return postgres.Open(ctx, fresh, nil)
		},
	})
}
