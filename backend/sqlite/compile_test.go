package sqlite_test

import (
	"reflect"
	"regexp"
	"strconv"
	"testing"

	driver "modernc.org/sqlite"

	"github.com/parleymq/parley/backend/sqlstore"
)

// TestCompiledOnce: SQLite compiles a prepared statement anew if it has planned by the value of a parameter that is bound
// again: that of a LIMIT, and small integers that columns are compared with.
func TestCompiledOnce(t *testing.T) {
	ctx := t.Context()
	file := path(t)
	b := open(t, file)
	conn, err := user(t, file).Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	compiled := 0
	err = conn.Raw(func(c any) error {
		return c.(driver.AuthorizerRegisterer).RegisterAuthorizer(func(driver.AuthorizerActionCode, string, string, string, string) driver.AuthorizerReturnCode {
			compiled++
			return driver.AuthorizerOK
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func(s *sqlstore.Stmt) {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		q, err := tx.PrepareContext(ctx, s.Text)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		defer q.Close()
		run := func(n int) {
			args := zeros(s.Text)
			for i := range args {
				args[i] = n + 7
			}
			for _, m := range smallInteger.FindAllStringSubmatch(s.Text, -1) {
				i, _ := strconv.Atoi(m[1])
				args[i-1] = n
			}
			rows, err := q.QueryContext(ctx, args...)
			if err != nil {
				return // it means nothing with these arguments
			}
			for rows.Next() {
			}
			rows.Close()
		}
		run(1)
		compiled = 0
		for n := range 3 {
			run(n)
		}
		if compiled > 0 {
			t.Errorf("%s is compiled again with new arguments:\n%s", s.Name, s.Text)
		}
	}
	for _, list := range []any{b.Q(), b.Many()} {
		q := reflect.ValueOf(list).Elem()
		for i := range q.NumField() {
			if s := q.Field(i).Interface().(*sqlstore.Stmt); !s.Empty() {
				look(s)
			}
		}
	}
}

// smallInteger is a parameter for a column that no id is in.
var smallInteger = regexp.MustCompile(`\b(?:queue_id|kind|seq|initiator|state|n|phase|priority|level|blocked|blocked_until|` +
	`held|held_until|mode|since|due|enabled|catalog_version|attempts|fence) (?:=|<|>|<=|>=|<>) \+?\?(\d+)`)
