package postgres_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func TestAlone(t *testing.T) {
	direct := connect(t, "postgres", server(t))
	name := schema(t, direct)
	backendtest.Alone(t, server(t), func(t *testing.T, through string) backend.Backend {
		return open(t, connect(t, "postgres", through), postgres.Options{Schema: name})
	}, func(t *testing.T) func() {
		tx, err := direct.BeginTx(t.Context(), nil)
		if err == nil {
			_, err = tx.Exec("LOCK TABLE " + name + ".parley_post IN EXCLUSIVE MODE")
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback() })
		return func() { tx.Rollback() }
	})
}
