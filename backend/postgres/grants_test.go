package postgres_test

import (
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/internal/roletest"
)

// TestRoles: each role can do its work with the rights that Grants prints, and nothing
// that is another's.
func TestRoles(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	var granted string
	var seen *backendtest.Counter
	roletest.Run(t, roletest.Site{
		Owner: func(t *testing.T) backend.Backend {
			return postgres.New(connect(t, "postgres", server(t)), &postgres.Options{Schema: name})
		},
		As: func(t *testing.T, role backend.Role, grants func(string) string) backend.Backend {
			account := name + "_" + string(role)
			t.Cleanup(func() {
				for _, q := range []string{"DROP OWNED BY " + account, "DROP ROLE " + account} {
					if _, err := db.Exec(q); err != nil {
						t.Error(err)
					}
				}
			})
			granted = grants(account)
			if _, err := db.Exec("CREATE ROLE " + account + ";" + granted); err != nil {
				t.Fatal(err)
			}
			connector, err := pq.NewConnector(with(t, server(t), "role", account))
			if err != nil {
				t.Fatal(err)
			}
			var counted *sql.DB
			counted, seen = backendtest.Count(connector)
			t.Cleanup(func() { counted.Close() })
			return postgres.New(counted, &postgres.Options{Schema: name})
		},
		Played: func(t *testing.T) { unused(t, granted, seen.Take()) },
		Bodies: []string{
			"SELECT body FROM " + name + ".parley_message", "SELECT body FROM " + name + ".parley_post",
			"SELECT body FROM " + name + ".parley_messages",
		},
	})
}

var (
	granting = regexp.MustCompile(`(?m)^GRANT ([A-Z, ]+) ON \S+\.parley_(\w+) TO`)
	touching = regexp.MustCompile(`(INSERT INTO|UPDATE|DELETE FROM|FROM|JOIN) \S+\.parley_(\w+)`)
	locking  = regexp.MustCompile(`FOR (NO KEY )?UPDATE|ON CONFLICT [^;]*DO UPDATE`)
	reading  = regexp.MustCompile(`ON CONFLICT \(`)
)

// rarely are rights for what takes too long to wait for.
var rarely = []string{
	"DELETE key",                  // of a worker, whose job removes keys that have not been used for a minute
	"UPDATE walk",                 // of a worker, where a table has more than a page to walk through
	"UPDATE held",                 // of a worker, that sends again what a dialog in error has left
	"INSERT key", "INSERT stream", // of an operator, who requeues a dead letter whose key has been removed
}

var views = []string{"queues", "groups", "messages", "conversations", "dead", "executions", "locks"}

// unused fails the test if a right was granted that no statement needs. Views are for
// people to look at.
func unused(t *testing.T, granted string, statements []string) {
	t.Helper()
	used := map[string]bool{}
	for _, text := range statements {
		for _, m := range touching.FindAllStringSubmatch(text, -1) {
			verb, table := strings.Fields(m[1])[0], m[2]
			switch verb {
			case "UPDATE", "DELETE", "INSERT":
				used[verb+" "+table] = true
			}
			if verb != "INSERT" || reading.MatchString(text) {
				used["SELECT "+table] = true
			}
			if locking.MatchString(text) {
				used["UPDATE "+table] = true
			}
		}
	}
	for _, m := range granting.FindAllStringSubmatch(granted, -1) {
		for right := range strings.SplitSeq(m[1], ", ") {
			if what := right + " " + m[2]; !used[what] && !slices.Contains(views, m[2]) && !slices.Contains(rarely, what) {
				t.Errorf("%s is granted and not needed", what)
			}
		}
	}
}

// account makes a role that can log in by SET ROLE, until the test ends, and returns a
// pool of it.
func account(t *testing.T, db *sql.DB, name string) *sql.DB {
	t.Helper()
	if _, err := db.Exec("CREATE ROLE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec("DROP OWNED BY " + name + "; DROP ROLE " + name); err != nil {
			t.Error(err)
		}
	})
	return connect(t, "postgres", with(t, server(t), "role", name))
}

// denied fails the test unless the server has refused it.
func denied(t *testing.T, what string, err error) {
	t.Helper()
	var e *pq.Error
	if !errors.As(err, &e) || e.Code != "42501" {
		t.Errorf("%s: error %v, want 42501", what, err)
	}
}

// TestPoster: to post by plain SQL takes EXECUTE alone, and nothing that the caller makes
// can lead the function to other tables or functions.
func TestPoster(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	b := open(t, db, postgres.Options{Schema: name})
	f := backendtest.New(t, b)
	statements, err := b.Grants(t.Context(), backend.RolePoster, name+"_poster")
	f.OK(err)
	poster := account(t, db, name+"_poster")
	poster.SetMaxOpenConns(1) // its temporary objects are those of its session
	stranger := account(t, db, name+"_stranger")
	for _, q := range []string{statements, "GRANT USAGE ON SCHEMA " + name + " TO " + name + "_stranger"} {
		_, err := db.Exec(q)
		f.OK(err)
	}
	post := func(db *sql.DB, key string) error {
		_, err := db.Exec("SELECT "+name+".parley_post('qp', 'DEFAULT', 'x', $1)", key)
		return err
	}
	headed := func(db *sql.DB, key string) error {
		_, err := db.Exec("SELECT "+name+`.parley_post('qp', 'DEFAULT', 'x', $1, '{"a": "b"}')`, key)
		return err
	}
	for _, q := range []string{
		"CREATE TEMP TABLE parley_queue (queue_id bigint, name text, enabled smallint)",
		"CREATE FUNCTION pg_temp.replace(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT NULL'",
		"SET search_path = pg_temp, pg_catalog",
	} {
		_, err := poster.Exec(q)
		f.OK(err)
	}
	for _, key := range []string{"", "k", "k"} {
		f.OK(post(poster, key))
		f.OK(headed(poster, key))
	}
	f.Equal("posts", len(f.Drain(f.QP)), 6)
	denied(t, "a post of a role without EXECUTE", post(stranger, ""))
	denied(t, "a post with headers of a role without EXECUTE", headed(stranger, ""))
	for _, q := range []string{
		"SELECT body FROM " + name + ".parley_post", "SELECT body FROM " + name + ".parley_messages",
		"INSERT INTO " + name + ".parley_post (post_id) VALUES (gen_random_uuid())", "DELETE FROM " + name + ".parley_post",
	} {
		_, err := poster.Exec(q)
		denied(t, q, err)
	}
}

// TestCallersKeepPosting: one step of the migration lets parley_post work with its owner's rights.
// After it only roles whose calls could succeed before have EXECUTE.
func TestCallersKeepPosting(t *testing.T) {
	db := connect(t, "postgres", server(t))
	s := site(t)
	old := s.Open(t)
	f := &backendtest.Fixture{T: t, Ctx: t.Context()}
	f.OK(old.SetMigrations(func(files []string) []string {
		return files[:slices.IndexFunc(files, func(text string) bool { return strings.Contains(text, "SECURITY DEFINER") })]
	}))
	f.OK(old.Migrate(f.Ctx))
	home := strings.TrimSuffix(s.Schema, ".")
	whole, columns, granted, other := home+"_whole", home+"_columns", home+"_granted", home+"_other"
	pools := map[string]*sql.DB{}
	for _, name := range []string{whole, columns, granted, other} {
		pools[name] = account(t, db, name)
		s.Exec(t, "GRANT USAGE ON SCHEMA "+home+" TO "+name)
	}
	s.Exec(t, `GRANT INSERT ON parley_post TO `+whole+`;
		GRANT INSERT (post_id, queue_id, priority, since, type, body) ON parley_post TO `+columns+`;
		GRANT EXECUTE ON FUNCTION parley_post(text, text, bytea, text) TO `+granted)
	f.Backend = s.Open(t)
	f.OK(f.Backend.Migrate(f.Ctx))
	f.Define(&backend.Catalog{Queues: []backend.Queue{{Name: "qp"}}})
	for name, db := range pools {
		_, err := db.Exec("SELECT " + s.Schema + "parley_post('qp', 'DEFAULT', 'x')")
		if name == other {
			denied(t, "a post of a role that could not post", err)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
