package postgres

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/sqlstore"
)

var (
	alters = regexp.MustCompile(`(?mi)^\s*(?:ALTER TABLE(?: IF EXISTS)?(?: ONLY)?|` +
		`CREATE (?:UNIQUE )?INDEX [^;(]* ON|DROP TABLE(?: IF EXISTS)?)\s+(parley_\w+)`)
	makes = regexp.MustCompile(`(?mi)^\s*CREATE TABLE(?: IF NOT EXISTS)?\s+(parley_\w+)`)
)

// altered returns the tables of before that a step of the schema locks.
func altered(step string) (tables []string) {
	var fresh []string
	for _, m := range makes.FindAllStringSubmatch(step, -1) {
		fresh = append(fresh, m[1])
	}
	for _, m := range alters.FindAllStringSubmatch(step, -1) {
		if !slices.Contains(fresh, m[1]) && !slices.Contains(tables, m[1]) {
			tables = append(tables, m[1])
		}
	}
	return tables
}

// TestStepLocksOneTable: a step that locks two tables that are in use waits for the
// second while others, who have that one, wait for the first. Under load such a step
// comes to no end, and stops everybody for as long as it tries.
func TestStepLocksOneTable(t *testing.T) {
	for i, step := range sqlstore.Files(schema) {
		if i == 0 || strings.Contains(step, "-- step: online") {
			continue // no client is there yet; it has no transaction
		}
		if tables := altered(step); len(tables) > 1 {
			t.Errorf("step %d locks %q, want one table", i+1, tables)
		}
	}
	const two = `
		ALTER TABLE parley_post ADD COLUMN a int;
		CREATE TABLE parley_new (a int);
		ALTER TABLE parley_new ADD b int;
		CREATE INDEX x ON parley_grp (name);`
	if got := altered(two); len(got) != 2 {
		t.Errorf("of two tables %q are seen", got)
	}
}
