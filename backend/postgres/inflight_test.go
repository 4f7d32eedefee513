package postgres_test

import (
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// TestInFlight has more in flight than a claim looks at in its first statements, and in
// one page.
func TestInFlight(t *testing.T) {
	db := connect(t, "postgres", server(t))
	backendtest.InFlight(t, open(t, db, postgres.Options{}), 12000)
}
