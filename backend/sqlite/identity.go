package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// identity tells whether the path still leads to the file that was opened. An open file that was
// deleted or replaced can still be written to, and all of that vanishes when it is closed: "if a
// database file is unlinked or renamed while in use, … behavior is undefined and probably
// undesirable" (How To Corrupt An SQLite Database File).
type identity struct {
	path string
	was  fs.FileInfo // nil where the database is in no file
	lost atomic.Bool
}

// identify remembers which file it is.
func (p *pool) identify() {
	path, err := filepath.Abs(p.path) // the program may change its directory
	if err != nil || p.params.Has("vfs") {
		return
	}
	if was, err := os.Stat(path); err == nil {
		p.identity.path, p.identity.was = path, was
	}
}

var errReplaced = errors.New("restore the database's file and restart the program")

// same returns an error if the file is no longer the same, and keeps returning it, because new
// connections would be to another database. It costs one call of the operating system.
func (p *pool) same() error {
	i := &p.identity
	if i.was == nil {
		return nil
	}
	if !i.lost.Load() {
		now, err := os.Stat(i.path)
		if err == nil && os.SameFile(now, i.was) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		i.lost.Store(true)
	}
	return sqlstore.Classified(backend.ErrReplaced, errReplaced)
}
