package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
)

// TestPostProcedure posts by SQL and by the API and compares what arrives.
func TestPostProcedure(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		f := backendtest.New(t, open(t, db, nil))
		post := func(queue string, typ sql.NullString, body []byte, key sql.NullString) (id string, err error) {
			err = db.QueryRow(`CALL parley_post(?, ?, ?, ?)`, queue, typ, body, key).Scan(&id)
			return id, err
		}
		state := func(err error) string {
			var e *driver.MySQLError
			if !errors.As(err, &e) {
				return fmt.Sprint(err)
			}
			return string(e.SQLState[:])
		}
		backendtest.PlainPosts(f, post, state, "PA001", "PA002")
		g := backendtest.New(t, open(t, db, nil))
		backendtest.PlainHeaders(g, func(headers sql.NullString, key string) error {
			_, err := db.Exec(`CALL parley_post_with_headers(?, ?, ?, ?, ?)`, "qp", "m", nil, key, headers)
			return err
		}, func(oldest int) {
			_, err := db.Exec(fmt.Sprintf(`UPDATE parley_meta SET oldest_program = %d`, oldest))
			g.OK(err)
		}, state, "PA006", "PA007")
	})
}

// quoted are the columns that are words of SQL's.
var quoted = regexp.MustCompile(`\b(delayed|key)\b([^'])`)

// TestViews looks at everything there is to see.
func TestViews(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		// The queries write || for joining texts.
		db := connect(t, server, database(t, server), func(c *driver.Config) {
			c.Params = map[string]string{"sql_mode": "'PIPES_AS_CONCAT'"}
		})
		f := backendtest.New(t, open(t, db, nil))
		backendtest.Views(f, func(query string) []string {
			t.Helper()
			return backendtest.Texts(t, db, quoted.ReplaceAllString(query, "`$1`$2"))
		})
	})
}

// TestPrefix has two installations side by side in one database, one of which was
// put there by hand, and interrupted on the way.
func TestPrefix(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		ctx := context.Background()
		db := connect(t, server, database(t, server), nil)
		one := open(t, db, nil)
		two := mysql.New(db, &mysql.Options{Prefix: "other_"})
		if err := two.Check(ctx); !errors.Is(err, backend.ErrNotMigrated) {
			t.Fatalf("check: %v", err)
		}
		first, _, _ := strings.Cut(two.MigrationSQL(0), ";")
		if _, err := db.Exec(first); err != nil {
			t.Fatal(err)
		}
		if err := two.Check(ctx); !errors.Is(err, backend.ErrNotMigrated) {
			t.Fatalf("check: %v", err)
		}
		if err := two.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		backendtest.Uninstalls(t, one, two, func() int {
			return backendtest.Number(t, db, `
				SELECT (SELECT count(*) FROM information_schema.tables WHERE table_schema = database())
				     + (SELECT count(*) FROM information_schema.routines WHERE routine_schema = database())`)
		})
	})
}
