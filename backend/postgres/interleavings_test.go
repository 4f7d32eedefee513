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
		return open(t, db, postgres.Options{Schema: name}), func(query string) int {
			return backendtest.Number(t, db, backendtest.Qualify(query, name+"."))
		}
	})
}
