package mysql_test

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/roletest"
)

// TestRoles: each role can do its work with the rights that Grants prints, and nothing
// that is another's.
func TestRoles(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		base := database(t, server)
		db := connect(t, server, base, nil)
		roletest.Run(t, roletest.Site{
			Owner: func(t *testing.T) backend.Backend { return mysql.New(connect(t, server, base, nil), nil) },
			As: func(t *testing.T, role backend.Role, grants func(string) string) backend.Backend {
				return mysql.New(account(t, server, db, base, base+"_"+string(role), grants), nil)
			},
			Bodies: []string{"SELECT body FROM parley_message", "SELECT body FROM parley_post", "SELECT body FROM parley_messages"},
		})
	})
}

// account makes an account with rights, until the test ends, and returns a pool of it.
func account(t *testing.T, server string, db *sql.DB, base, name string, grants func(account string) string) *sql.DB {
	t.Helper()
	_, statements, _ := strings.Cut(strings.TrimSpace(grants(name)), "\n") // a comment comes first
	t.Cleanup(func() {
		if _, err := db.Exec("DROP USER " + name); err != nil {
			t.Error(err)
		}
	})
	for q := range strings.SplitSeq("CREATE USER "+name+" IDENTIFIED BY 'secret-1'\n"+statements, "\n") {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret-1")
	return connect(t, u.String(), base, func(c *driver.Config) { c.AllowNativePasswords = true })
}

// TestPoster: to post by plain SQL takes EXECUTE alone.
func TestPoster(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		base := database(t, server)
		db := connect(t, server, base, nil)
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		poster := account(t, server, db, base, base+"_poster", func(account string) string {
			statements, err := b.Grants(t.Context(), backend.RolePoster, account)
			f.OK(err)
			return statements
		})
		for _, key := range []string{"", "k", "k"} {
			_, err := poster.Exec("CALL parley_post('qp', 'DEFAULT', 'x', ?)", key)
			f.OK(err)
			_, err = poster.Exec(`CALL parley_post_with_headers('qp', 'DEFAULT', 'x', ?, '{"a": "b"}')`, key)
			f.OK(err)
		}
		f.Equal("posts", len(f.Drain(f.QP)), 6)
		for _, q := range []string{
			"SELECT body FROM parley_post", "SELECT body FROM parley_messages", "DELETE FROM parley_post",
			"INSERT INTO parley_post (post_id, queue_id) VALUES (x'00', 1)",
		} {
			_, err := poster.Exec(q)
			f.Is(b.Classify(err), backend.ErrDenied)
		}
		stranger := account(t, server, db, base, base+"_stranger", func(account string) string {
			return "--\nGRANT SELECT ON " + base + ".parley_meta TO " + account
		})
		for _, call := range []string{"CALL parley_post('qp', 'DEFAULT', 'x', '')", "CALL parley_post_with_headers('qp', 'DEFAULT', 'x', '', '{}')"} {
			_, err := stranger.Exec(call)
			f.Is(b.Classify(err), backend.ErrDenied)
		}
	})
}
