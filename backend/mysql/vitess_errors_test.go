package mysql

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// TestClassifyByServer: what MySQL says of a statement vtgate says of the connection behind it.
func TestClassifyByServer(t *testing.T) {
	for number, want := range map[uint16][2]error{
		1317: {backend.ErrSerialization, backend.ErrConnection},
		3024: {backend.ErrSerialization, backend.ErrConnection},
		1105: {nil, backend.ErrConnection},
		2013: {nil, backend.ErrConnection},
		1213: {backend.ErrSerialization, backend.ErrSerialization},
		1205: {backend.ErrSerialization, backend.ErrSerialization},
		1203: {sqlstore.ErrFull, sqlstore.ErrFull},
		1235: {nil, nil}, // it does not understand the statement
	} {
		for i, vitess := range []bool{false, true} {
			p := new(pool)
			p.server.Store(&server{vitess: vitess})
			if got := p.classify(&driver.MySQLError{Number: number}); !errors.Is(got, want[i]) {
				t.Errorf("%d is %v, Vitess %v; want %v", number, got, vitess, want[i])
			}
		}
	}
	for version, want := range map[string]bool{"8.4.6-Vitess": true, "8.0.30-vitess": true, "9.7.4-2": false, "11.8.9-MariaDB-4": false} {
		if isVitess(version) != want {
			t.Errorf("%s is Vitess: %v", version, !want)
		}
	}
}

// TestProceduresAreLeftOut: of the schema's files Vitess gets all but the procedures.
func TestProceduresAreLeftOut(t *testing.T) {
	words := regexp.MustCompile(`(?m)^(DELIMITER|(CREATE|DROP) PROCEDURE)`)
	for i, file := range sqlstore.Files(schema) {
		left := procedures.ReplaceAllString(file, "")
		if words.MatchString(left) || (len(left) < len(file)) != words.MatchString(file) {
			t.Errorf("file %d:\n%s", i+1, left)
		}
		for _, kept := range []string{"CREATE TABLE", "CREATE OR REPLACE VIEW", "INSERT INTO", "UPDATE parley_meta"} {
			// Procedures have statements of these kinds, but at the beginning of no line.
			if strings.Count(left, "\n"+kept) != strings.Count(file, "\n"+kept) {
				t.Errorf("file %d lacks %s:\n%s", i+1, kept, left)
			}
		}
	}
}
