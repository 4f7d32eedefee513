package mssql

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var createTable = regexp.MustCompile(`(?s)CREATE TABLE (parley_\w+) \((.*?)\n\);`)

// schemaTo returns the text of the schema up to a version, without remarks.
func schemaTo(t *testing.T, version int) string {
	var all strings.Builder
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files[:min(version, len(files))] {
		text, err := schema.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(remark.ReplaceAllString(string(text), ""))
	}
	return all.String()
}

// TestDumpsFit: the rows that programs of each schema have left on PostgreSQL fit into the tables that the same
// version has here. Their columns are there, and every column that must have a value gets one. TestUpgrade of the
// other engines loads the rows themselves, which takes a server.
func TestDumpsFit(t *testing.T) {
	dumps, err := filepath.Glob("../postgres/testdata/schema/*.sql")
	if err != nil || len(dumps) == 0 {
		t.Fatalf("there are no dumps: %v", err)
	}
	optional := regexp.MustCompile("DEFAULT|IDENTITY|rowversion")
	column := regexp.MustCompile(`(?m)^  (\w+) +(\w.*)$`)
	for _, name := range dumps {
		version := 0
		fmt.Sscanf(filepath.Base(name), "%d.sql", &version)
		text := schemaTo(t, version)
		columns := make(map[string]map[string]string) // their definitions
		for _, m := range createTable.FindAllStringSubmatch(text, -1) {
			columns[m[1]] = make(map[string]string)
			for _, c := range column.FindAllStringSubmatch(m[2], -1) {
				columns[m[1]][c[1]] = c[2]
			}
		}
		for _, m := range regexp.MustCompile(`ALTER TABLE (parley_\w+)\s+ADD (\w+) ([^;]*)`).FindAllStringSubmatch(text, -1) {
			columns[m[1]][m[2]] = m[3]
		}
		dump, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rows := regexp.MustCompile(`(?m)^INSERT INTO (parley_\w+) \(([^)]*)\)`).FindAllStringSubmatch(string(dump), -1)
		if len(rows) < 50 {
			t.Fatalf("%s has only %d rows", name, len(rows))
		}
		for _, m := range rows {
			given := strings.Split(m[2], ", ")
			for _, c := range given {
				if columns[m[1]][c] == "" {
					t.Errorf("%s: %s has no column %s", name, m[1], c)
				}
			}
			for c, definition := range columns[m[1]] {
				must := strings.Contains(definition, "NOT NULL") && !optional.MatchString(definition)
				if must && !slices.Contains(given, c) && c != "bytes" { // the length of a name, here alone
					t.Errorf("%s: a row of %s has no %s", name, m[1], c)
				}
			}
		}
	}
}

// TestTablesAreNoHeaps: every table has a clustered index, every index is without page locks,
// and no table escalates its locks. READPAST skips locks of rows only, and waits for others.
func TestTablesAreNoHeaps(t *testing.T) {
	text := schemaTo(t, math.MaxInt)
	tables := createTable.FindAllStringSubmatch(text, -1)
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
