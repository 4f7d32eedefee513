package postgres_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func TestInterleavings(t *testing.T) {
	backendtest.Interleavings(t, func(t *testing.T) (backend.Backend, func(string) int) {
		db := connect(t, "postgres", server(t))
		name := schema(t, db)
		return open(t, db, postgres.Options{Schema: name}), func(query string) (n int) {
			t.Helper()
			if err := db.QueryRow(backendtest.Qualify(query, name+".")).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	})
}
