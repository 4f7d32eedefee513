package mssql_test

import (
	"database/sql"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mssql"
	"github.com/parleymq/parley/internal/doctortest"
	"github.com/parleymq/parley/internal/workertest"
)

func TestWorker(t *testing.T) {
	workertest.Run(t, workertest.Engine{
		Kill: "RAISERROR (N'killed by the test', 20, 1) WITH LOG", // KILL is not for one's own
		Open: func(t *testing.T) (*sql.DB, func() backend.Backend) {
			db := connect(t)
			own := prefix(t)
			for _, table := range []string{"effect", "account"} {
				t.Cleanup(func() { db.Exec("DROP TABLE IF EXISTS " + table) })
			}
			return db, func() backend.Backend { return open(t, db, mssql.Options{Prefix: own}) }
		},
	})
}

func TestDoctor(t *testing.T) {
	own := prefix(t)
	doctortest.Run(t, func(t *testing.T) backend.Backend { return open(t, connect(t), mssql.Options{Prefix: own}) })
}
