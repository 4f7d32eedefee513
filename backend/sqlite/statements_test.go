package sqlite_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/workertest"
)

// TestApplicationsStatements: what they leave open holds nothing up.
func TestApplicationsStatements(t *testing.T) {
	t.Parallel()
	const sleep = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT count(*) FROM n"
	var file string
	write := func(t *testing.T) {
		if _, err := user(t, file).Exec("CREATE TABLE IF NOT EXISTS own (x); INSERT INTO own VALUES (1)"); err != nil {
			t.Error(err)
		}
	}
	workertest.Statements(t, sleep, write, func(t *testing.T) backend.Backend {
		file = path(t)
		return open(t, file)
	})
}
