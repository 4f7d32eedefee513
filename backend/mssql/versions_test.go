package mssql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mssql"
)

// TestPrintedMigration: the printed schema works in sqlcmd, and a statement that uses a
// new column is compiled after that is there.
func TestPrintedMigration(t *testing.T) {
	b := mssql.New(backendtest.Connect(t, "sqlserver", "sqlserver://nowhere"), &mssql.Options{Schema: "app"})
	for from, want := range map[int][]string{
		0: {"SET QUOTED_IDENTIFIER ON;\n", "CREATE TABLE app.parley_message ("},
		2: {"SET QUOTED_IDENTIFIER ON;\n", "ALTER TABLE app.parley_meta ADD min_program "},
	} {
		text := b.MigrationSQL(from)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("from version %d there is no %q in\n%.300s", from, part, text)
			}
		}
		if !strings.HasPrefix(text, want[0]) {
			t.Errorf("from version %d the text begins with\n%.100s", from, text)
		}
	}
	known := 0
	err := b.SetMigrations(func(files []string) []string {
		known = len(files)
		return append(files[:len(files):len(files)], "-- step: contract\nDROP TABLE parley_once;\n")
	})
	if err != nil {
		t.Fatal(err)
	}
	announced := fmt.Sprintf("EXEC (N'UPDATE app.parley_meta SET min_program = %d, ", known)
	if text := b.MigrationSQL(2); !strings.Contains(text, announced) {
		t.Errorf("a contract step is printed as\n%s", text)
	}
}
