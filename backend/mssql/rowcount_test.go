package mssql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/sqlstore"
)

// silent is a server whose sessions have NOCOUNT ON: it tells how many rows a statement has
// changed only where that is asked for. An error of a statement follows the rows.
type silent struct {
	changed int64
	err     error
	asked   string
}

func (s *silent) Connect(context.Context) (sqldriver.Conn, error) { return silentConn{s}, nil }
func (s *silent) Driver() sqldriver.Driver                        { return nil }

type silentConn struct{ s *silent }

func (silentConn) Prepare(string) (sqldriver.Stmt, error) { return nil, errors.ErrUnsupported }
func (silentConn) Begin() (sqldriver.Tx, error)           { return nil, errors.ErrUnsupported }
func (silentConn) Close() error                           { return nil }

func (silentConn) CheckNamedValue(*sqldriver.NamedValue) error { return nil }

func (c silentConn) ExecContext(context.Context, string, []sqldriver.NamedValue) (sqldriver.Result, error) {
	return sqldriver.RowsAffected(0), c.s.err
}

func (c silentConn) QueryContext(_ context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.s.asked = text
	if len(args) > 0 { // of sp_executesql
		c.s.asked = reflect.ValueOf(args[0].Value).String()
	}
	return &silentRows{s: c.s, rest: strings.Count(c.s.asked, "SELECT coalesce(@rows, @@ROWCOUNT)")}, nil
}

type silentRows struct {
	s    *silent
	rest int
}

func (r *silentRows) Columns() []string { return make([]string, 1) }
func (r *silentRows) Close() error      { return nil }

func (r *silentRows) Next(dest []sqldriver.Value) error {
	if r.rest--; r.rest >= 0 {
		dest[0] = r.s.changed
		return nil
	}
	if r.s.err != nil {
		return r.s.err
	}
	return io.EOF
}

// TestRowsOfSilentSessions: the number of changed rows, on which settling, keys and leases
// depend, does not come from messages that a session may have turned off.
func TestRowsOfSilentSessions(t *testing.T) {
	server := &silent{changed: 3}
	db := sql.OpenDB(server)
	defer db.Close()
	for _, before := range []string{inside, outside} {
		s := session{db, before}
		res, err := s.Exec(t.Context(), &sqlstore.Stmt{Text: "DELETE FROM x"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); n != 3 || err != nil {
			t.Errorf("%d rows, %v, want 3", n, err)
		}
		if !strings.HasPrefix(server.asked, before) {
			t.Errorf("the statement begins with %.60q", server.asked)
		}
	}
	server.err = io.ErrUnexpectedEOF
	if _, err := (session{db, inside}).Exec(t.Context(), &sqlstore.Stmt{Text: "DELETE FROM x"}, nil); err != server.err {
		t.Errorf("an error behind the number: %v", err)
	}
}

var several = regexp.MustCompile(`;|\bIF\b|\bBEGIN\b`)

// TestStatementsCount: @@ROWCOUNT is that of the last statement, which may be a SET or an IF.
// A text of several statements that returns no rows sets @rows, or its number is not used.
func TestStatementsCount(t *testing.T) {
	unused := map[string]bool{"FailurePut": true, "PromotionPut": true, "TimerPut": true, "Append": true}
	all := allStatements(t)
	returns := regexp.MustCompile(`(?m)^\s*(SELECT|DECLARE|SET NOCOUNT ON)\b`)
	n := 0
	for name, text := range all {
		text = literal.ReplaceAllString(remark.ReplaceAllString(text, ""), "''")
		sets := strings.Contains(text, "SET @rows = @@ROWCOUNT")
		switch {
		case sets:
			n++
			if !regexp.MustCompile(`(INSERT|UPDATE|DELETE)[^;]*;\s*SET @rows = @@ROWCOUNT`).MatchString(text) {
				t.Errorf("%s does not count the statement that matters:%s", name, text)
			}
		case !several.MatchString(text) || unused[name] || returns.MatchString(text):
		default:
			t.Errorf("%s consists of several statements and does not say how many rows it changed:%s", name, text)
		}
	}
	if n < 6 {
		t.Errorf("only %d statements set @rows", n)
	}
}
