package mysql

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// listed are the lists of what waits, each after a key.
func listed(b *Store) []*sqlstore.Stmt {
	q := b.Q()
	return []*sqlstore.Stmt{q.ListLater, q.ListHeld, q.ListMessages, q.ListPostsByID}
}

// lists counts the rows that the server reads for a page.
func lists(t *testing.T, b *Store, q *sqlstore.Stmt, from backend.ID) {
	t.Helper()
	const page, most = 10, 60 // each row of the page has two look-ups, and the server may read some rows more
	ctx := t.Context()
	conn, s, err := b.pool.conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text, args, err := s.text(q, []any{from[:], page})
	if err != nil {
		t.Fatal(err)
	}
	read := func() (n int) {
		rows, err := conn.QueryContext(ctx, "SHOW SESSION STATUS LIKE 'Handler_read%'")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			var value int
			if err := rows.Scan(&name, &value); err != nil {
				t.Fatal(err)
			}
			n += value
		}
		return n
	}
	before := read()
	between := read() - before // what the question itself reads
	before = read()
	rows, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for rows.Next() {
		found++
	}
	rows.Close()
	n := read() - before - between
	if empty := q == b.Q().ListHeld; !empty && found != page || n > most {
		t.Errorf("%s reads %d rows for a page of %d after %s", q.Name, n, found, from)
	}
}
