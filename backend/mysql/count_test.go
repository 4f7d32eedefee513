package mysql_test

import (
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestStatements holds the number of statements, which are one round trip each. The
// settings of the handle make no difference but for SET TRANSACTION.
func TestStatements(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		config, err := driver.ParseDSN(name(t, server, database(t, server), nil))
		if err != nil {
			t.Fatal(err)
		}
		connector, err := driver.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		db, count := backendtest.Count(connector)
		db.SetMaxOpenConns(2)
		t.Cleanup(func() { db.Close() })
		f := backendtest.New(t, open(t, db, nil))
		frame := []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", "COMMIT"}
		backendtest.Statements(f, count, frame, map[string]int{
			"send one":                     3,
			"send a hundred":               4,
			"post one":                     1,
			"post a hundred":               2,
			"post one with a key":          6,
			"post a hundred with ten keys": 6,
			"post one with a new key":      8,
			"post a hundred with new keys": 10,
			"claim and settle a group, in one transaction":   7,
			"claim and settle ten keys, in one transaction":  6,
			"claim and settle ten posts, in one transaction": 2,
			"claim a key by lease":                           3,
			"claim ten posts by lease":                       3,
			"settle ten posts held by lease":                 3,
			"end a hundred tasks":                            2,
			"claim nothing":                                  1,
			"claim nothing where posts have been":            2,
		})
	})
}

// TestTemporaryTables: what is received in any order of streams is not sorted by the
// server, which makes a table on the disk for rows with bodies.
func TestTemporaryTables(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		db.SetMaxOpenConns(1) // whose count it is
		f := backendtest.New(t, open(t, db, nil))
		made := func() (n int) {
			t.Helper()
			var variable string
			if err := db.QueryRow(`SHOW SESSION STATUS LIKE 'Created_tmp_disk_tables'`).Scan(&variable, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		var before int
		for range 3 { // the first looks into the catalog
			d := f.Open()
			f.Send(d.A.Handle, "one", "two")
			for _, key := range []string{"a", "b"} {
				for range 3 {
					f.Post(backend.Posting{Key: key})
				}
			}
			before = made()
			f.Ack(f.One(f.Request(f.QB)))
			r := f.Request(f.QP)
			r.MaxGroups = 10
			c := f.Claim(r)
			if len(c.Holds) != 2 {
				t.Fatalf("claimed %d groups, want 2", len(c.Holds))
			}
			for _, h := range c.Holds {
				f.Ack(h)
			}
		}
		if n := made() - before; n > 0 {
			t.Errorf("three claims have made %d temporary tables on the disk", n)
		}
	})
}
