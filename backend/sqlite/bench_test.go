package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/sqlite"
)

func BenchmarkRecycling(b *testing.B) {
	backendtest.BenchmarkRecycling(b, func() (backend.Backend, error) {
		return sqlite.Open(context.Background(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"), nil)
	})
}
