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

// years is a time that does not come while a dump is in use.
const years = 100 * 365 * 24 * time.Hour

// everyState leaves rows in every state in a store: what a program of this version
// leaves to the next one.
func everyState(f *Fixture) {
	put := func(bodies ...string) {
		for _, body := range bodies {
			f.Post(backend.Posting{Queue: f.QP, Body: []byte(body)})
		}
	}
	next := func(queue int64) *backend.Hold { return f.One(f.Request(queue)) }
	// Posts: dead, kept, parked, deferred, failed, leased, keyed, unique, delayed.
	put("dead", "kept", "parked", "deferred")
	h := next(f.QP)
	f.Settle(backend.Outcome{Hold: h, Dead: []backend.DeadLetter{{Message: h.Messages[0], Reason: "rotten"}}})
	h = next(f.QP)
	f.Settle(backend.Outcome{Hold: h, Done: h.Messages, Keep: years})
	f.Settle(backend.Outcome{Hold: next(f.QP), Park: "bad"})
	f.Settle(backend.Outcome{Hold: next(f.QP), Defer: years})
	put("leased", "failed")
	r := f.Request(f.QP)
	r.Lease = years
	f.One(r)
	h = next(f.QP)
	f.Settle(backend.Outcome{Hold: h, Failure: &backend.Failure{Message: h.Messages[0], Attempts: 2, Error: "once more"}})
	f.Post(backend.Posting{Queue: f.QP, Key: "k", Body: []byte("keyed 1")})
	f.Post(backend.Posting{Queue: f.QP, Key: "k", Body: []byte("keyed 2")})
	f.Post(backend.Posting{Queue: f.QP, Unique: "u", Body: []byte("unique")})
	f.Post(backend.Posting{Queue: f.QP, Delay: years, Body: []byte("delayed")})
	promoted := f.Post(backend.Posting{Queue: f.QP, Body: []byte("promoted")})
	f.Do(func(tx backend.Tx) error {
		return tx.Promote(f.Ctx, backend.Promotion{Group: promoted, Level: 7, Sticky: true})
	})

	// Conversations: pending, ended by each side, in error, withheld, with a timer.
	f.Send(f.Open().A.Handle, "one", "two")
	ended := f.Open()
	f.Send(ended.A.Handle, "last")
	f.Do(func(tx backend.Tx) error {
		if err := tx.LockGroup(f.Ctx, ended.A.Group); err != nil {
			return err
		}
		_, err := tx.EndDialog(f.Ctx, backend.End{Handle: ended.A.Handle, Kind: backend.EndPlain, MessageID: backend.NewID()})
		return err
	})
	failed := f.Open()
	f.Do(func(tx backend.Tx) error {
		return tx.Notice(f.Ctx, backend.Notice{To: failed.B.Handle, Kind: backend.KindError, Error: &backend.DialogError{Code: -1, Text: "broken"}})
	})
	timed := f.Open()
	f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, timed.A.Handle, years) })
	withheld := f.ends()
	f.Do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: withheld.A, NewGroup: true}); err != nil {
			return err
		}
		_, err := tx.Withhold(f.Ctx, []backend.Outgoing{Message(withheld.A.Handle, "withheld")}, "no target")
		return err
	})
	f.Do(func(tx backend.Tx) error { _, err := tx.Once(f.Ctx, "effect", years); return err })
	f.Do(func(tx backend.Tx) error {
		return tx.Submit(f.Ctx, "plan", backend.ScheduleOptions{Caller: "c", MaxAttempts: 5}, []backend.NewTask{
			{ID: backend.NewID(), Phase: 1, Type: "done"}, {ID: backend.NewID(), Phase: 2, Type: "queued"},
		})
	})
	f.Do(func(tx backend.Tx) error {
		tasks, err := tx.ClaimTasks(f.Ctx, backend.TaskClaim{Max: 1, Lease: time.Minute, Owner: "t"})
		if err == nil {
			err = tx.FinishTask(f.Ctx, tasks[0], backend.TaskOutcome{State: backend.TaskDone})
		}
		return err
	})
}

// everyStateThere checks that all of that is there, and that it goes on.
func everyStateThere(f *Fixture) {
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
	dead, err := f.Backend.DeadLetters(f.Ctx, f.QP, 10)
	f.OK(err)
	f.Equal("dead letters", len(dead), 1)
	got := f.Drain(f.QB)
	for _, body := range []string{"one", "two", "last"} {
		if !slices.Contains(got, body) {
			f.Errorf("%q is not among the messages %q", body, got)
		}
	}
	held, err := f.Backend.Withheld(f.Ctx, 10)
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

// Upgrade has rows of each older schema, in testdata/schema, become those of this one.
// With PARLEY_DUMP_SCHEMA=1 it writes there what this program leaves behind.
func Upgrade(t *testing.T, site func(t *testing.T) Site, literal Literals) {
	if os.Getenv("PARLEY_DUMP_SCHEMA") != "" {
		s := site(t)
		b := s.Open(t)
		if err := b.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := New(t, b)
		everyState(f)
		info, err := b.Info(t.Context())
		f.OK(err)
		var tables []string
		f.OK(s.Open(t).SetMigrations(func(files []string) []string {
			tables = made(files)
			return files
		}))
		name := filepath.Join("testdata", "schema", fmt.Sprint(info.Program)+".sql")
		f.OK(os.MkdirAll(filepath.Dir(name), 0o777))
		f.OK(os.WriteFile(name, []byte(dump(t, s.DB, s.Schema, tables, literal)), 0o666))
	}
	dumps, err := filepath.Glob(filepath.Join("testdata", "schema", "*.sql"))
	if err != nil || len(dumps) == 0 {
		t.Fatalf("there is nothing in testdata/schema: %v", err)
	}
	for _, name := range dumps {
		t.Run(filepath.Base(name), func(t *testing.T) { upgrade(t, site(t), name) })
	}
}

func upgrade(t *testing.T, s Site, name string) {
	ctx := t.Context()
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
	f := &Fixture{T: t, Ctx: ctx}
	f.OK(old.Migrate(ctx))
	s.Exec(t, string(text))
	f.Backend = s.Open(t)
	f.OK(f.Backend.Migrate(ctx))
	f.Do(func(tx backend.Tx) error {
		c, err := tx.Catalog(ctx, true)
		if err != nil {
			return err
		}
		f.learn(c)
		return nil
	})
	everyStateThere(f)
}

var createsTable = regexp.MustCompile(`(?m)^CREATE TABLE (?:IF NOT EXISTS )?parley_(\w+) \(`)

func made(files []string) (tables []string) {
	for _, m := range createsTable.FindAllStringSubmatch(strings.Join(files, "\n"), -1) {
		tables = append(tables, m[1])
	}
	return tables
}

// dump writes all rows but those that the schema's files make.
func dump(t *testing.T, db *sql.DB, dot string, tables []string, literal Literals) string {
	var b strings.Builder
	for _, table := range tables {
		if table == "lock_stripe" || table == "walk" {
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
			if table == "meta" {
				fmt.Fprintf(&b, "UPDATE parley_meta SET catalog_version = %s WHERE id = 1;\n", columns["catalog_version"])
				continue
			}
			names := slices.Sorted(maps.Keys(columns))
			var list []string
			for _, c := range names {
				list = append(list, columns[c])
			}
			line := fmt.Sprintf("INSERT INTO parley_%s (%s) VALUES (%s);\n", table, strings.Join(names, ", "), strings.Join(list, ", "))
			if !strings.Contains(line, "00000000-0000-0000-0000-") { // those are there for the planner
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
