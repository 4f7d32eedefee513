package mysql_test

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/workertest"
)

// TestApplicationsStatements: what they leave open holds nothing up.
func TestApplicationsStatements(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server string) {
		workertest.Statements(t, "SELECT sleep(60)", nil, func(t *testing.T) backend.Backend {
			b, err := mysql.Open(t.Context(), in(t, server, database(t, server)), nil)
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
	})
}
