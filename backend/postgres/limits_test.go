package postgres_test

import (
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/workertest"
)

// TestServerEndsTransactions: a handler that takes longer than the server leaves a
// transaction idle or open is not repeated for ever.
func TestServerEndsTransactions(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"idle_in_transaction_session_timeout", "transaction_timeout"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			db := connect(t, "postgres", server(t))
			var version int
			if err := db.QueryRow("SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
				t.Fatal(err)
			}
			if setting == "transaction_timeout" && version < 170000 {
				t.Skip("it came with PostgreSQL 17")
			}
			dsn := with(t, server(t), "options", "-c "+setting+"=300")
			workertest.CutShort(t, setting, 600*time.Millisecond, func(t *testing.T) backend.Backend {
				be, err := postgres.Open(t.Context(), dsn, &postgres.Options{Schema: schema(t, db)})
				if err != nil {
					t.Fatal(err)
				}
				return be
			})
		})
	}
}
