package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/slow"
)

// TestSettings runs the suite on handles with settings that change the
// meaning of much, in databases of other character sets.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, charset string
		set           func(*driver.Config)
	}{
		{"ansi", "utf8mb4 COLLATE utf8mb4_general_ci", func(c *driver.Config) {
			c.ClientFoundRows, c.ParseTime, c.InterpolateParams, c.Loc = true, true, true, time.Local
			c.Params = map[string]string{"sql_mode": "'ANSI,TRADITIONAL,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE'", "time_zone": "'+09:30'", "sql_safe_updates": "1"}
		}},
		{"lax", "latin1 COLLATE latin1_swedish_ci", func(c *driver.Config) {
			c.MultiStatements = true
			c.Params = map[string]string{"sql_mode": "''", "time_zone": "'-11:00'", "charset": "latin1", "foreign_key_checks": "0"}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			each(t, func(t *testing.T, server string) {
				base := database(t, server)
				if _, err := connect(t, server, "", nil).Exec("ALTER DATABASE " + base + " CHARACTER SET " + x.charset); err != nil {
					t.Fatal(err)
				}
				open(t, connect(t, server, base, x.set), nil) // it migrates with these settings
				suite(t, connect(t, server, base, x.set))
			})
		})
	}
}

// TestRefused has settings under which nothing could be right.
func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		base := database(t, server)
		open(t, connect(t, server, base, nil), nil)
		for _, x := range []struct{ variable, value, says string }{
			{"autocommit", "0", "autocommit"},
			{"completion_type", "1", "completion_type"},
			{"completion_type", "2", "completion_type"},
			{"sql_mode", "'EMPTY_STRING_IS_NULL'", "EMPTY_STRING_IS_NULL"},
			{"sql_mode", "'PAD_CHAR_TO_FULL_LENGTH'", "PAD_CHAR_TO_FULL_LENGTH"},
		} {
			db := connect(t, server, base, func(c *driver.Config) { c.Params = map[string]string{x.variable: x.value} })
			if err := db.Ping(); err != nil {
				continue // MySQL does not know the mode
			}
			if err := mysql.New(db, nil).Check(t.Context()); err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s = %s: %v", x.variable, x.value, err)
			}
		}
	})
}

// TestIdleConnections has the server close connections that are idle.
func TestIdleConnections(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), func(c *driver.Config) {
			c.Params = map[string]string{"wait_timeout": "1"}
			c.Logger = &driver.NopLogger{}
		})
		db.SetMaxIdleConns(4)
		f := backendtest.New(t, open(t, db, nil))
		a, b, c := f.Begin(), f.Begin(), f.Begin() // three connections
		for _, tx := range []backend.Tx{a, b, c} {
			f.OK(tx.Rollback(f.Ctx))
		}
		time.Sleep(1500 * time.Millisecond)
		f.Post(backend.Posting{Body: []byte("x")})
		time.Sleep(1500 * time.Millisecond)
		f.Equal("drained", f.Drain(f.QP), []string{"x"})
	})
}

// TestKilled ends the connection of a transaction in each of its phases. What had
// been done is undone, and the next attempt finds everything as it was.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), func(c *driver.Config) { c.Logger = &driver.NopLogger{} })
		f := backendtest.New(t, open(t, db, nil))
		d := f.Open()
		f.Send(d.A.Handle, "1")
		var hold *backend.Hold
		var id int64
		phases := []struct {
			name string
			do   func(tx backend.Tx) error
		}{
			{"begun", func(tx backend.Tx) error {
				return tx.SQL().QueryRowContext(f.Ctx, "SELECT connection_id()").Scan(&id)
			}},
			{"sent", func(tx backend.Tx) error {
				_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(d.B.Handle, "back")})
				return err
			}},
			{"claimed", func(tx backend.Tx) error {
				r := f.Request(f.QB)
				r.Lease = 0
				c, err := tx.Claim(f.Ctx, r)
				if err == nil && len(c.Holds) != 1 {
					err = fmt.Errorf("%d claimed", len(c.Holds))
				}
				if err == nil {
					hold = c.Holds[0]
				}
				return err
			}},
			{"settled", func(tx backend.Tx) error {
				_, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: hold, Done: hold.Messages}})
				return err
			}},
			{"committed", func(tx backend.Tx) error { return tx.Commit(f.Ctx) }},
		}
		for kill := range len(phases) - 1 {
			tx := f.Begin()
			for i, phase := range phases {
				err := phase.do(tx)
				if i <= kill {
					f.OK(err)
				} else if !errors.Is(err, backend.ErrConnection) && !errors.Is(err, backend.ErrTxDone) {
					t.Errorf("%s after the connection was killed in phase %s: %v", phase.name, phases[kill].name, err)
				}
				if i == kill {
					if _, err := db.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
						t.Fatal(err)
					}
				}
				if i > kill {
					break
				}
			}
			f.OK(tx.Rollback(f.Ctx))
		}
		// The server may be at the last one's end yet.
		for len(f.Claim(f.Request(f.QA)).Holds) > 0 {
			t.Error("what was sent in a killed transaction has arrived")
		}
		var got []string
		slow.Eventually(t, 30*time.Second, "what was sent before arrives", func() (any, bool) {
			got = f.Drain(f.QB)
			return got, len(got) > 0
		})
		f.Equal("drained", got, []string{"1"})
	})
}

// TestCancelledWait ends the wait for a sender inside a batch. The transaction is
// still there, with the locks that it had, and so is the connection.
func TestCancelledWait(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		f := backendtest.New(t, open(t, db, nil))
		one, two, three := f.Open(), f.Open(), f.Open()
		other := f.Begin()
		_, err := other.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(two.A.Handle, "first")})
		f.OK(err)
		tx := f.Begin()
		_, err = tx.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(one.A.Handle, "kept")})
		f.OK(err)
		ctx, cancel := context.WithTimeout(f.Ctx, 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err = tx.Send(ctx, f.Version, []backend.Outgoing{
			backendtest.Message(one.A.Handle, "dropped"), backendtest.Message(two.A.Handle, "dropped"), backendtest.Message(three.A.Handle, "dropped"),
		})
		f.Is(err, context.DeadlineExceeded)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		_, err = tx.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(one.A.Handle, "kept too")})
		f.OK(err)
		f.OK(tx.Commit(f.Ctx))
		f.OK(other.Commit(f.Ctx))
		f.Equal("drained", f.Drain(f.QB), []string{"first", "kept", "kept too"})
	})
}

// TestLostTransaction has the application's statements end the transaction on the
// server: what follows must not be carried out by itself.
func TestLostTransaction(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		f := backendtest.New(t, open(t, db, nil))
		for _, statement := range []string{"CREATE TABLE app (id INT PRIMARY KEY)", "INSERT INTO app VALUES (1), (2)"} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		post := func(tx backend.Tx) error {
			_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("x")})})
			return err
		}
		// By a statement that commits, unless there is nothing before it.
		tx := f.Begin()
		for _, statement := range []string{"CREATE TABLE app2 (id INT PRIMARY KEY)", "INSERT INTO app2 VALUES (1)"} {
			_, err := tx.SQL().ExecContext(f.Ctx, statement)
			f.OK(err)
		}
		f.OK(post(tx))
		f.OK(tx.Rollback(f.Ctx))
		tx = f.Begin()
		for _, statement := range []string{"INSERT INTO app2 VALUES (1)", "CREATE TABLE app3 (id INT PRIMARY KEY)"} {
			_, err := tx.SQL().ExecContext(f.Ctx, statement)
			f.OK(err)
		}
		f.Is(post(tx), backend.ErrTxDone)
		f.Is(tx.Commit(f.Ctx), backend.ErrTxDone)
		// By a statement that commits and then fails.
		tx = f.Begin()
		if _, err := tx.SQL().ExecContext(f.Ctx, "CREATE TABLE app (id INT PRIMARY KEY)"); err == nil {
			t.Fatal("a table was made twice")
		}
		_, err := tx.SQL().ExecContext(f.Ctx, "INSERT INTO app VALUES (3)")
		f.OK(err)
		f.OK(post(tx))
		f.OK(tx.Rollback(f.Ctx))
		var n int
		f.OK(db.QueryRow("SELECT COUNT(*) FROM app WHERE id = 3").Scan(&n))
		f.Equal("rows of a transaction that was rolled back", n, 0)

		// By a deadlock that the application overlooks, in a row that it scans.
		tx = f.Begin()
		lock := func(e backend.Execer, id int) error {
			var n int
			return e.QueryRowContext(f.Ctx, fmt.Sprintf("SELECT id FROM app WHERE id = %d FOR UPDATE", id)).Scan(&n)
		}
		f.OK(lock(tx.SQL(), 1))
		second, err := db.BeginTx(f.Ctx, nil)
		f.OK(err)
		for i := range 100 { // much to lose, so that it is not the victim
			if _, err := second.Exec("INSERT INTO app VALUES (?)", 100+i); err != nil {
				t.Fatal(err)
			}
		}
		f.OK(lock(second, 2))
		done := make(chan error, 1)
		go func() { done <- lock(second, 1) }()
		time.Sleep(200 * time.Millisecond)
		if err := lock(tx.SQL(), 2); err == nil {
			t.Fatal("there was no deadlock")
		}
		f.OK(<-done)
		f.OK(second.Rollback())
		f.Is(post(tx), backend.ErrSerialization)
		f.Is(tx.Commit(f.Ctx), backend.ErrSerialization)
		f.Equal("drained", f.Drain(f.QP), []string(nil))
	})
}

// TestNotBegunAgain: a transaction that begins with a statement that commits begins once more. If it cannot,
// what follows must not be carried out by itself.
func TestNotBegunAgain(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		var fails atomic.Bool
		db := rewriting(t, server, func(query string) string {
			if fails.Load() && strings.HasPrefix(query, "START TRANSACTION") {
				return "START NOTHING"
			}
			return query
		})
		f := backendtest.New(t, open(t, db, nil))
		tx := f.Begin()
		sql := tx.SQL() // begins it
		fails.Store(true)
		_, err := sql.ExecContext(f.Ctx, "CREATE TABLE app (id INT PRIMARY KEY)")
		f.Is(err, backend.ErrSerialization)
		fails.Store(false)
		_, err = tx.SQL().ExecContext(f.Ctx, "INSERT INTO app VALUES (1)")
		f.Is(err, backend.ErrSerialization)
		f.Is(tx.Commit(f.Ctx), backend.ErrSerialization)
		var n int
		f.OK(db.QueryRow("SELECT COUNT(*) FROM app").Scan(&n))
		f.Equal("rows of a transaction that did not begin", n, 0)
	})
}

// TestTooLarge sends more than the server takes, which it would answer by closing
// the connection.
func TestTooLarge(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), func(c *driver.Config) { c.MaxAllowedPacket = 1 << 30 })
		var limit int
		if err := db.QueryRow("SELECT @@max_allowed_packet").Scan(&limit); err != nil {
			t.Fatal(err)
		}
		f := backendtest.New(t, open(t, db, nil))
		d := f.Open()
		tx := f.Begin()
		big := backendtest.Message(d.A.Handle, "")
		big.Body = make([]byte, limit)
		_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{big})
		f.Is(err, backend.ErrTooLarge)
		f.OK(tx.Rollback(f.Ctx))
		big.Body = bytes.Repeat([]byte{0, '\'', '\\', 0xff, '?'}, 100_000) // left to the driver as a parameter
		small := backendtest.Message(d.A.Handle, "\\'?")
		f.Do(func(tx backend.Tx) error {
			_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{big, small})
			return err
		})
		h := f.One(f.Request(f.QB))
		if len(h.Messages) != 2 || !bytes.Equal(h.Messages[0].Body, big.Body) || string(h.Messages[1].Body) != "\\'?" {
			t.Errorf("%d messages came back, not as they were sent", len(h.Messages))
		}
	})
}
