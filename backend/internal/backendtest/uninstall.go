package backendtest

import (
	"context"
	"testing"

	"github.com/parleymq/parley/backend"
)

// Uninstalled removes the tables of a store when the test ends, and returns the store's name.
func Uninstalled[O any, B interface {
	backend.Backend
	Uninstall(context.Context) error
}](t testing.TB, dsn string, open func(context.Context, string, *O) (B, error)) string {
	t.Helper()
	t.Cleanup(func() {
		b, err := open(context.Background(), dsn, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := b.Uninstall(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return dsn
}
