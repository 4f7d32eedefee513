package postgres_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/workertest"
)

// TestApplicationsStatements: what they leave open holds nothing up.
func TestApplicationsStatements(t *testing.T) {
	t.Parallel()
	workertest.Statements(t, "SELECT pg_sleep(60)", nil, func(t *testing.T) backend.Backend {
		b, err := postgres.Open(t.Context(), server(t), &postgres.Options{Schema: schema(t, connect(t, "postgres", server(t)))})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}
