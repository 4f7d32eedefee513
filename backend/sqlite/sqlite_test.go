package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/sqlite"
)

func open(t *testing.T) *sqlite.Store {
	t.Helper()
	b, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackend(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t) })
}
