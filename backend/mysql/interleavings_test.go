package mysql_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestInterleavings(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		next := emptied(t, server, database(t, server), nil)
		backendtest.Interleavings(t, func(t *testing.T) (backend.Backend, func(string) int) {
			b, db := next(t)
			return b, func(query string) int { return backendtest.Number(t, db, query) }
		})
	})
}
