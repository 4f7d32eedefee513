package mysql_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

func joining(c *driver.Config) { c.MultiStatements, c.InterpolateParams = true, true }

// pointed is a store with a table of the application's, and a transaction on it that has begun.
func pointed(t *testing.T, db *sql.DB) (f *backendtest.Fixture, begin func() backend.Tx) {
	f = backendtest.New(t, open(t, db, nil))
	for _, text := range []string{
		"CREATE TABLE mark (n INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(99))",
		"CREATE PROCEDURE adds() INSERT INTO mark (s) VALUES ('by a procedure')",
		"CREATE PROCEDURE ends() COMMIT",
		"CREATE PROCEDURE replaces() BEGIN COMMIT; START TRANSACTION; END",
	} {
		_, err := db.ExecContext(f.Ctx, text)
		f.OK(err)
	}
	begin = func() backend.Tx {
		tx := f.Begin()
		_, err := tx.Once(f.Ctx, string(backend.NewID().String()), time.Hour)
		f.OK(err)
		return tx
	}
	tx := begin()
	f.OK(tx.Savepoint(f.Ctx, "p")) // the store has found out by then what the connection takes
	_, err := tx.SQL().ExecContext(f.Ctx, "DELETE FROM mark WHERE n > ?", 0)
	f.OK(errors.Join(err, tx.Rollback(f.Ctx)))
	return f, begin
}

// TestSavepointTrips: a handler's savepoint comes with its first statement, if the connection takes both in a text.
func TestSavepointTrips(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		for name, set := range map[string]func(*driver.Config){"joined": joining, "several": several, "apart": nil} {
			db, count := counted(t, server, set)
			f, begin := pointed(t, db)
			tx := begin()
			f.OK(tx.Savepoint(f.Ctx, "p"))
			for _, x := range []struct {
				query  string
				args   []any
				joined bool
			}{
				{"INSERT INTO mark (s) VALUES (?)", []any{"x"}, true},
				{"SELECT s FROM mark WHERE n > ?", []any{0}, true},
				{"-- name: Change :exec\nUPDATE mark SET s = 'y'", nil, true},
				{"UPDATE mark SET s = 'why?' WHERE n > ?", []any{0}, false},
				{"CALL adds()", nil, false},
				{"INSERT INTO mark (s) VALUES (?)", []any{strings.Repeat("x", 99)}, true},
				{"DELETE FROM mark", nil, true},
			} {
				count.Take()
				if strings.Contains(x.query, "SELECT") {
					var s string
					f.OK(tx.SQL().QueryRowContext(f.Ctx, x.query, x.args...).Scan(&s))
					f.Equal("row", s, "x")
				} else {
					res, err := tx.SQL().ExecContext(f.Ctx, x.query, x.args...)
					f.OK(err)
					n, err := res.RowsAffected()
					f.OK(err)
					if want := int64(1 + strings.Count(x.query, "DELETE")*2); n != want {
						t.Errorf("%s: %d rows, want %d", x.query, n, want)
					}
				}
				joined := 0
				for _, text := range count.Take() {
					if strings.Contains(text, "SAVEPOINT") && strings.Contains(text, x.query[:6]) {
						joined++
					}
				}
				if want := x.joined && (name == "joined" || name == "several" && x.args == nil); (joined == 1) != want {
					t.Errorf("%s: %s: %d with the savepoint, want %t", name, x.query, joined, want)
				}
				f.OK(tx.Resave(f.Ctx, "p"))
			}
			f.OK(tx.Commit(f.Ctx))
		}
	})
}

// TestSavepointOfFailure: what is rolled back to a savepoint is what came after it, whatever has failed.
func TestSavepointOfFailure(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		for _, set := range []func(*driver.Config){joining, several, nil} {
			db, _ := counted(t, server, set)
			f, begin := pointed(t, db)
			tx := begin()
			f.OK(tx.Savepoint(f.Ctx, "p"))
			insert := func(s string) {
				t.Helper()
				_, err := tx.SQL().ExecContext(f.Ctx, "INSERT INTO mark (n, s) VALUES (?, ?)", len(s), s)
				f.OK(err)
			}
			insert("x")
			for _, x := range []struct {
				query string
				args  []any
				code  uint16
			}{
				{"INSERT INTO mark (n) VALUES (?)", []any{1}, 1062},
				{"INSERT INTO mark (n) VALUES (1)", nil, 1062},
				{"INSERT INTO mark (n) WHERE (?)", []any{1}, 1064},
				{"INSERT INTO mark (n) WHERE", nil, 1064},
				{"SELECT no_such_function(?)", []any{1}, 1305},
				{"CALL no_such_procedure()", nil, 1305},
			} {
				f.OK(tx.Resave(f.Ctx, "p"))
				var no *driver.MySQLError
				_, err := tx.SQL().ExecContext(f.Ctx, x.query, x.args...)
				if !errors.As(err, &no) || no.Number != x.code && no.Number != 1630 { // as MySQL may say of a function
					t.Errorf("%s: %v, want %d", x.query, err, x.code)
				}
				insert("yy")
				f.OK(tx.RollbackTo(f.Ctx, "p"))
			}
			insert("zzz")
			f.OK(tx.Commit(f.Ctx))
			var all string
			f.OK(db.QueryRowContext(f.Ctx, "SELECT GROUP_CONCAT(s ORDER BY n) FROM mark").Scan(&all))
			f.Equal("rows", all, "x,zzz")
		}
	})
}

// TestSavepointOfEnd: after a procedure has ended the transaction, no statement with a savepoint is carried out.
func TestSavepointOfEnd(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		for name, set := range map[string]func(*driver.Config){"joined": joining, "several": several, "apart": nil} {
			db, _ := counted(t, server, set)
			f, begin := pointed(t, db)
			for _, call := range []string{"CALL ends()", "CALL replaces()"} {
				if call == "CALL replaces()" && name == "apart" {
					continue // which nothing but a savepoint shows
				}
				tx := begin()
				f.OK(tx.Savepoint(f.Ctx, "p"))
				_, err := tx.SQL().ExecContext(f.Ctx, call)
				f.OK(err)
				err = tx.Resave(f.Ctx, "p")
				if err == nil {
					_, err = tx.SQL().ExecContext(f.Ctx, "INSERT INTO mark (s) VALUES ('x')")
				}
				if err == nil || call == "CALL ends()" && !errors.Is(err, backend.ErrSerialization) {
					t.Errorf("%s, %s: %v, want ErrSerialization", name, call, err)
				}
				tx.Rollback(f.Ctx)
				var n int
				f.OK(db.QueryRowContext(f.Ctx, "SELECT count(*) FROM mark").Scan(&n))
				f.Equal("rows", n, 0)
			}
		}
	})
}

// TestSavepointUnanswered: a server that is told to end a statement may leave the text unanswered.
func TestSavepointUnanswered(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := sql.OpenDB(silent{connector(t, server, joining)})
		t.Cleanup(func() { db.Close() })
		f, begin := pointed(t, db)
		tx := begin()
		f.OK(tx.Savepoint(f.Ctx, "p"))
		err := tx.SQL().QueryRowContext(f.Ctx, "SELECT 'silence'").Scan(new(string))
		if !errors.Is(err, backend.ErrConnection) {
			t.Errorf("%v, want ErrConnection", err)
		}
		if err := tx.Commit(f.Ctx); err == nil {
			t.Error("the transaction commits")
		}
	})
}

// TestSavepointInterrupted: if a text is interrupted, its savepoint may not have been set. To roll back must not undo what the
// handler before has written.
func TestSavepointInterrupted(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := sql.OpenDB(silent{connector(t, server, joining)})
		t.Cleanup(func() { db.Close() })
		f, begin := pointed(t, db)
		tx := begin()
		f.OK(tx.Savepoint(f.Ctx, "p"))
		_, err := tx.SQL().ExecContext(f.Ctx, "INSERT INTO mark (s) VALUES ('x')")
		f.OK(err)
		f.OK(tx.Resave(f.Ctx, "p"))
		_, err = tx.SQL().ExecContext(f.Ctx, "INSERT INTO mark (s) VALUES ('killed')")
		f.Is(err, backend.ErrSerialization)
		f.Is(tx.RollbackTo(f.Ctx, "p"), backend.ErrSerialization)
		if err := tx.Commit(f.Ctx); err == nil {
			t.Error("the transaction commits")
		}
	})
}

// silent makes connections on which a question for silence has no answer, and what is killed is not carried out.
type silent struct{ sqldriver.Connector }

func (c silent) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return &silentConn{conn}, err
}

type silentConn struct{ sqldriver.Conn }

func (c *silentConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if strings.Contains(query, "killed") {
		return nil, &driver.MySQLError{Number: 1317, Message: "Query execution was interrupted"}
	}
	return c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *silentConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if strings.Contains(query, "silence") {
		<-ctx.Done()
		c.Close()
		return nil, ctx.Err()
	}
	return c.Conn.(sqldriver.QueryerContext).QueryContext(ctx, query, args)
}
