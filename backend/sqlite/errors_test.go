package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlite"
)

// TestClassify has SQLite make the errors.
func TestClassify(t *testing.T) {
	file := path(t)
	b := open(t, file)
	holder, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	tx, err := holder.Begin()
	if err != nil {
		t.Fatal(err)
	}
	second, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_, err = second.Exec("CREATE TABLE x (y)")
	if !errors.Is(b.Classify(err), backend.ErrSerialization) {
		t.Errorf("locked: %v", b.Classify(err))
	}
	tx.Rollback()
	_, err = second.Exec("SELECT * FROM parley_nothing")
	if !errors.Is(b.Classify(err), backend.ErrNotMigrated) {
		t.Errorf("no such table: %v", b.Classify(err))
	}
	_, err = second.Exec("PRAGMA query_only = 1; CREATE TABLE z (y)")
	if !errors.Is(b.Classify(err), backend.ErrReadOnly) {
		t.Errorf("read-only: %v", b.Classify(err))
	}
	_, err = second.Exec("PRAGMA query_only = 0; PRAGMA max_page_count = 1; CREATE TABLE full AS SELECT zeroblob(1000000)")
	if !errors.Is(b.Classify(err), backend.ErrNoSpace) {
		t.Errorf("full: %v", b.Classify(err))
	}
	wrapped, e := parley.New(t.Context(), struct{ backend.Backend }{b}, nil)
	if e != nil || !wrapped.Unavailable(err) {
		t.Errorf("a Broker on the store behind a wrapper takes %q for one of the application: %v", err, e)
	}
	_, err = second.Exec("not SQL")
	if got := b.Classify(err); got != err {
		t.Errorf("not SQL: %v", got)
	}
	if _, err := sqlite.Open(t.Context(), "sqlite:"+t.TempDir()+"/no/such/folder/x.db", nil); !errors.Is(err, backend.ErrConnection) {
		t.Errorf("no such folder: %v", err)
	}
	if os.Geteuid() != 0 { // root may write what is read-only
		readonly := path(t)
		open(t, readonly).Close()
		if err := os.Chmod(readonly, 0o400); err != nil {
			t.Fatal(err)
		}
		b, err := sqlite.Open(t.Context(), "sqlite:"+readonly, nil)
		if err == nil {
			defer b.Close()
			err = b.Uninstall(t.Context())
		}
		if !errors.Is(err, backend.ErrReadOnly) {
			t.Errorf("a read-only file: %v", err)
		}
	}
}
