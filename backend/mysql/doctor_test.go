package mysql_test

import (
	"database/sql"
	"net/url"
	"slices"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/doctortest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server string) {
		t.Parallel()
		base := database(t, server)
		open(t, connect(t, server, base, nil), nil)
		doctortest.Run(t, func(t *testing.T) backend.Backend {
			b := mysql.New(connect(t, server, base, nil), nil)
			t.Cleanup(func() { b.Close() })
			return b
		})
	})
}

// TestSetUp damages a store and takes privileges away, and looks whether doctor
// says so.
func TestSetUp(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		base := database(t, server)
		db := connect(t, server, base, nil)
		open(t, db, nil)
		find := func(db *sql.DB, code, object string) string {
			t.Helper()
			return doctortest.Finds(t, mysql.New(db, nil), code, object)
		}
		exec := func(q string) {
			t.Helper()
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
		find(db, "", "")

		role := base
		exec("CREATE USER " + role + " IDENTIFIED BY 'secret-1'")
		t.Cleanup(func() { db.Exec("DROP USER " + role) })
		exec("GRANT ALL ON " + base + ".* TO " + role)
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "secret-1")
		other := connect(t, u.String(), base, func(c *driver.Config) { c.AllowNativePasswords = true })
		find(other, "", "")
		exec("REVOKE ALL ON " + base + ".* FROM " + role)
		exec("GRANT SELECT ON " + base + ".* TO " + role)
		exec("GRANT UPDATE ON " + base + ".parley_post TO " + role)
		other.SetMaxIdleConns(0) // grants of databases are those of when it was chosen
		for table, want := range map[string]string{"parley_post": "INSERT, DELETE", "parley_grp": "INSERT, UPDATE, DELETE"} {
			if got := find(other, backend.WarnGrant, table); got != "the role may not "+want {
				t.Errorf("of table %s: %s, want %s", table, got, want)
			}
		}

		exec("DROP INDEX place ON parley_post")
		if got := find(db, backend.WarnIndex, "parley_post.place"); !strings.HasSuffix(got, "fails") {
			t.Errorf("of an index that statements name: %s", got)
		}
		exec("DROP TABLE parley_post")
		find(db, backend.WarnTable, "parley_post")
		find(db, "store.error", "store")
	})
}

// TestDurability: the servers for tests do not wait for the disk.
func TestDurability(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		var flush string
		if err := db.QueryRow("SELECT @@innodb_flush_log_at_trx_commit").Scan(&flush); err != nil {
			t.Fatal(err)
		}
		info, err := open(t, db, nil).Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(info.Warnings, func(w backend.Warning) bool {
			return w.Code == backend.WarnDurability && strings.Contains(w.Text, "innodb_flush")
		})
		if warned != (flush != "1") {
			t.Errorf("innodb_flush_log_at_trx_commit is %s: %v", flush, info.Warnings)
		}
	})
}

// TestGroupConsistency: doctor warns of a replication group whose new primary does not wait until it has caught up. The
// server is none; it answers as one would.
func TestGroupConsistency(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		for _, consistency := range []string{"EVENTUAL", "BEFORE_ON_PRIMARY_FAILOVER"} {
			db := rewriting(t, server, func(query string) string {
				if !strings.Contains(query, "'group_replication_consistency'") {
					return query
				}
				return "SELECT 'version', VERSION() UNION SELECT 'group_replication_group_name', 'a group'" +
					" UNION SELECT 'group_replication_consistency', '" + consistency + "'"
			})
			info, err := open(t, db, nil).Info(t.Context())
			warned := slices.ContainsFunc(info.Warnings, func(w backend.Warning) bool {
				return w.Code == backend.WarnCluster && strings.Contains(w.Text, consistency)
			})
			if err != nil || warned != (consistency == "EVENTUAL") {
				t.Errorf("%s: warnings %v, %v", consistency, info.Warnings, err)
			}
		}
	})
}
