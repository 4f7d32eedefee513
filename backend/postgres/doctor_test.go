package postgres_test

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/doctortest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	doctortest.Run(t, func(t *testing.T) backend.Backend {
		return open(t, connect(t, "postgres", server(t)), postgres.Options{Schema: name})
	})
}

// finds is doctortest.Finds on a pool.
func finds(t *testing.T, db *sql.DB, o postgres.Options, code, object string) string {
	t.Helper()
	return doctortest.Finds(t, postgres.New(db, &o), code, object)
}

// with is a data source name with one more parameter.
func with(t *testing.T, dsn, name, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// TestSetUp damages a store and takes privileges away, and looks whether doctor
// says so.
func TestSetUp(t *testing.T) {
	db := connect(t, "postgres", server(t))
	o := postgres.Options{Schema: schema(t, db), Listen: server(t)}
	open(t, db, o)
	exec := func(q string) {
		t.Helper()
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	finds(t, db, o, "", "")

	role := o.Schema + "_role"
	exec("CREATE ROLE " + role)
	t.Cleanup(func() {
		db.Exec("DROP OWNED BY " + role)
		db.Exec("DROP ROLE " + role)
	})
	exec("GRANT USAGE ON SCHEMA " + o.Schema + " TO " + role)
	exec("GRANT SELECT ON ALL TABLES IN SCHEMA " + o.Schema + " TO " + role)
	exec("GRANT UPDATE ON " + o.Schema + ".parley_post TO " + role)
	other := connect(t, "postgres", with(t, server(t), "role", role))
	for table, want := range map[string]string{"parley_post": "INSERT, DELETE", "parley_grp": "INSERT, UPDATE, DELETE"} {
		if got := finds(t, other, o, backend.WarnGrant, table); got != "the role may not "+want {
			t.Errorf("of table %s: %s, want %s", table, got, want)
		}
	}
	exec("REVOKE ALL ON " + o.Schema + ".parley_meta FROM " + role)
	finds(t, other, o, "store.error", "store") // not even the version can be read

	readonly := connect(t, "postgres", with(t, server(t), "default_transaction_read_only", "on"))
	finds(t, readonly, o, backend.WarnReadOnly, "postgres")
	finds(t, connect(t, "postgres", with(t, server(t), "default_transaction_isolation", "serializable")), o, backend.WarnIsolation, "postgres")
	finds(t, connect(t, "postgres", with(t, server(t), "synchronous_commit", "off")), o, backend.WarnDurability, "postgres")

	exec("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" + o.Schema + ".parley_post_order'::regclass")
	if got := finds(t, db, o, backend.WarnIndex, "parley_post.parley_post_order"); !strings.Contains(got, "not valid") {
		t.Errorf("of an index that is not valid: %s", got)
	}
	exec("DROP INDEX " + o.Schema + ".parley_post_order")
	if got := finds(t, db, o, backend.WarnIndex, "parley_post.parley_post_order"); !strings.Contains(got, "not there") {
		t.Errorf("of an index that is not there: %s", got)
	}
	exec("DROP TABLE " + o.Schema + ".parley_post CASCADE")
	finds(t, db, o, backend.WarnTable, "parley_post")
	finds(t, db, o, "store.error", "store")
}

// TestListener: notifications arrive where they can, and doctor says where not.
func TestListener(t *testing.T) {
	db := connect(t, "postgres", server(t))
	o := postgres.Options{Schema: schema(t, db)}
	open(t, db, o)
	finds(t, db, o, backend.WarnListener, "postgres")
	heard := func(what string, db *sql.DB, o postgres.Options, want bool) {
		t.Helper()
		info, err := postgres.New(db, &o).Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range info.Warnings {
			if w.Code == backend.WarnListener {
				if want {
					t.Errorf("%s: %v", what, w)
				}
				return
			}
		}
		if !want {
			t.Errorf("%s: no warning", what)
		}
	}
	listening := o
	listening.Listen = server(t)
	heard("lib/pq with Listen", db, listening, true)
	heard("pgx", connect(t, "pgx", server(t)), o, true)

	bouncer := os.Getenv("PARLEY_TEST_PGBOUNCER")
	if bouncer == "" {
		t.Skip("PARLEY_TEST_PGBOUNCER is not set")
	}
	pooled := connect(t, "postgres", bouncer)
	finds(t, pooled, o, backend.WarnPooler, "postgres")
	heard("through a pooler", pooled, listening, true)
	listening.Listen = bouncer
	heard("listening through a pooler", pooled, listening, false)
}
