package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cgo is a driver that looks like a driver with its own copy of SQLite.
type cgo struct{ driver.Driver }

func (d cgo) Open(name string) (driver.Conn, error) {
	c, err := d.Driver.Open(name)
	return cgoConn{c}, err
}

type cgoConn struct{ driver.Conn }

func (c cgoConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if query == copyOf {
		query = "SELECT 'another copy'"
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

// TestOtherCopy: a handle of a driver that has another copy of SQLite is refused before the store opens the file.
func TestOtherCopy(t *testing.T) {
	plain, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	name := filepath.Join(t.TempDir(), "app.db")
	db := sql.OpenDB(connector{cgo{plain.Driver()}, name})
	defer db.Close()
	s := New(db, nil)
	defer s.Close()
	if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "sqlite.cgo") || !strings.Contains(err.Error(), "modernc.org/sqlite") {
		t.Errorf("the error is %v, want an error that names both drivers", err)
	}
	if _, err := os.Stat(name + "-wal"); err == nil {
		t.Error("the file is in WAL mode, so the store has opened it")
	}
}
