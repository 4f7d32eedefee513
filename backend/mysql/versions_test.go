package mysql_test

import (
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
)

// site is a database without tables.
func site(t *testing.T, server string) backendtest.Site {
	name := database(t, server)
	db := connect(t, server, name, nil)
	several := connect(t, server, name, func(c *driver.Config) { c.MultiStatements = true })
	return backendtest.Site{
		RandomID: "RANDOM_BYTES(16)",
		Empty:    func(t *testing.T) { empty(t, db) },
		DB:       db,
		Open: func(t *testing.T) backendtest.Versioned {
			b := mysql.New(db, nil)
			t.Cleanup(func() { b.Close() })
			return b
		},
		Exec: func(t *testing.T, text string) {
			t.Helper()
			// What stands between two lines with DELIMITER is one statement, as for the command mysql.
			for part := range strings.SplitSeq(text, "DELIMITER ") {
				part, procedure := strings.CutPrefix(part, "//\n")
				if procedure {
					part = strings.TrimSuffix(strings.TrimSpace(part), "//")
				}
				if _, err := several.Exec(strings.TrimPrefix(part, ";\n")); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
}

func TestVersions(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		backendtest.Versions(t, func(t *testing.T) backendtest.Site { return site(t, server) })
	})
}

func TestDue(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		backendtest.Due(t, func(t *testing.T) backendtest.Site { return site(t, server) })
	})
}
