package mssql

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// TestTablesAreNoHeaps: every table has a clustered index, every index is without page locks,
// and no table escalates its locks. READPAST skips locks of rows only, and waits for others.
func TestTablesAreNoHeaps(t *testing.T) {
	var all strings.Builder
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := schema.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(remark.ReplaceAllString(string(text), ""))
	}
	text := all.String()
	tables := regexp.MustCompile(`(?s)CREATE TABLE (parley_\w+) \((.*?)\n\);`).FindAllStringSubmatch(text, -1)
	if len(tables) < 29 {
		t.Fatalf("only %d tables were found", len(tables))
	}
	for _, m := range tables {
		name, body := m[1], m[2]
		apart := regexp.MustCompile(`CREATE CLUSTERED INDEX \w+ ON ` + name + ` `).MatchString(text)
		if within := regexp.MustCompile(`(KEY|UNIQUE) CLUSTERED`).MatchString(body); within == apart {
			t.Errorf("%s has a clustered index in the table: %v, beside it: %v", name, within, apart)
		}
		if !regexp.MustCompile(`ALTER TABLE ` + name + `\s+SET \(LOCK_ESCALATION = DISABLE\)`).MatchString(text) {
			t.Errorf("%s escalates locks", name)
		}
	}
	indexes := regexp.MustCompile(`(?:PRIMARY KEY|UNIQUE) (?:NON)?CLUSTERED \([^)]*\)[^\n]*|CREATE (?:CLUSTERED )?INDEX [^;]*;`)
	for _, index := range indexes.FindAllString(text, -1) {
		if !strings.Contains(index, "ALLOW_PAGE_LOCKS = OFF") {
			t.Errorf("page locks: %s", index)
		}
	}
}
