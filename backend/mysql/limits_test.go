package mysql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/workertest"
)

// TestServerEndsTransactions: a handler that takes longer than the server leaves a
// transaction idle is not repeated for ever.
func TestServerEndsTransactions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server string) {
		settings := []string{"wait_timeout"}
		if strings.HasSuffix(t.Name(), "/mariadb") {
			settings = append(settings, "idle_transaction_timeout")
		}
		for _, setting := range settings {
			t.Run(setting, func(t *testing.T) {
				t.Parallel()
				workertest.CutShort(t, setting, 1700*time.Millisecond, func(t *testing.T) backend.Backend {
					dsn := backendtest.WithParam(t, in(t, server, database(t, server)), setting, "1")
					be, err := mysql.Open(t.Context(), dsn, nil)
					if err != nil {
						t.Fatal(err)
					}
					return be
				})
			})
		}
	})
}
