package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/parleymq/parley/backend"
)

// classify returns the sentinel that fits an error by its result code, nil if
// there is none. The low byte of a code is its primary code
// (https://www.sqlite.org/rescode.html).
func classify(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		// After the busy timeout, or at once where waiting would not help: a
		// transaction that has read before another one wrote cannot write.
		return backend.ErrSerialization
	case lib.SQLITE_READONLY:
		return backend.ErrReadOnly
	case lib.SQLITE_FULL:
		return backend.ErrNoSpace
	case lib.SQLITE_TOOBIG:
		return backend.ErrTooLarge
	case lib.SQLITE_CANTOPEN, lib.SQLITE_IOERR:
		return backend.ErrConnection
	case lib.SQLITE_ERROR:
		// There is no code for a missing table, only SQLITE_ERROR for all that
		// is wrong with a statement. Ours are only wrong in this way.
		if strings.Contains(e.Error(), "no such table") || strings.Contains(e.Error(), "no such view") {
			return backend.ErrNotMigrated
		}
	}
	return nil
}

// outdated reports whether a connection cannot write since it reads what was there before another one wrote.
func outdated(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code() == lib.SQLITE_BUSY_SNAPSHOT
}

// placed says of an error which file could not be opened, and why. SQLite says neither.
func placed(path string, err error) error {
	var e *driver.Error
	if !errors.As(err, &e) || e.Code()&0xff != lib.SQLITE_CANTOPEN {
		return err
	}
	if _, why := os.Stat(filepath.Dir(path)); why != nil {
		return fmt.Errorf("parley: sqlite: no folder for %q: %w", path, why)
	}
	file, why := os.OpenFile(path, os.O_RDWR, 0)
	if why != nil {
		return fmt.Errorf("parley: sqlite: %w", why)
	}
	file.Close()
	return fmt.Errorf("parley: sqlite: %q: %w", path, err)
}

// endsTransaction reports whether an error may have made SQLite roll back by itself. The manual
// says so of SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM, SQLITE_BUSY and SQLITE_INTERRUPT. An explicit
// ROLLBACK after them "will fail with an error, but no harm is caused by this"
// (https://www.sqlite.org/lang_transaction.html).
func endsTransaction(err error) bool {
	var e *driver.Error
	if !errors.As(err, &e) {
		return true // the context's, or the connection's
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_NOMEM, lib.SQLITE_BUSY, lib.SQLITE_INTERRUPT, lib.SQLITE_CORRUPT:
		return true
	}
	return false
}
