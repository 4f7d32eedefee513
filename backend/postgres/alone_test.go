package postgres_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func TestAlone(t *testing.T) {
	for name, verb := range map[string]func(*testing.T, string, func(*testing.T, string) backend.Backend, func(*testing.T, string) func()){
		"posts": backendtest.Alone, "sends": backendtest.AloneSends,
	} {
		t.Run(name, func(t *testing.T) {
			direct := connect(t, "postgres", server(t))
			own := schema(t, direct)
			verb(t, server(t), func(t *testing.T, through string) backend.Backend {
				return open(t, connect(t, "postgres", through), postgres.Options{Schema: own})
			}, func(t *testing.T, table string) func() {
				tx, err := direct.BeginTx(t.Context(), nil)
				if err == nil {
					_, err = tx.Exec("LOCK TABLE " + own + "." + table + " IN EXCLUSIVE MODE")
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { tx.Rollback() })
				return func() { tx.Rollback() }
			})
		})
	}
}
