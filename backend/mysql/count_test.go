package mysql_test

import (
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/backend/sqlstore"
)

// counted opens a pool on a fresh database whose statements are counted.
func counted(t *testing.T, server string, set func(*driver.Config)) (*sql.DB, *backendtest.Counter) {
	t.Helper()
	db, count := backendtest.Count(connector(t, server, set))
	t.Cleanup(func() { db.Close() })
	return db, count
}

// TestStatements holds the number of statements, which are one round trip each. The
// settings of the handle make no difference but for SET TRANSACTION.
func TestStatements(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db, count := counted(t, server, nil)
		db.SetMaxOpenConns(2)
		f := backendtest.New(t, open(t, db, nil))
		frame := []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", "COMMIT"}
		backendtest.Statements(f, count, frame, map[string]int{
			"send one":                     3,
			"send a hundred":               4,
			"post one":                     1,
			"post a hundred":               2,
			"post one with a key":          3,
			"post a hundred with ten keys": 6,
			"post one with a new key":      7,
			"post a hundred with new keys": 8,
			"claim and settle a group, in one transaction":   6,
			"claim and settle ten keys, in one transaction":  5,
			"claim and settle ten posts, in one transaction": 2,
			"claim a key by lease":                           3,
			"claim ten posts by lease":                       3,
			"settle ten posts held by lease":                 3,
			"settle a key and a post that failed":            11,
			"end a hundred tasks":                            2,
			"claim nothing":                                  1,
			"a hundred delayed posts become due":             14,
			"claim nothing where posts have been":            2,
			"cancel a hundred posts":                         4,
			"cancel a hundred delayed posts":                 104,
			"list a hundred keys and posts":                  6,
		})
	})
}

// TestDialogStatements holds the number of statements of new dialogs.
func TestDialogStatements(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		frame := []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION", "COMMIT"}
		for several, keyed := range map[bool]int{false: 6, true: 2} {
			db, count := counted(t, server, func(c *driver.Config) { c.MultiStatements = several })
			backendtest.Dialogs(t, open(t, db, nil), count, frame, map[string]int{
				"begin and send":                                     5,
				"receive, reply and end":                             13,
				"receive the reply and end":                          6,
				"receive, reply and end, in one transaction":         13,
				"receive the reply and end, in one transaction":      6,
				"a post by itself, with BEGIN and COMMIT":            1,
				"a post by itself with a key, with BEGIN and COMMIT": keyed,
				"a send by itself, with BEGIN and COMMIT":            keyed,
				"a begin by itself, with BEGIN and COMMIT":           map[bool]int{false: 8, true: 2}[several],
				"what a reader has in hand, with BEGIN and COMMIT":   2,
				"begin and send on twenty dialogs":                   7,
				"a worker's batch of requests":                       16,
				"a worker's batch of replies and ends":               8,
			})
		}
	})
}

// TestResave: a savepoint is set again by one statement, and what was done before it
// stays when it is rolled back to.
func TestResave(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db, count := counted(t, server, nil)
		f := backendtest.New(t, open(t, db, nil))
		post := func(tx backend.Tx, body string) {
			t.Helper()
			_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: "k", Body: []byte(body)})})
			f.OK(err)
		}
		f.Do(func(tx backend.Tx) error {
			f.OK(tx.Savepoint(f.Ctx, "work"))
			post(tx, "first")
			count.Take()
			f.OK(tx.Resave(f.Ctx, "work"))
			post(tx, "second") // sets it
			points := 0
			for _, text := range count.Take() {
				if strings.Contains(text, "SAVEPOINT") {
					points++
				}
			}
			if points != 1 {
				t.Errorf("to set a savepoint anew took %d statements", points)
			}
			f.OK(tx.RollbackTo(f.Ctx, "work"))
			post(tx, "third")
			return nil
		})
		if got := f.Drain(f.QP); !slices.Equal(got, []string{"first", "third"}) {
			t.Errorf("received %q, want the first and the third", got)
		}
	})
}

// TestTemporaryTables: the server does not sort messages that are received in any order of streams.
// For rows with bodies it would make a table on the disk.
func TestTemporaryTables(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		db.SetMaxOpenConns(1) // whose count it is
		f := backendtest.New(t, open(t, db, nil))
		made := func() (n int) {
			t.Helper()
			var variable string
			if err := db.QueryRow(`SHOW SESSION STATUS LIKE 'Created_tmp_disk_tables'`).Scan(&variable, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		var before int
		for range 3 { // the first looks into the catalog
			d := f.Open()
			f.Send(d.A.Handle, "one", "two")
			for _, key := range []string{"a", "b"} {
				for range 3 {
					f.Post(backend.Posting{Key: key})
				}
			}
			before = made()
			f.Ack(f.One(f.Request(f.QB)))
			r := f.Request(f.QP)
			r.MaxGroups = 10
			c := f.Claim(r)
			if len(c.Holds) != 2 {
				t.Fatalf("claimed %d groups, want 2", len(c.Holds))
			}
			for _, h := range c.Holds {
				f.Ack(h)
			}
		}
		if n := made() - before; n > 0 {
			t.Errorf("three claims have made %d temporary tables on the disk", n)
		}
	})
}

// rowsRead is how many rows the session has read by an index. To show it takes rows of
// another kind.
func rowsRead(t *testing.T, db *sql.DB) (sum int) {
	t.Helper()
	for _, name := range []string{"Handler_read_key", "Handler_read_next", "Handler_read_prev"} {
		var n int
		if err := db.QueryRow(`SHOW SESSION STATUS LIKE '`+name+`'`).Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// TestLongStreams receives one message of many in a stream: how many rows are read
// does not depend on how many there are.
func TestLongStreams(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		db.SetMaxOpenConns(1) // whose count it is
		f := backendtest.New(t, open(t, db, nil))
		var posts []backend.Posting
		for range 400 {
			posts = append(posts, f.Posting(backend.Posting{Key: "k"}))
		}
		f.Do(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, posts); return err })
		d := f.Open()
		for range 40 {
			f.Send(d.A.Handle, "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
		}
		for _, queue := range []int64{f.QP, f.QB} {
			var least int
			for round := range 3 { // the first looks into the catalog
				before := rowsRead(t, db)
				r := f.Request(queue)
				r.MaxMessages = 1
				f.Ack(f.One(r))
				if n := rowsRead(t, db) - before; round == 0 || n < least {
					least = n
				}
			}
			if least > 100 {
				t.Errorf("to receive one of 400 messages of a stream in queue %d took %d rows", queue, least)
			}
		}
	})
}

// TestHeldGroups claims a group behind others that are held by lease. For each of these the claim
// reads two rows, the entry in the order and the group. It locks only the group that it claims.
func TestHeldGroups(t *testing.T) {
	const held, free = 100, 10
	each(t, func(t *testing.T, server string) {
		base := database(t, server)
		db := connect(t, server, base, nil)
		db.SetMaxOpenConns(1) // whose count it is
		f := backendtest.New(t, open(t, db, nil))
		var posts []backend.Posting
		for i := range held + free {
			posts = append(posts, f.Posting(backend.Posting{Key: strconv.Itoa(i)}))
		}
		f.Do(func(tx backend.Tx) error { _, err := tx.Post(f.Ctx, f.Version, posts); return err })
		r := f.Request(f.QP)
		r.MaxGroups = held
		if n := len(f.Claim(r).Holds); n != held {
			t.Fatalf("claimed %d groups, want %d", n, held)
		}
		r = f.Request(f.QP)
		r.Lease = 0
		other := connect(t, server, base, nil)
		var least int
		for round := range 3 { // the first finds out what there is in the queue
			before := rowsRead(t, db)
			f.Do(func(tx backend.Tx) error {
				c, err := tx.Claim(f.Ctx, r)
				if err != nil || len(c.Holds) != 1 {
					t.Fatalf("claimed %d groups, want 1 (%v)", len(c.Holds), err)
				}
				if got := unlocked(t, other); got != held+free-1 {
					t.Errorf("a claim of one of %d groups has locked %d", held+free, held+free-got)
				}
				_, err = tx.Settle(f.Ctx, []backend.Outcome{{Hold: c.Holds[0], Done: c.Holds[0].Messages}})
				return err
			})
			if n := rowsRead(t, db) - before; round == 0 || n < least {
				least = n
			}
		}
		if least > 2*held+100 {
			t.Errorf("a claim behind %d groups that are held took %d rows", held, least)
		}
	})
}

// unlocked returns how many groups no transaction has locked.
func unlocked(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	rows, err := tx.Query(`SELECT group_id FROM parley_grp FOR UPDATE SKIP LOCKED`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDueBatches reads a batch of many posts and timers that are due: how many rows are
// read does not depend on how many there are.
func TestDueBatches(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		db.SetMaxOpenConns(1)
		s := mysql.New(db, nil)
		t.Cleanup(func() { s.Close() })
		f := &backendtest.Fixture{T: t, Ctx: t.Context()}
		f.OK(s.Migrate(f.Ctx))
		run := func(text string) {
			t.Helper()
			_, err := db.Exec(text)
			f.OK(err)
		}
		run(`INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
		     VALUES (1, 'q', 1, 0, 0), (2, 'r', 0, 0, 0)`)
		const tens = `(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4
		               UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)`
		const numbers = ` FROM (SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n
		                          FROM ` + tens + ` a, ` + tens + ` b, ` + tens + ` c, ` + tens + ` e WHERE e.d < 5) x`
		for _, queue := range []string{"1", "2"} {
			run(`INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, begun, due)
			     SELECT RANDOM_BYTES(16), ` + queue + `, '', 5, 'm', 0, 1 + n * 7919 % 5000` + numbers)
			run(`INSERT INTO parley_timer (handle, kind, due, queue_id)
			     SELECT RANDOM_BYTES(16), 0, 1 + n * 7919 % 5000, ` + queue + numbers)
		}
		run(`INSERT INTO parley_post (post_id, queue_id, priority, since, type, blocked, blocked_until)
		     SELECT RANDOM_BYTES(16), 1, 5, n, 'm', 1, 1 + n * 7919 % 5000` + numbers)
		run(`ANALYZE TABLE parley_queue, parley_delayed, parley_timer, parley_post`) // else when the server has time
		none := make([]byte, 16)
		q := s.Q()
		for _, x := range []struct {
			q    *sqlstore.Stmt
			args []any
			rows int
		}{
			{q.DelayedFirsts, nil, 1},
			{q.DueDelayed, []any{1, 1, 0, 0, none}, 100},
			{q.DueDelayed, []any{1, 1, 2000, 2000, none}, 100},
			{q.DueDelayed, []any{2, 2, 0, 0, none}, 0},
			{q.TimerFirsts, []any{0}, 2},
			{q.DueTimers, []any{0, 1, 1, 0, 0, none}, 100},
			{q.DuePosts, []any{0, 0, none}, 100},
		} {
			before, got := rowsRead(t, db), 0
			rows, err := db.Query(x.q.Text, x.args...)
			f.OK(err)
			for rows.Next() {
				got++
			}
			f.OK(rows.Err())
			f.OK(rows.Close())
			f.Equal("rows of "+x.q.Name, got, x.rows)
			if n := rowsRead(t, db) - before; n > 300 {
				t.Errorf("%s reads %d rows for %d", x.q.Name, n, got)
			}
		}
	})
}
