package phases_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/sqlite"
)

// open returns a Broker on a new database with a queue.
func open() (b *parley.Broker, cleanup func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	b, err = parley.Open(ctx, "sqlite:"+filepath.Join(dir, "plans.db"), nil)
	must(err)
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))
	return b, func() {
		b.Close()
		os.RemoveAll(dir)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// databaseOf returns the file of a broker.
func databaseOf(t *testing.T, b *parley.Broker) string {
	t.Helper()
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Settings["file"]
}
