package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/workertest"
)

// TestWorkersOnSmallPools: workers make progress on every pool of connections, also on
// one that is smaller than database/sql knows.
func TestWorkersOnSmallPools(t *testing.T) {
	stores := map[string]func(t *testing.T) backend.Backend{
		"pgxpool of 4": func(t *testing.T) backend.Backend {
			name := schema(t, connect(t, "postgres", server(t)))
			config, err := pgxpool.ParseConfig(with(t, server(t), "pool_max_conns", "4"))
			if err != nil {
				t.Fatal(err)
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			db := stdlib.OpenDBFromPool(pool)
			t.Cleanup(func() { db.Close() })
			return postgres.New(db, &postgres.Options{Schema: name})
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
