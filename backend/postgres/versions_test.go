package postgres_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// site is a schema without tables.
func site(t *testing.T) backendtest.Site { return siteOn(t, connect(t, "postgres", server(t))) }

// lonely is a site in a separate database, where no other test has a snapshot.
func lonely(t *testing.T) backendtest.Site {
	db, name := connect(t, "postgres", server(t)), backendtest.Name()
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return siteOn(t, connect(t, "postgres", u.String()))
}

func siteOn(t *testing.T, db *sql.DB) backendtest.Site {
	name := schema(t, db)
	return backendtest.Site{
		RandomID: "gen_random_uuid()",
		DB:       db,
		Schema:   name + ".",
		Open: func(t *testing.T) backendtest.Versioned {
			b := postgres.New(db, &postgres.Options{Schema: name, Pooler: postgres.PoolerNever})
			t.Cleanup(func() { b.Close() })
			return b
		},
		Empty: func(t *testing.T) {
			t.Helper()
			tables := backendtest.Texts(t, db, `
				SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
				 WHERE schemaname = '`+name+`' AND tablename NOT IN ('parley_meta', 'parley_lock_stripe')`)
			if len(tables) < 20 {
				t.Fatalf("tables %q", tables)
			}
			if _, err := db.Exec("TRUNCATE " + strings.Join(tables, ", ")); err != nil {
				t.Fatal(err)
			}
		},
		Exec: func(t *testing.T, text string) {
			t.Helper()
			if _, err := db.Exec("SET search_path = " + name + "; " + text + "; RESET search_path"); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	backendtest.Versions(t, site)
}

func TestDue(t *testing.T) { backendtest.Due(t, site) }

// later opens a program with one more file of the schema.
func later(t *testing.T, s backendtest.Site, file string) backendtest.Versioned {
	t.Helper()
	b := s.Open(t)
	err := b.SetMigrations(func(files []string) []string {
		n := len(files)
		return append(files[:n:n], fmt.Sprintf("%sUPDATE parley_meta SET schema_version = %d;\n", file, n+1))
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const online = `
-- step: online
CREATE INDEX CONCURRENTLY parley_post_later ON parley_post (queue_id);
`

// TestInvalidIndex: an index that a migration was interrupted at is rebuilt, and so
// is one of the schema's that is found to be invalid.
func TestInvalidIndex(t *testing.T) {
	ctx := t.Context()
	s := lonely(t)
	now := s.Open(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(now.Migrate(ctx))
	invalid := func(index string) {
		t.Helper()
		s.Exec(t, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"+index+"'::regclass")
	}
	valid := func(b backend.Backend) {
		t.Helper()
		info, err := b.Info(ctx)
		must(err)
		for _, w := range info.Warnings {
			if w.Code == backend.WarnIndex {
				t.Errorf("%s: %s", w.Object, w.Text)
			}
		}
	}
	invalid("parley_post_order")
	must(s.Open(t).Migrate(ctx))
	valid(now)

	s.Exec(t, "CREATE INDEX parley_post_later ON parley_post (queue_id)")
	invalid("parley_post_later")
	next := later(t, s, online)
	must(next.Migrate(ctx))
	must(next.Check(ctx))
	s.Exec(t, "DO $$ BEGIN ASSERT (SELECT indisvalid FROM pg_index WHERE indexrelid = 'parley_post_later'::regclass); END $$")

	fresh := later(t, lonely(t), online)
	must(fresh.Migrate(ctx))
	must(fresh.Check(ctx))
}

// TestMigrationLetsOthersPass: a step that waits for a lock gives up, which lets those
// pass who wait behind it, and tries again.
func TestMigrationLetsOthersPass(t *testing.T) {
	ctx := t.Context()
	s := site(t)
	now := s.Open(t)
	if err := now.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	f := backendtest.New(t, now)
	reader := f.Begin()
	if _, err := reader.SQL().ExecContext(ctx, "SELECT count(*) FROM "+schemaOf(t, now)+".parley_post"); err != nil {
		t.Fatal(err)
	}
	next := later(t, s, "ALTER TABLE parley_post ADD COLUMN later integer;\n")
	again, done := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		done <- next.MigrateWith(ctx, backend.MigrateOptions{Report: func(text string) {
			if text == "others are in the way: trying again" {
				again <- struct{}{}
			}
		}})
	}()
	select {
	case <-again:
	case err := <-done:
		t.Fatalf("the migration ended while a reader was in its way: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the migration waits for a reader without giving up")
	}
	f.Post(backend.Posting{Body: []byte("x")}) // behind the step, which waits again
	f.OK(reader.Rollback(ctx))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f.Equal("received", f.Drain(f.QP), []string{"x"})
}

func schemaOf(t *testing.T, b backend.Backend) string {
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Settings["schema"]
}
