package postgres_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/workertest"
)

// TestWorkersOnSmallPools: workers make progress on every pool of connections, even if it
// is smaller than database/sql knows.
func TestWorkersOnSmallPools(t *testing.T) {
	t.Parallel()
	stores := map[string]func(t *testing.T) backend.Backend{
		"pgxpool of 4": func(t *testing.T) backend.Backend {
			name := schema(t, connect(t, "postgres", server(t)))
			return postgres.New(pgxPool(t, "4"), &postgres.Options{Schema: name})
		},
	}
	for name, conns := range map[string]int{"default": 0, "1": 1, "2": 2, "3": 3} {
		stores[name] = func(t *testing.T) backend.Backend {
			own := schema(t, connect(t, "postgres", server(t)))
			be, err := postgres.Open(t.Context(), server(t), &postgres.Options{Schema: own, MaxConns: conns})
			if err != nil {
				t.Fatal(err)
			}
			return be
		}
	}
	workertest.SmallPools(t, stores)
}

// TestReadsTakeOneConnection: operators' reads, and choosers, do not wait for each
// other's connections.
func TestReadsTakeOneConnection(t *testing.T) {
	db := connect(t, "postgres", server(t))
	db.SetMaxOpenConns(4)
	workertest.ReadsAtOnce(t, postgres.New(db, &postgres.Options{Schema: schema(t, db)}))
}

// TestMaxConns: the name of a database limits the pool.
func TestMaxConns(t *testing.T) { backendtest.MaxConns(t, server(t)) }
