package sqlite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

// TestReclaimJoined reclaims a post in a transaction of the application's, whose
// commit the store does not see.
func TestReclaimJoined(t *testing.T) {
	file := path(t)
	b := open(t, file)
	f := backendtest.New(t, b)
	f.Post(backend.Posting{Body: []byte("x")})
	h := f.One(f.Request(f.QP))
	mine, err := user(t, file).Begin()
	f.OK(err)
	tx, err := b.Join(f.Ctx, mine)
	f.OK(err)
	f.OK(tx.Reclaim(f.Ctx, []*backend.Hold{h}))
	f.OK(mine.Commit())
	f.Equal("free", f.Drain(f.QP), []string{"x"})
}

// TestHeldOrder: groups that are held by lease leave the order that claims walk. They are back in
// their places when their leases have ended or expired.
func TestHeldOrder(t *testing.T) {
	file := path(t)
	f := backendtest.New(t, open(t, file))
	db := user(t, file)
	walked := func(want int) {
		t.Helper()
		var n int
		f.OK(db.QueryRow("SELECT count(*) FROM parley_ready WHERE held_until = 0").Scan(&n))
		f.Equal("markers in the order", n, want)
	}
	for i := range 4 {
		f.Post(backend.Posting{Key: fmt.Sprint("k", i), Body: []byte(fmt.Sprint(i))})
	}
	long, short := f.Request(f.QP), f.Request(f.QP)
	short.Lease = 200 * time.Millisecond
	first := f.One(short)
	second, third := f.One(long), f.One(long)
	walked(1)
	f.OK(f.Backend.Extend(f.Ctx, []*backend.Hold{second}, time.Minute))
	time.Sleep(short.Lease + 50*time.Millisecond)
	walked(1)
	again := f.One(long)
	f.Equal("the expired one", backendtest.Bodies(again.Messages), []string{"0"})
	f.Is(f.Try(func(tx backend.Tx) error { return tx.Reclaim(f.Ctx, []*backend.Hold{first}) }), backend.ErrFenced)
	f.Settle(backend.Outcome{Hold: third}, backend.Outcome{Hold: second})
	walked(3)
	f.Equal("in order", f.Drain(f.QP), []string{"1", "2", "3"})
	f.Ack(again)
	walked(0)
}

// TestUserStatements runs statements of the user's again and again: they stay
// prepared.
func TestUserStatements(t *testing.T) {
	f := backendtest.New(t, open(t, path(t)))
	run := func(tx backend.Tx, query string, args ...any) error {
		_, err := tx.SQL().ExecContext(f.Ctx, query, args...)
		return err
	}
	const insert = "INSERT INTO mine VALUES (?)"
	f.Do(func(tx backend.Tx) error {
		if run(tx, insert, 1) == nil {
			t.Error("there is no table yet")
		}
		return run(tx, "CREATE TABLE mine (n INTEGER UNIQUE); INSERT INTO mine VALUES (-1)")
	})
	f.Do(func(tx backend.Tx) error {
		for i := range 300 { // more texts than are kept
			f.OK(run(tx, insert, i))
			f.OK(run(tx, fmt.Sprintf("UPDATE mine SET n = n + 1000 WHERE n = %d", i)))
		}
		if err := run(tx, insert, 1000); err == nil {
			t.Error("a duplicate was added")
		}
		return run(tx, insert, 0)
	})
	// The table changes beneath the statement.
	f.Do(func(tx backend.Tx) error { return run(tx, "DROP TABLE mine") })
	f.Do(func(tx backend.Tx) error { return run(tx, "CREATE TABLE mine (n TEXT)") })
	undo := errors.New("undo")
	f.Is(f.Try(func(tx backend.Tx) error { f.OK(run(tx, insert, "lost")); return undo }), undo)
	f.Do(func(tx backend.Tx) error {
		f.OK(run(tx, insert, "kept"))
		rows, err := tx.SQL().QueryContext(f.Ctx, "SELECT n FROM mine")
		f.OK(err)
		defer rows.Close()
		for rows.Next() {
			var n string
			f.OK(rows.Scan(&n))
			f.Equal("n", n, "kept")
			f.OK(run(tx, "UPDATE mine SET n = 'later'")) // while rows are read
		}
		return rows.Err()
	})
}
