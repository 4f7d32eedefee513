package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/sure"
)

// TestHandlersOfHotRows: handlers that meet at the same rows deadlock in long batches.
// The worker learns from that: it takes single messages, and few calls are repeated.
func TestHandlersOfHotRows(t *testing.T) {
	const rows, messages = 50, 3000
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	be := open(t, db, postgres.Options{Schema: name})
	run := func(text string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(ctx, text, args...); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE TABLE " + name + ".hot (id int PRIMARY KEY, n int NOT NULL)")
	run(fmt.Sprintf("INSERT INTO %s.hot SELECT x, 0 FROM generate_series(1, %d) x", name, rows))
	b, err := parley.New(ctx, be, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: "job"}}, Queues: []parley.Queue{{Name: "jobs"}}})
	if err != nil {
		t.Fatal(err)
	}
	posts := make([]parley.Posting, messages)
	for i := range posts {
		posts[i].Payload = parley.Payload{Type: "job"}
	}
	if err := b.InTx(ctx, func(tx *parley.Tx) error { _, err := tx.PostBatch(ctx, "jobs", posts); return err }); err != nil {
		t.Fatal(err)
	}
	var failed atomic.Int64
	handler := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		tx, err := m.Tx(ctx)
		if err == nil {
			_, err = tx.SQL().ExecContext(ctx, fmt.Sprintf("UPDATE %s.hot SET n = n + 1 WHERE id = $1", name), 1+rand.IntN(rows))
		}
		if err != nil {
			failed.Add(1)
		}
		return err
	})
	for n := 0; n < messages && ctx.Err() == nil; { // what failed waits for a moment
		if err := sure.Of(b.NewWorker("jobs", handler, nil)).Drain(ctx); err != nil {
			t.Fatal(err)
		}
		var sum sql.NullInt64
		if err := db.QueryRowContext(ctx, "SELECT sum(n) FROM "+name+".hot").Scan(&sum); err != nil {
			t.Fatal(err)
		}
		n = int(sum.Int64)
	}
	if ctx.Err() != nil || failed.Load() > 10 {
		t.Errorf("%d calls have failed: %v", failed.Load(), ctx.Err())
	}
	t.Logf("%d calls have failed", failed.Load())
}
