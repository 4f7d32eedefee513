package mysql_test

import (
	"database/sql"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/workertest"
)

func TestWorker(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		workertest.Run(t, workertest.Engine{
			Kill: "KILL CONNECTION_ID()",
			Open: func(t *testing.T) (*sql.DB, func() backend.Backend) {
				db := connect(t, server, database(t, server), nil)
				return db, func() backend.Backend { return open(t, db, nil) }
			},
		})
	})
}
