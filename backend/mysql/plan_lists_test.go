package mysql

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// listed are the lists of what waits, each after a key.
func listed(b *Store) []*sqlstore.Stmt {
	q := b.Q()
	return []*sqlstore.Stmt{q.ListLater, q.ListHeld, q.ListMessages, q.ListPostsByID}
}

// lists looks at a page of a list.
func lists(t *testing.T, b *Store, q *sqlstore.Stmt, from backend.ID) {
	t.Helper()
	const page, most = 10, 60 // each row of the page has two look-ups, and the server may read some rows more
	found, n := reads(t, b, q, from[:], page)
	if empty := q == b.Q().ListHeld; !empty && found != page || n > most {
		t.Errorf("%s reads %d rows for a page of %d after %s", q.Name, n, found, from)
	}
}

// status looks at the status of queues with a post or none, beside one with thousands.
func status(t *testing.T, b *Store, prefix string) {
	t.Helper()
	for _, row := range []string{
		"INSERT INTO plan_queue (queue_id, name, enabled, retention, keep_processed) VALUES (2, 'lone', 1, 0, 0), (3, 'empty', 1, 0, 0)",
		"INSERT INTO plan_post (post_id, queue_id, priority, since, type) VALUES (x'ff', 2, 5, 1, 'x')",
		`INSERT INTO plan_post (post_id, queue_id, priority, since, type)
		 SELECT UNHEX(LEFT(SHA2(CONCAT(a.post_id, b.post_id), 256), 32)), 1, 5, 1, 'x' FROM plan_post a JOIN plan_post b LIMIT 20000`,
		"ANALYZE TABLE plan_post",
	} {
		if _, err := b.pool.db.ExecContext(t.Context(), strings.ReplaceAll(row, "plan_", prefix)); err != nil {
			t.Fatal(err)
		}
	}
	const most = 120 // the ten priorities are counted, too
	if found, n := reads(t, b, b.Q().QueueStatus, 2, 3); found != 2 || n > most {
		t.Errorf("the status of two queues with one post reads %d rows, and finds %d", n, found)
	}
	ids := append(slices.Repeat([]any{make([]byte, 16)}, 50), 2)
	ids[7] = append([]byte{0xff}, make([]byte, 15)...)
	for _, q := range []*sqlstore.Stmt{b.Q().PostsFree, b.Q().DelayedFree} {
		if found, n := reads(t, b, q, ids...); n > 10 || (found == 1) != (q == b.Q().PostsFree) {
			t.Errorf("%s reads %d rows, and finds %d", q.Name, n, found)
		}
	}
}

// details looks at two groups among thousands of messages.
func details(t *testing.T, b *Store, prefix string) {
	t.Helper()
	for _, row := range []string{
		`INSERT INTO plan_stream (stream_id, kind, group_id, queue_id, endpoint, priority, next_seq, closed, held, touched)
		 SELECT x.id, 3, x.id, 1, '', 5, 1, 0, 0, 1
		   FROM (SELECT UNHEX(LEFT(SHA2(CONCAT(a.stream_id, b.stream_id), 256), 32)) AS id FROM plan_stream a JOIN plan_stream b LIMIT 5000) x`,
		"INSERT IGNORE INTO plan_grp (group_id, queue_id, service, name, owner, reason) SELECT group_id, 1, '', '', '', '' FROM plan_stream",
		"INSERT IGNORE INTO plan_message (stream_id, seq, message_id, kind, type, since) SELECT stream_id, 0, stream_id, 4, 'x', 1 FROM plan_stream",
	} {
		if _, err := b.pool.db.ExecContext(t.Context(), strings.ReplaceAll(row, "plan_", prefix)); err != nil {
			t.Fatal(err)
		}
	}
	ids := slices.Repeat([]any{make([]byte, 16)}, 50)
	ids[0], ids[1] = append(make([]byte, 15), 7), append(make([]byte, 15), 8)
	const most = 60
	if found, n := reads(t, b, b.Q().GroupDetails, slices.Concat(ids, ids)...); found != 2 || n > most {
		t.Errorf("the details of two groups read %d rows, and find %d", n, found)
	}
}

// reads counts the rows that a statement finds, and those that the server reads for it.
func reads(t *testing.T, b *Store, q *sqlstore.Stmt, values ...any) (found, n int) {
	t.Helper()
	ctx := t.Context()
	conn, s, err := b.pool.conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text, args, err := s.text(q, values)
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
	for rows.Next() {
		found++
	}
	if err := cmp.Or(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	return found, read() - before - between
}
