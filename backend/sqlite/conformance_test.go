package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's file
	if dsn == "" {
		dsn = "sqlite:" + filepath.Join(t.TempDir(), "conformance.db")
	}
	conformance.Run(t, conformance.Store{
		Process:    dsn,
		Disposable: true,
		NoPool:     true,
		Open: func(ctx context.Context) (backend.Backend, error) {
			return sqlite.Open(ctx, dsn, nil)
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return sqlite.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "fresh.db"), nil)
		},
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			file := filepath.Join(t.TempDir(), "versions.db")
			return func(ctx context.Context) (backend.Backend, error) { return sqlite.Open(ctx, "sqlite:"+file, nil) }
		}),
	})
}
