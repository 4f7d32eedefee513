package mssql_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mssql"
)

// TestInterleavings needs hints that are obeyed.
func TestInterleavings(t *testing.T) {
	db := connect(t)
	backendtest.Interleavings(t, func(t *testing.T) (backend.Backend, func(string) int) {
		p := prefix(t)
		return open(t, db, mssql.Options{Prefix: p}), func(query string) (n int) {
			// One snapshot, which waits for no transaction.
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSnapshot})
			if err == nil {
				defer tx.Rollback()
				err = tx.QueryRow(strings.ReplaceAll(query, "parley_", p)).Scan(&n)
			}
			if err != nil {
				t.Error(err)
			}
			return n
		}
	})
}
