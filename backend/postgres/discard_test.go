package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/parleymq/parley/backend/sqlstore"
)

// TestDiscardedConnectionOfPgxpool: a connection that is discarded ends, and takes its
// session's locks with it, also where database/sql has it from a pgxpool.
func TestDiscardedConnectionOfPgxpool(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const key = 7_400_000_001
	if _, err := conn.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", int64(key)); err != nil {
		t.Fatal(err)
	}
	sqlstore.Discard(conn)
	other := connect(t, "postgres", server(t))
	if _, err := other.ExecContext(t.Context(), "SET lock_timeout = '10s'; SELECT pg_advisory_lock(7400000001)"); err != nil {
		t.Errorf("what a discarded connection had locked: %v", err)
	}
}
