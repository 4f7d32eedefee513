package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/parleymq/parley"
)

// TestPlannedOnce: what receives from a long stream is planned for its first
// executions, not for each: planning takes longer than executing.
func TestPlannedOnce(t *testing.T) {
	ctx := context.Background()
	db, _ := database(t, "planned")
	db.SetMaxOpenConns(1) // whose statements are looked at
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var version int
	must(db.QueryRow(`SELECT current_setting('server_version_num')::int`).Scan(&version))
	if version < 140000 {
		t.Skip("before PostgreSQL 14 pg_prepared_statements does not count plans")
	}
	b, err := parley.New(ctx, New(db, &Options{Pooler: PoolerNever}), &parley.Options{NoMaintenance: true})
	must(err)
	defer b.Close()
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	_, err = b.Post(ctx, "q", parley.Payload{}, parley.Key("hot"))
	must(err)
	_, err = db.Exec(`
		WITH m AS MATERIALIZED (SELECT * FROM parley_message WHERE kind = 4 AND stream_id = (SELECT stream_id FROM parley_key WHERE queue_id > 0))
		INSERT INTO parley_message (stream_id, seq, message_id, kind, type, since)
		SELECT m.stream_id, n, gen_random_uuid(), m.kind, m.type, m.since
		  FROM m CROSS JOIN generate_series(1, 100000) n`)
	must(err)
	_, err = db.Exec(`ANALYZE`)
	must(err)
	for range 12 {
		d, err := b.Receive(ctx, "q", &parley.ReceiveOptions{MaxMessages: 1})
		must(err)
		must(d.Ack(ctx))
	}
	rows, err := db.Query(`SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements WHERE generic_plans + custom_plans > 10`)
	must(err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var q string
		var generic, custom int
		must(rows.Scan(&q, &generic, &custom))
		if n++; custom > 5 {
			t.Errorf("planned %d times in %d executions: %.300s", custom, generic+custom, strings.TrimSpace(q))
		}
	}
	must(rows.Err())
	if n < 3 {
		t.Errorf("%d prepared statements were executed each time, want the claim, the read and those that settle", n)
	}
}
