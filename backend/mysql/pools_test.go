package mysql_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/workertest"
)

// TestWorkersOnSmallPools: workers make progress on every pool of connections.
func TestWorkersOnSmallPools(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server string) {
		stores := make(map[string]func(t *testing.T) backend.Backend)
		for name, conns := range map[string]int{"default": 16, "1": 1, "2": 2, "3": 3} {
			stores[name] = func(t *testing.T) backend.Backend {
				db := connect(t, server, database(t, server), nil)
				db.SetMaxOpenConns(conns)
				return mysql.New(db, nil)
			}
		}
		workertest.SmallPools(t, stores)
	})
}

// TestReadsTakeOneConnection: operators' reads, and choosers, do not wait for each
// other's connections.
func TestReadsTakeOneConnection(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		db.SetMaxOpenConns(4)
		workertest.ReadsAtOnce(t, mysql.New(db, nil))
	})
}

// TestMaxConns: the name of a database limits the pool.
func TestMaxConns(t *testing.T) {
	each(t, func(t *testing.T, server string) { backendtest.MaxConns(t, in(t, server, database(t, server))) })
}
