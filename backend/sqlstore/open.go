package sqlstore

import (
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// This file has what the engines' packages do in the same way when they make a
// store and when they describe it.

// Pooled is a store on a pool of connections, each of which can hold what it
// has claimed for as long as its transaction lasts.
type Pooled struct {
	*Store
	db *sql.DB
}

// OnPool says on which pool a store is.
func OnPool(s *Store, db *sql.DB) Pooled { return Pooled{s, db} }

// Capabilities implements backend.Backend.
func (p Pooled) Capabilities() backend.Capabilities {
	c := p.Store.Capabilities()
	c.HoldsInTransaction, c.Pool, c.TransactionLimiter = true, p, p
	c.IdleClosed = func() int64 { return p.db.Stats().MaxIdleClosed }
	return c
}

// MaxConns implements backend.Pool.
func (p Pooled) MaxConns() int { return p.conns() }

// OpenPool opens a pool of conns connections, 16 if that is 0, and keeps them
// open. It bounds how long connecting takes.
func OpenPool(c driver.Connector, conns int) *sql.DB {
	if conns <= 0 {
		conns = 16
	}
	db := sql.OpenDB(Bounded(c))
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// ParseURL reads a data source name that is a URL. Its errors quote nothing of the name. Errors of
// url.Parse quote what it cannot read. That may be the password, which often has characters that
// must be escaped in a URL.
func ParseURL(engine, dsn string) (*url.URL, error) {
	u, err := url.Parse(dsn)
	if err == nil {
		_, err = url.ParseQuery(u.RawQuery)
	}
	if err != nil || u.Host == "" && u.Opaque != "" ||
		u.User == nil && strings.Contains(u.Path, "@") || strings.Contains(u.Fragment, "@") {
		return nil, errors.New("parley: " + engine + ": the name is no URL: write it like scheme://user:password@host/database," +
			" with %, /, ?, #, @ and spaces in a password as %25, %2F, %3F, %23, %40 and %20")
	}
	return u, nil
}

// TakeParams takes Parley's own parameters out of those of a data source name. It refuses
// unknown parameters that begin like them: a misspelt one would be ignored, and the program
// would work in the wrong tables.
func TakeParams(q url.Values, to map[string]*string) error {
	for name, value := range to {
		if v := q.Get(name); v != "" {
			*value = v
		}
		q.Del(name)
	}
	for name := range q {
		if strings.HasPrefix(strings.ToLower(name), "parley_") {
			known := slices.Sorted(maps.Keys(to))
			known = slices.DeleteFunc(known, func(n string) bool { return !strings.HasPrefix(n, "parley_") })
			return fmt.Errorf("parley: this engine has no parameter %s; it has %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// TakeConns sets the limit of a pool by a parameter of a data source name.
func TakeConns(param string, to *int) error {
	if param == "" {
		return nil
	}
	n, err := strconv.Atoi(param)
	if err != nil || n < 1 {
		return fmt.Errorf("parley_max_conns=%s: want a number above zero", param)
	}
	*to = n
	return nil
}

// Files returns what is in schema/0*.sql, in the order of the files' names.
func Files(schema embed.FS) (files []string) {
	names, err := fs.Glob(schema, "schema/0*.sql")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for _, name := range names {
		text, err := schema.ReadFile(name)
		if err != nil {
			panic(err) // it is part of the program
		}
		files = append(files, string(text))
	}
	return files
}

// Settings adds rows of a name and a value to settings, the names in lower case.
func Settings(settings map[string]string, rows *sql.Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		settings[strings.ToLower(name)] = value
	}
	return rows.Err()
}

// Durations reads settings that are numbers of a unit.
func Durations(settings map[string]string, unit time.Duration) (map[string]time.Duration, error) {
	all := make(map[string]time.Duration, len(settings))
	for name, value := range settings {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("parley: %s is %q, which is no number", name, value)
		}
		all[name] = time.Duration(n) * unit
	}
	return all, nil
}

// Warn adds a warning to what is said of a store.
func Warn(i *backend.Info, when bool, w backend.Warning) {
	if when {
		i.Warnings = append(i.Warnings, w)
	}
}
