package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
)

// TestAbsentHeaders: each of 100,000 messages without headers takes one byte more than in a store without the column.
// It is the byte with which SQLite describes a column's content.
func TestAbsentHeaders(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(dir, "test.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	run := func(text string, args ...any) {
		t.Helper()
		if _, err := db.Exec(text, args...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	const rows = 100_000
	run(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
		SELECT randomblob(16), i, randomblob(16), 2, 'Order', randomblob(100), 1795594959144639 FROM n`, rows)
	run(`INSERT INTO parley_post (post_id, queue_id, priority, since, type, body) SELECT message_id, 1, 5, since, type, body FROM parley_message`)
	size := func(table, columns string) int64 {
		t.Helper()
		run("CREATE TEMP TABLE copy AS SELECT " + columns + " FROM parley_" + table)
		var n int64
		if err := db.QueryRow("SELECT sum(payload) FROM dbstat('temp') WHERE name = 'copy'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		run("DROP TABLE temp.copy")
		return n
	}
	for _, table := range []string{"message", "post"} {
		var columns string
		err := db.QueryRow("SELECT group_concat(name) FROM pragma_table_info(?) WHERE name <> 'headers'", "parley_"+table).Scan(&columns)
		if err != nil {
			t.Fatal(err)
		}
		if more := size(table, columns+", headers") - size(table, columns); more < 0 || more > rows {
			t.Errorf("%d rows of %s are %d bytes longer for their headers, which they have not", rows, table, more)
		}
	}
}
