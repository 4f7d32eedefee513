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
	t.Parallel()
	s := checked(t)
	n := 8 // most checks wait
	if testing.Short() {
		n = 12 // no server is at work beside them
	}
	for range n - 1 {
		s.Beside = append(s.Beside, checked(t))
	}
	conformance.Run(t, s)
}

// checked is a separate file for the suite.
func checked(t *testing.T) conformance.Store {
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's file
	if dsn == "" {
		dsn = "sqlite:" + filepath.Join(t.TempDir(), "conformance.db")
	}
	return conformance.Store{
		Process:    dsn,
		Disposable: !testing.Short(), // a new schema for each letter takes a quarter of the processor time
		Lose:       conformance.LoseBySQL("INSERT OR ROLLBACK INTO parley_meta SELECT * FROM parley_meta"),
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
	}
}
