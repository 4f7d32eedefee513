package backendtest

import (
	"context"
	"testing"

	"github.com/parleymq/parley/backend"
)

// MaxConns opens a database whose name limits the pool.
func MaxConns(t *testing.T, dsn string) {
	t.Helper()
	be, err := backend.Open(context.Background(), WithParam(t, dsn, "parley_max_conns", "3"))
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	if n := be.Capabilities().Pool.MaxConns(); n != 3 {
		t.Errorf("parley_max_conns=3 allows %d connections", n)
	}
	for _, bad := range []string{"0", "-1", "many"} {
		if be, err := backend.Open(context.Background(), WithParam(t, dsn, "parley_max_conns", bad)); err == nil {
			be.Close()
			t.Errorf("parley_max_conns=%s is taken", bad)
		}
	}
}
