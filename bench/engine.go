package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/lib/pq"
	_ "modernc.org/sqlite"
)

// engine gives every measurement a separate database.
type engine struct {
	name string
	// info is the version and what decides how safe a commit is.
	info string
	// make makes an empty database, or a copy of the one called from.
	make func(ctx context.Context, name, from string) (dsn string, err error)
	drop func(ctx context.Context, name string) error
	// settle brings the statistics of a loaded database up to date.
	settle func(ctx context.Context, name string) error
	// count counts what is done for a database. Nil: the engine does not tell.
	count func(dsn string) (*counter, error)
	close func()
	dir   string

	n      int
	loaded map[string]source // by system and load
	old    []string          // databases that no measurement needs any more
}

func openEngine(ctx context.Context, name string) (*engine, error) {
	var e *engine
	var err error
	switch name {
	case "postgres":
		e, err = openPostgres(ctx)
	case "sqlite":
		e, err = openSQLite()
	default:
		e, err = openMySQL(ctx, name)
	}
	if err == nil {
		e.name, e.loaded = name, make(map[string]source)
	}
	return e, err
}

// fresh returns a database in which the system has its schema and so many
// messages waiting. Where the engine can copy, both are done once and copied
// after that. With keep the measurement works on what would be copied, and later
// ones with the same load find what it leaves.
func (e *engine) fresh(ctx context.Context, s *system, load loader, keep bool) (dsn string, drop func(), err error) {
	if e.settle == nil && !keep {
		name := e.next()
		dsn, err = e.make(ctx, name, "")
		if err == nil && load.n > 0 {
			err = load.into(ctx, s, dsn)
		}
		return dsn, func() { e.old = append(e.old, name) }, err
	}
	if keep && load.n == 0 {
		return "", nil, errors.New("what is kept has to be loaded: without a load it is what others begin with")
	}
	key := fmt.Sprint(s.name, " ", load.n, load.name)
	from, ok := e.loaded[key]
	if !ok {
		from.name = e.next()
		from.dsn, err = e.make(ctx, from.name, "")
		if err == nil {
			err = load.into(ctx, s, from.dsn)
		}
		if err == nil && e.settle != nil {
			err = e.settle(ctx, from.name)
		}
		if err != nil {
			return "", nil, fmt.Errorf("loading: %w", err)
		}
		e.loaded[key] = from
	}
	if keep {
		return from.dsn, func() {}, nil
	}
	name := e.next()
	if dsn, err = e.make(ctx, name, from.name); err != nil {
		return "", nil, err
	}
	return dsn, func() { e.old = append(e.old, name) }, nil
}

// source is a database that is loaded once.
type source struct{ name, dsn string }

// sweep drops what has been measured. To drop a database makes PostgreSQL write
// all that it has in memory, so it is done between rounds.
func (e *engine) sweep(ctx context.Context) {
	for _, name := range e.old {
		e.drop(ctx, name)
	}
	e.old = nil
}

// forget drops what fresh has kept.
func (e *engine) forget(ctx context.Context) {
	e.sweep(ctx)
	for key, from := range e.loaded {
		e.drop(ctx, from.name)
		delete(e.loaded, key)
	}
}

func (e *engine) next() string {
	e.n++
	return fmt.Sprintf("parley_bench_%d_%d", os.Getpid(), e.n)
}

// loader puts messages into a queue before a measurement.
type loader struct {
	n    int
	name string // tells loaders of the same number apart
	how  func(ctx context.Context, q queue, n int) error
}

func (l loader) into(ctx context.Context, s *system, dsn string) error {
	q, err := s.open(ctx, dsn)
	if err != nil {
		return err
	}
	defer q.close()
	how := l.how
	if p, ok := q.(*parleyQueue); ok && p.how.key { // keys that have been used before
		if err := q.batch(ctx, bodies(0, 1000)); err != nil {
			return err
		}
	}
	switch {
	case l.n == 0:
		return nil
	case how == nil:
		how = loadPlain
	}
	return how(ctx, q, l.n)
}

// loadPlain sends n messages in batches, a few of them at a time.
func loadPlain(ctx context.Context, q queue, n int) error {
	const size = 500
	return inParallel(2, (n+size-1)/size, func(i int) error {
		return q.batch(ctx, bodies(i*size, min(size, n-i*size)))
	})
}

// inParallel calls f for 0 to n-1 from several goroutines, to the first error.
func inParallel(goroutines, n int, f func(i int) error) error {
	var mu sync.Mutex
	var next int
	var first error
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				over := i >= n || first != nil
				mu.Unlock()
				if over {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

func openPostgres(ctx context.Context) (*engine, error) {
	address := os.Getenv("BENCH_POSTGRES")
	if address == "" {
		address = os.Getenv("PARLEY_TEST_POSTGRES")
	}
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return nil, fmt.Errorf("no PostgreSQL: set BENCH_POSTGRES to a postgres:// URL")
	}
	admin, err := sql.Open("postgres", address)
	if err != nil {
		return nil, err
	}
	var version, fsync, commit string
	err = admin.QueryRowContext(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')`).
		Scan(&version, &fsync, &commit)
	if err != nil {
		admin.Close()
		return nil, err
	}
	exec := func(ctx context.Context, statement string) (err error) {
		for try := 0; try < 100; try++ { // a session that has been closed is gone a little later
			if _, err = admin.ExecContext(ctx, statement); err == nil || ctx.Err() != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		return err
	}
	dsn := func(name string) string {
		v := *u
		v.Path = "/" + name
		return v.String()
	}
	return &engine{
		info: fmt.Sprintf("PostgreSQL %s, fsync %s, synchronous_commit %s", version, fsync, commit),
		make: func(ctx context.Context, name, from string) (string, error) {
			statement := "CREATE DATABASE " + name
			if from != "" {
				statement += " TEMPLATE " + from
			}
			err := exec(ctx, statement)
			if err == nil && from != "" {
				err = checkpoint(ctx, admin)
			}
			return dsn(name), err
		},
		drop: func(ctx context.Context, name string) error {
			_, err := admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			return err
		},
		settle: func(ctx context.Context, name string) error {
			db, err := sql.Open("postgres", dsn(name))
			if err != nil {
				return err
			}
			defer db.Close()
			if _, err = db.ExecContext(ctx, "VACUUM ANALYZE"); err == nil {
				err = checkpoint(ctx, admin)
			}
			return err
		},
		count: func(dsn string) (*counter, error) {
			p, err := newProxy(dsn)
			if err != nil {
				return nil, err
			}
			return &counter{dsn: p.dsn, close: p.close, tally: func(ctx context.Context) (tally, error) {
				n := p.tally()
				err := admin.QueryRowContext(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn`).Scan(&n.logBytes)
				return n, err
			}}, nil
		},
		close: func() { admin.Close() },
	}, nil
}

// checkpoint writes to the disk what others would otherwise wait for later.
func checkpoint(ctx context.Context, admin *sql.DB) error {
	_, err := admin.ExecContext(ctx, "CHECKPOINT")
	var refused *pq.Error
	if errors.As(err, &refused) && refused.Code == "42501" {
		return nil // the role may not; the server does it in its own time
	}
	return err
}

func openSQLite() (*engine, error) {
	dir, err := os.MkdirTemp("", "parley-bench")
	if err != nil {
		return nil, err
	}
	path := func(name string) string { return filepath.Join(dir, name+".db") }
	var version string
	db, err := sql.Open("sqlite", path("version"))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT sqlite_version()`).Scan(&version); err != nil {
		return nil, err
	}
	return &engine{
		dir:  dir,
		info: "SQLite " + version + " (modernc.org/sqlite), WAL, synchronous NORMAL",
		make: func(_ context.Context, name, from string) (string, error) {
			if from != "" {
				if err := copyFile(path(name), path(from)); err != nil {
					return "", err
				}
			}
			return path(name), nil
		},
		drop: func(_ context.Context, name string) error {
			for _, tail := range []string{"", "-wal", "-shm"} {
				os.Remove(path(name) + tail)
			}
			return nil
		},
		settle: func(ctx context.Context, name string) error {
			db, err := sql.Open("sqlite", path(name))
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
			return err
		},
		close: func() { os.RemoveAll(dir) },
	}, nil
}

// libpq is how systems on lib/pq open their database, unless their documentation advises otherwise.
// Bodies are sent unchanged, and an unprepared statement takes one round trip, not two.
func libpq(dsn string) string { return dsn + "&binary_parameters=yes" }

// sqliteDSN is how every system opens its file: the same durability, and no
// transaction that reads first and then cannot write.
func sqliteDSN(path string) string {
	return "file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(" + strconv.Itoa(10_000) + ")&_txlock=immediate"
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
