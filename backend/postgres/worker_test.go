package postgres_test

import (
	"database/sql"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/workertest"
)

func TestWorker(t *testing.T) { testWorker(t, "postgres") }

func TestWorkerPGX(t *testing.T) { testWorker(t, "pgx") }

func testWorker(t *testing.T, driver string) {
	t.Parallel()
	workertest.Run(t, workertest.Engine{
		Kept:     map[string]int{"pgx": 1}[driver], // to listen on
		Kill:     "SELECT pg_terminate_backend(pg_backend_pid())",
		Deferred: "DEFERRABLE INITIALLY DEFERRED",
		Open: func(t *testing.T) (*sql.DB, func() backend.Backend) {
			admin := connect(t, "postgres", server(t))
			name := schema(t, admin)
			if _, err := admin.Exec("CREATE SCHEMA " + name); err != nil {
				t.Fatal(err)
			}
			db := connect(t, driver, with(t, server(t), "search_path", name))
			return db, func() backend.Backend { return open(t, db, postgres.Options{Schema: name}) }
		},
	})
}
