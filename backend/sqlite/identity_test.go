package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/sqlite"
)

// TestFileReplaced deletes a file in use, or replaces it by another file. Later writes to it are
// not reported as done, and nothing is read from the other file.
func TestFileReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can be neither deleted nor replaced")
	}
	remove := func(file string) error { return os.Remove(file) }
	replace := func(file string) error {
		open(t, filepath.Join(filepath.Dir(file), "other.db")).Close()
		return os.Rename(filepath.Join(filepath.Dir(file), "other.db"), file)
	}
	for name, vanish := range map[string]func(string) error{"deleted": remove, "replaced": replace} {
		t.Run(name, func(t *testing.T) {
			file := path(t)
			b := open(t, file)
			f := backendtest.New(t, b)
			post := func(tx backend.Tx) error {
				_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{{ID: backend.NewID(), Queue: f.QP, Type: "m", Rank: 5}})
				return err
			}
			f.Do(post)
			tx := f.Begin()
			f.OK(post(tx))
			f.OK(vanish(file))
			f.Is(tx.Commit(f.Ctx), backend.ErrReplaced)
			f.Is(f.Try(post), backend.ErrReplaced)
			_, err := b.Queues(f.Ctx, 0)
			f.Is(err, backend.ErrReplaced)
			f.Is(b.Migrate(f.Ctx), backend.ErrReplaced)
		})
	}
}

// TestForeignFile: to look at a database that is not Parley's changes nothing of it.
func TestForeignFile(t *testing.T) {
	file := path(t)
	db := user(t, file)
	if _, err := db.Exec("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlite.Open(t.Context(), "sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); !errors.Is(err, backend.ErrNotMigrated) {
		t.Errorf("Check: %v", err)
	}
	if _, err := b.Info(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := b.Begin(t.Context()); !errors.Is(err, backend.ErrNotMigrated) {
		t.Errorf("Begin: %v", err)
	}
	b.Close()
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, %v", err)
	}
	if list, _ := filepath.Glob(file + "-*"); len(list) > 0 {
		t.Errorf("there are %v now", list)
	}
	b = open(t, file)
	if info, err := b.Info(t.Context()); err != nil || info.Settings["journal_mode"] != "wal" {
		t.Errorf("after Migrate: %v, %v", info.Settings, err)
	}
}
