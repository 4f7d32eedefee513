package postgres_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// TestAbsentHeaders: without headers a message takes eight bytes more than in a table without that column, and a
// post takes no more. A row has one bit for each column, which says whether the column is NULL. The headers are the
// ninth column of messages, so their bit needs a second byte. The data after these bits begins at a multiple of
// eight.
func TestAbsentHeaders(t *testing.T) {
	db, err := sql.Open("postgres", server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // temporary tables
	prefix := backendtest.Name() + "_"
	b := postgres.New(db, &postgres.Options{Prefix: prefix})
	defer b.Close()
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.Uninstall(t.Context())
	run := func(text string) {
		t.Helper()
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	const rows = 100_000
	run(fmt.Sprintf(`INSERT INTO %smessage (stream_id, seq, message_id, kind, type, body, since)
		SELECT gen_random_uuid(), n, gen_random_uuid(), 2, 'Order', decode(repeat('ab', 100), 'hex'), 1795594959144639
		  FROM generate_series(1, %d) n`, prefix, rows))
	run(fmt.Sprintf(`INSERT INTO %spost (post_id, queue_id, priority, since, type, body)
		SELECT gen_random_uuid(), 1, 5, since, type, body FROM %[1]smessage`, prefix))
	size := func(table, columns string) (n int64) {
		t.Helper()
		run("CREATE TEMP TABLE copy AS SELECT " + columns + " FROM " + prefix + table)
		if err := db.QueryRow("SELECT pg_relation_size('copy')").Scan(&n); err != nil {
			t.Fatal(err)
		}
		run("DROP TABLE copy")
		return n
	}
	for table, each := range map[string]int64{"message": 8, "post": 0} {
		var columns string
		err := db.QueryRow(`SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) FROM information_schema.columns
			WHERE table_name = $1 AND column_name <> 'headers'`, prefix+table).Scan(&columns)
		if err != nil {
			t.Fatal(err)
		}
		without, with := size(table, columns), size(table, columns+", headers")
		t.Logf("%d rows of %s: %d bytes without the column, %d with it", rows, table, without, with)
		most := without * (without/rows + 2*each) / (without / rows) // pages have a remainder
		if each == 0 {
			most = without
		}
		if with > most {
			t.Errorf("%d rows of %s: %d bytes without the column, %d with it, want at most %d", rows, table, without, with, most)
		}
	}
}
