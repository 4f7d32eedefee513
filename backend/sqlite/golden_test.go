package sqlite

import (
	"database/sql"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestGolden compares the statements with testdata/sql, see [backendtest.Golden].
func TestGolden(t *testing.T) {
	db, err := sql.Open("sqlite", "x")
	if err != nil {
		t.Fatal(err)
	}
	of := func(s *Store) []any { return []any{s.Q(), &s.pool.many} }
	other := Options{Prefix: "other_"}
	backendtest.Golden(t, of(New(db, nil)), of(New(db, &other)))
}
