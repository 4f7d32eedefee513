package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// checkFirst checks the rows of the first dump, that of schema 2, which has a queue for posts and another for
// conversations.
func checkFirst(f *Fixture) {
	f.learn(f.catalog())
	q := f.queue(f.QP)
	f.Equal("posts deferred, parked, leased, delayed", []any{q.Deferred, q.Parked, q.Leased, q.Delayed}, []any{1, 1, 1, 1})
	f.Equal("posts", f.Drain(f.QP), []string{"promoted", "failed", "keyed 1", "keyed 2", "unique"})
	groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QP, Limit: 10})
	f.OK(err)
	for _, g := range groups {
		if g.State == "parked" || g.State == "deferred" {
			f.Do(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, g.Group) })
		}
	}
	left := f.Drain(f.QP)
	slices.Sort(left)
	f.Equal("posts that were parked and deferred", left, []string{"deferred", "parked"})
	f.Is(f.Try(func(tx backend.Tx) error {
		fresh, err := tx.Once(f.Ctx, "effect", time.Minute)
		f.Equal("a key of Once is new", fresh, false)
		return err
	}), nil)
	dead, err := f.Backend.DeadLetters(f.Ctx, backend.DeadQuery{Queue: f.QP, Limit: 10, Bodies: true})
	f.OK(err)
	f.Equal("dead letters", len(dead), 1)
	got := f.Drain(f.QB)
	for _, body := range []string{"one", "two", "last"} {
		if !slices.Contains(got, body) {
			f.Errorf("%q is not among the messages %q", body, got)
		}
	}
	held, err := f.Backend.Withheld(f.Ctx, backend.ID{}, 10)
	f.OK(err)
	f.Equal("conversations with withheld messages", len(held), 1)
	f.Do(func(tx backend.Tx) error {
		tasks, err := tx.ClaimTasks(f.Ctx, backend.TaskClaim{Max: 5, Lease: time.Minute, Owner: "t"})
		f.Equal("tasks", len(tasks), 1)
		return err
	})
	f.Post(backend.Posting{Queue: f.QP, Key: "k", Unique: "u", Body: []byte("keyed 3")})
	f.Equal("posts", f.Drain(f.QP), []string{"keyed 3"})
}

// Literals write values of an engine as SQL; the empty text leaves a column out.
type Literals func(column *sql.ColumnType, value any) string

// Upgrade loads the rows of testdata/schema, which programs of older schemas and of this one have
// left in every state. Today's program then finds them, on its own schema and on the next one. With
// UPDATE=1 it writes there what this program leaves behind.
func Upgrade(t *testing.T, site func(t *testing.T) Site, literal Literals) {
	if os.Getenv("UPDATE") != "" {
		leave(t, site(t), literal)
	}
	dumps, err := filepath.Glob(filepath.Join("testdata", "schema", "*.sql"))
	if err != nil || len(dumps) == 0 {
		t.Fatalf("there is nothing in testdata/schema: %v", err)
	}
	for _, name := range dumps {
		t.Run(filepath.Base(name)+" on this schema", func(t *testing.T) { upgrade(t, site(t), name, 0) })
		t.Run(filepath.Base(name)+" on the next schema", func(t *testing.T) { upgrade(t, site(t), name, 1) })
	}
}

const head = `-- Rows in every state, as a program of schema %d has left them. TestUpgrade loads them. It made this file when
-- that schema was the newest one, by UPDATE=1 go test -run TestUpgrade in the backend's folder. Once the schema is
-- released the file stays as it is.
`

// leave writes a dump of rows in every state.
func leave(t *testing.T, s Site, literal Literals) {
	b := s.Open(t)
	f := &Fixture{T: t, Ctx: t.Context(), Backend: b}
	f.OK(b.Migrate(f.Ctx))
	putStates(f)
	info, err := b.Info(f.Ctx)
	f.OK(err)
	var tables []string
	f.OK(s.Open(t).SetMigrations(func(files []string) []string {
		tables = made(files)
		return files
	}))
	name := filepath.Join("testdata", "schema", fmt.Sprint(info.Program)+".sql")
	f.OK(os.MkdirAll(filepath.Dir(name), 0o777))
	f.OK(os.WriteFile(name, []byte(fmt.Sprintf(head, info.Program)+dump(t, s.DB, s.Schema, tables, literal)), 0o666))
}

func upgrade(t *testing.T, s Site, name string, newer int) {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	version := 0
	fmt.Sscanf(filepath.Base(name), "%d.sql", &version)
	old := s.Open(t)
	if err := old.SetMigrations(func(files []string) []string { return files[:version] }); err != nil {
		t.Fatal(err)
	}
	f := &Fixture{T: t, Ctx: t.Context(), Backend: s.Open(t)}
	f.OK(old.Migrate(f.Ctx))
	s.Exec(t, string(text))
	f.OK(f.Backend.Migrate(f.Ctx))
	f.OK(s.program(t, newer).Migrate(f.Ctx))
	if version == 2 {
		checkFirst(f)
	} else {
		checkStates(f, version)
	}
}

var createsTable = regexp.MustCompile(`(?m)^CREATE TABLE (?:IF NOT EXISTS )?parley_(\w+) \(`)

func made(files []string) (tables []string) {
	for _, m := range createsTable.FindAllStringSubmatch(strings.Join(files, "\n"), -1) {
		tables = append(tables, m[1])
	}
	return tables
}

// forThePlanner reports whether PostgreSQL's schema has a row for its planner alone. The ids of such rows are the
// lowest ones but zero.
func forThePlanner(line string) bool {
	return strings.Contains(strings.ReplaceAll(line, backend.ID{}.String(), ""), "'00000000-0000-0000-0000-")
}

// dump writes all rows but those that the schema's files make.
func dump(t *testing.T, db *sql.DB, dot string, tables []string, literal Literals) string {
	var b strings.Builder
	for _, table := range tables {
		if table == "walk" {
			continue
		}
		rows, err := db.QueryContext(context.Background(), "SELECT * FROM "+dot+"parley_"+table)
		if err != nil {
			t.Fatal(err)
		}
		types, err := rows.ColumnTypes()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, to := make([]any, len(types)), make([]any, len(types))
			for i := range values {
				to[i] = &values[i]
			}
			if err := rows.Scan(to...); err != nil {
				t.Fatal(err)
			}
			columns := make(map[string]string)
			for i, c := range types {
				if text := literal(c, values[i]); text != "" {
					columns[c.Name()] = text
				}
			}
			switch {
			case table == "meta":
				fmt.Fprintf(&b, "UPDATE parley_meta SET catalog_version = %s WHERE id = 1;\n", columns["catalog_version"])
				continue
			case table == "lock_stripe":
				if columns["fence"] != "0" {
					fmt.Fprintf(&b, "UPDATE parley_lock_stripe SET fence = %s WHERE stripe = %s;\n", columns["fence"], columns["stripe"])
				}
				continue
			}
			names := slices.Sorted(maps.Keys(columns))
			var list []string
			for _, c := range names {
				list = append(list, columns[c])
			}
			line := fmt.Sprintf("INSERT INTO parley_%s (%s) VALUES (%s);\n", table, strings.Join(names, ", "), strings.Join(list, ", "))
			if !forThePlanner(line) {
				b.WriteString(line)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		rows.Close()
	}
	return b.String()
}
