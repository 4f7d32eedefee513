package postgres_test

import (
	"testing"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func TestStatements(t *testing.T) {
	connector, err := pq.NewConnector(server(t))
	if err != nil {
		t.Fatal(err)
	}
	db, count := backendtest.Count(connector)
	db.SetMaxOpenConns(2)
	t.Cleanup(func() { db.Close() })
	f := backendtest.New(t, open(t, db, postgres.Options{}))
	backendtest.Statements(f, count, []string{"BEGIN", "COMMIT"}, map[string]int{
		"send one":                     1,
		"send a hundred":               2,
		"post one":                     1,
		"post a hundred":               2,
		"post one with a key":          1,
		"post a hundred with ten keys": 3,
		"post one with a new key":      2,
		"post a hundred with new keys": 6,
		"claim and settle a group, in one transaction":   4,
		"claim and settle ten keys, in one transaction":  4,
		"claim and settle ten posts, in one transaction": 2,
		"claim a key by lease":                           2,
		"claim ten posts by lease":                       2,
		"settle ten posts held by lease":                 2,
		"end a hundred tasks":                            1,
		"claim nothing":                                  1,
		"claim nothing where posts have been":            1,
	})
}
