package parley_test

import (
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// mapped is a file or folder, and perhaps a function in it.
var mapped = regexp.MustCompile("`([a-z0-9_/]+(?:\\.[a-z]+)?)`(?: \\(`([A-Za-z]+)`\\))?")

// TestMap: what the table in docs/architecture.md points to is there.
func TestMap(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## Where is …")
	table, _, ok := strings.Cut(rest, "\n## ")
	places := mapped.FindAllStringSubmatch(table, -1)
	if !ok || len(places) < 60 {
		t.Fatalf("the map has %d places", len(places))
	}
	for _, p := range places {
		if _, err := os.Stat(p[1]); err != nil {
			t.Errorf("the map points to %s: %v", p[1], err)
		}
		if p[2] == "" {
			continue
		}
		text, err := os.ReadFile(p[1])
		if err != nil || !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+p[2]+`[\[(]`).Match(text) {
			t.Errorf("the map points to the function %s of %s: %v", p[2], p[1], err)
		}
	}
}

// TestEnginesAreNamed: the comments of packages that work on several engines name all of them.
func TestEnginesAreNamed(t *testing.T) {
	for _, file := range []string{
		"broker.go", "applock/applock.go", "phases/phases.go", "recurring/recurring.go",
		"backend/doc.go", "backend/sqlstore/doc.go",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, engine := range []string{"PostgreSQL", "MySQL", "MariaDB", "SQLite", "SQL Server"} {
			if !strings.Contains(strings.ReplaceAll(parsed.Doc.Text(), "\n", " "), engine) {
				t.Errorf("the package comment in %s does not name %s", file, engine)
			}
		}
	}
}

// TestEngineFiles: the SQL engines have the same files for the same subjects.
func TestEngineFiles(t *testing.T) {
	for _, engine := range []string{"postgres", "mysql", "mssql", "sqlite"} {
		for _, name := range []string{engine + ".go", "conn.go", "transaction.go", "dialect.go", "errors.go", "migrate.go", "wait.go", "schema", "sql"} {
			if _, err := os.Stat("backend/" + engine + "/" + name); err != nil {
				t.Error(err)
			}
		}
	}
}
