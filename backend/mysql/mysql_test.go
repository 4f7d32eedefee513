package mysql_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"net/url"
	"sync"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
)

// servers are the two engines, by the variables with their URLs.
var servers = []struct{ name, variable string }{
	{"mariadb", "PARLEY_TEST_MARIADB"},
	{"mysql", "PARLEY_TEST_MYSQL"},
}

// each runs a test on both servers, which work side by side.
func each(t *testing.T, test func(t *testing.T, server string)) {
	var both sync.WaitGroup
	for _, s := range servers {
		both.Go(func() {
			t.Run(s.name, func(t *testing.T) {
				test(t, backendtest.Server(t, s.name, s.variable, "the URL of a database for tests"))
			})
		})
	}
	both.Wait()
}

// name is what the driver calls a database.
func name(t testing.TB, server, database string, set func(*driver.Config)) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	c := driver.NewConfig()
	c.Net, c.Addr, c.DBName, c.User = "tcp", u.Host, database, u.User.Username()
	c.Passwd, _ = u.User.Password()
	if set != nil {
		set(c)
	}
	return c.FormatDSN()
}

// connect opens a pool.
func connect(t testing.TB, server, database string, set func(*driver.Config)) *sql.DB {
	t.Helper()
	return backendtest.Connect(t, "mysql", name(t, server, database, set))
}

// connector makes connections to a fresh database.
func connector(t *testing.T, server string, set func(*driver.Config)) sqldriver.Connector {
	t.Helper()
	return connectorTo(t, server, database(t, server), set)
}

// connectorTo makes connections to a database.
func connectorTo(t *testing.T, server, database string, set func(*driver.Config)) sqldriver.Connector {
	t.Helper()
	config, err := driver.ParseDSN(name(t, server, database, set))
	if err != nil {
		t.Fatal(err)
	}
	made, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// rewriting opens a pool on a fresh database. The function gets each statement before the server does.
func rewriting(t *testing.T, server string, rewrite func(query string) string) *sql.DB {
	t.Helper()
	db := backendtest.Rewrite(connector(t, server, nil), rewrite)
	t.Cleanup(func() { db.Close() })
	return db
}

// database makes a database that is the test's own.
func database(t testing.TB, server string) string {
	t.Helper()
	name := backendtest.Name()
	db := connect(t, server, "", nil)
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The pools of the test are closed before this one, but what the server was
		// told to end may still be ending.
		if _, err := db.Exec("DROP DATABASE " + name); err != nil {
			t.Error(err)
		}
	})
	return name
}

// in is the URL of a database of the server.
func in(t testing.TB, server, database string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}

// open returns a migrated store on a pool.
func open(t testing.TB, db *sql.DB, o *mysql.Options) *mysql.Store {
	t.Helper()
	b := mysql.New(db, o)
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return b
}

// emptied returns a function that opens empty stores one after the other, in one database. Creating
// the tables takes far longer than most tests.
func emptied(t testing.TB, server, base string, set func(*driver.Config)) func(t *testing.T) (*mysql.Store, *sql.DB) {
	t.Helper()
	open(t, connect(t, server, base, nil), nil)
	return func(t *testing.T) (*mysql.Store, *sql.DB) {
		t.Helper()
		db := connect(t, server, base, set)
		empty(t, connect(t, server, base, nil))
		return open(t, db, nil), db
	}
}

// empty removes all rows but those that a migration makes.
func empty(t *testing.T, db *sql.DB) {
	t.Helper()
	tables := backendtest.Texts(t, db, `
		SELECT table_name FROM information_schema.tables
		 WHERE table_schema = database() AND table_type = 'BASE TABLE'
		   AND table_name NOT IN ('parley_meta', 'parley_lock_stripe')`)
	if len(tables) < 20 {
		t.Fatalf("tables %q", tables)
	}
	for _, name := range tables {
		if _, err := db.Exec("DELETE FROM " + name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBackend(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		next := emptied(t, server, database(t, server), nil)
		backendtest.Run(t, func(t *testing.T) backend.Backend { b, _ := next(t); return b })
	})
}
