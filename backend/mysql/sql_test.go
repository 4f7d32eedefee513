package mysql_test

import (
	"context"
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
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		f.Post(backend.Posting{Body: []byte("api")})
		f.Post(backend.Posting{Key: "k", Body: []byte("api k1")})
		const post = `CALL parley_post(?, ?, ?, ?)`
		for _, args := range [][]any{
			{"qp", "m", []byte("sql"), nil},
			{"qp", "m", []byte("sql k2"), "k"},
			{"qp", nil, nil, "new"},
			{"qp", "m", []byte("sql l1"), "l"},
		} {
			var id string
			if err := db.QueryRow(post, args...).Scan(&id); err != nil {
				t.Fatal(err)
			}
			parsed, err := backend.ParseID(id)
			if err != nil || parsed[6]>>4 != 7 || parsed[8]>>6 != 2 {
				t.Errorf("id %s is no UUID of version 7, %v", id, err)
			}
			if s, err := b.PostStatus(t.Context(), f.QP, parsed); err != nil || s.State != "pending" {
				t.Errorf("status %+v, %v", s, err)
			}
		}
		f.Post(backend.Posting{Key: "k", Body: []byte("api k3")})
		f.Post(backend.Posting{Key: "l", Body: []byte("api l2")})
		r := f.Request(f.QP)
		r.MaxGroups = 10
		got := map[string]string{}
		for c := f.Claim(r); len(c.Holds) > 0; c = f.Claim(r) {
			for _, h := range c.Holds {
				m := h.Messages[0]
				key := m.Key
				if key == "" {
					key = string(m.Body)
				}
				got[key] = fmt.Sprint(m.Type, " ", m.Priority, " ", m.Handle.IsZero(), " ", backendtest.Bodies(h.Messages))
				f.Ack(h)
			}
		}
		f.Equal("posts", got, map[string]string{
			"api": "m 5 true [api]",
			"sql": "m 5 true [sql]",
			"k":   "m 5 true [api k1 sql k2 api k3]",
			"new": "DEFAULT 5 true []",
			"l":   "m 5 true [sql l1 api l2]",
		})

		state := func(err error) string {
			var e *driver.MySQLError
			if !errors.As(err, &e) {
				return fmt.Sprint(err)
			}
			return string(e.SQLState[:])
		}
		_, err := db.Exec(post, "nowhere", "m", nil, nil)
		f.Equal("unknown queue", state(err), "PA001")
		_, err = db.Exec(post, "QP", "m", nil, nil)
		f.Equal("a queue of another case", state(err), "PA001")
		f.Define(&backend.Catalog{Queues: []backend.Queue{{Name: "qp", Disabled: true}}})
		_, err = db.Exec(post, "qp", "m", nil, nil)
		f.Equal("disabled queue", state(err), "PA002")
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
			rows, err := db.Query(quoted.ReplaceAllString(query, "`$1`$2"))
			if err != nil {
				t.Fatalf("%s: %v", query, err)
			}
			defer rows.Close()
			var out []string
			for rows.Next() {
				var s string
				if err := rows.Scan(&s); err != nil {
					t.Fatal(err)
				}
				out = append(out, s)
			}
			return out
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
		first, _, _ := strings.Cut(two.MigrationSQL(), ";")
		if _, err := db.Exec(first); err != nil {
			t.Fatal(err)
		}
		if err := two.Check(ctx); !errors.Is(err, backend.ErrNotMigrated) {
			t.Fatalf("check: %v", err)
		}
		if err := two.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
		f := backendtest.New(t, two)
		f.Post(backend.Posting{Body: []byte("x")})
		if err := one.Uninstall(ctx); err != nil {
			t.Fatal(err)
		}
		f.Equal("drained", f.Drain(f.QP), []string{"x"})
		if err := two.Uninstall(ctx); err != nil {
			t.Fatal(err)
		}
		var left int
		err := db.QueryRow(`
			SELECT (SELECT count(*) FROM information_schema.tables WHERE table_schema = database())
			     + (SELECT count(*) FROM information_schema.routines WHERE routine_schema = database())`).Scan(&left)
		if err != nil || left != 0 {
			t.Errorf("%d things are left after Uninstall, %v", left, err)
		}
	})
}
