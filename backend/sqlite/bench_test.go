package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/sqlite"
)

func Benchmark(b *testing.B) {
	backendtest.Benchmarks(b, func(b *testing.B) (backend.Backend, error) {
		return sqlite.Open(context.Background(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"), nil)
	})
}
