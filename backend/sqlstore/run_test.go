package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/parleymq/parley/backend"
)

// TestAnswerOfAWriteIsReadToItsEnd cancels a verb whose first statement has changed rows
// and returns them. The verb has to go on, or half of it would be left in a transaction
// that can still commit.
func TestAnswerOfAWriteIsReadToItsEnd(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE parley_x (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	d := &Dialect{Prefix: "parley_", Classify: func(err error) error { return err }}
	const rows = 5000
	statement := func(text string) *Stmt {
		q, err := d.Stmt("test", text)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	write := statement(`
		WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000)
		INSERT INTO parley_x SELECT n FROM c RETURNING n`)
	ctx, cancel := context.WithCancel(t.Context())
	r := run{s: &Store{d: d}, sess: Plain{Execer: db}, verb: new(verb)}
	n := 0
	err = r.Rows(ctx, func(*sql.Rows) error { n++; cancel(); return nil }, write)
	if err != nil || n != rows {
		t.Errorf("%d of %d rows, %v", n, rows, err)
	}
	if _, err := r.Exec(ctx, statement("DELETE FROM parley_x")); err != nil {
		t.Errorf("the rest of the verb: %v", err)
	}
}

// TestTornVerb cancels a verb whose driver does not notice: the statement has changed rows, and
// its answer is lost. The transaction is not used any more.
func TestTornVerb(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	d := &Dialect{Prefix: "parley_", Classify: func(err error) error { return err }}
	q, err := d.Stmt("test", "INSERT INTO parley_x SELECT 1 RETURNING 1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	rested := 0
	tx := &Tx{run: run{&Store{d: d}, deaf{Plain{Execer: db}, cancel, &rested}, new(verb)}}
	if err := tx.Rows(ctx, func(*sql.Rows) error { return nil }, q); !errors.Is(err, context.Canceled) {
		t.Errorf("the verb: %v", err)
	}
	if err := tx.ready(t.Context()); !errors.Is(err, backend.ErrTxDone) {
		t.Errorf("the next one: %v", err)
	}
	if rested != 1 {
		t.Errorf("the session was told %d times that the rows are closed", rested)
	}
}

// deaf is cancelled during a query, and answers it anyway.
type deaf struct {
	Plain
	cancel context.CancelFunc
	rested *int
}

func (d deaf) Rest() { *d.rested++ }

func (d deaf) Query(ctx context.Context, _ *Stmt, _ []any) (*sql.Rows, error) {
	d.cancel()
	<-ctx.Done()
	return d.QueryContext(context.WithoutCancel(ctx), "SELECT 1")
}

func TestWriting(t *testing.T) {
	for text, want := range map[string]bool{
		"INSERT INTO parley_x": true, "WITH a AS (UPDATE parley_x": true, "DELETE FROM": true, "MERGE INTO x": true,
		"UPDATE g\n SET": true, "SELECT 1 FOR UPDATE": false, "FOR UPDATE\n)": false, "FOR UPDATE SKIP LOCKED": false,
		"FOR NO KEY UPDATE OF g": false, "SELECT updated FROM x": false,
	} {
		if writes(text) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
