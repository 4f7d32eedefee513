// Package sqlite keeps Parley's conversations in a SQLite database, by the
// driver modernc.org/sqlite (no cgo).
//
//	b, err := parley.Open(ctx, "sqlite:app.db", nil)
//	b, err := parley.New(ctx, sqlite.New(db, nil), nil)
//
// # One writer
//
// A SQLite database has one writer at a time, and a transaction that writes is
// the only one of its kind in all processes. Therefore:
//
//   - Groups are held by lease. A claim is a short transaction that writes a fence and an expiry.
//     The handler runs outside it. Its acknowledgement, together with what it wrote, is a second
//     short transaction.
//   - The store writes on one separate connection. Its users wait for it in a queue in Go; SQLite's
//     busy handler has no queue, and would make them wait for up to seconds. The store waits for
//     other processes, and for the application's own connections, by the busy timeout.
//   - A verb that writes outside its caller's open transaction would wait for the caller. If the
//     context shows that, as a handler's does after Message.Tx, the verb fails at once with
//     backend.ErrWouldDeadlock. Otherwise it waits for Options.TurnTimeout, and its error names the
//     function that opened the transaction. Open a delivery's transaction last, and keep it short.
//   - Begin a transaction that Parley joins with BEGIN IMMEDIATE (_txlock=immediate in the driver's
//     data source name). A transaction that reads first and then writes fails if another one has
//     written in between.
//
// # Set-up
//
// Migrate, and opening a database with Parley's tables, put the database into WAL mode. Readers and
// the writer then do not wait for each other. A database without these tables is left unchanged. By
// default the store writes with synchronous=NORMAL: "a transaction committed in WAL mode with
// synchronous=NORMAL might roll back following a power loss or system crash". It does not when only
// the program dies, and the database stays consistent. Options.Synchronous "FULL" makes every
// commit durable at about a fifth of the speed.
//
// Times are the process's clock. Processes on one machine share it.
//
// # Wake-ups
//
// Processes that share a file notice each other's commits by polling PRAGMA data_version every few
// milliseconds, while a receiver waits.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
	"github.com/parleymq/parley/internal/testclock"
)

// Options are the settings of a store; nil is the same as none.
type Options struct {
	// Prefix of the names of tables and views; default "parley_".
	Prefix string
	// Synchronous is PRAGMA synchronous for the store's own connections:
	// "OFF", "NORMAL" or "FULL". Default: "NORMAL", and for New that of the
	// database that it is given.
	Synchronous string
	// BusyTimeout is how long to wait for writers in other processes. Default
	// 10 seconds.
	BusyTimeout time.Duration
	// TurnTimeout is how long a transaction waits for a writing transaction of the same store. Then
	// it fails with an error that names the function of that transaction. A writer that takes
	// longer is logged. Default 5 seconds.
	TurnTimeout time.Duration
	// PollEvery is how often the store checks whether another process has written, while a receiver
	// waits for messages. Zero means 5 milliseconds.
	PollEvery time.Duration
}

// Store is a backend on a SQLite database.
type Store struct {
	*sqlstore.Store
	pool *pool
}

var _ backend.Backend = (*Store)(nil)

// Capabilities implements backend.Backend.
func (s *Store) Capabilities() backend.Capabilities {
	c := s.Store.Capabilities()
	c.SingleWriter, c.Listener, c.Logging, c.Migrator = true, s, s, s
	return c
}

func init() {
	backend.Register(backend.Version,
		func(ctx context.Context, dsn string) (backend.Backend, error) { return Open(ctx, dsn, nil) }, "sqlite")
}

//go:embed schema/0*.sql
var schema embed.FS

// Open opens the database "sqlite:path", and makes the file if there is none. Parameters after a
// question mark go to the driver, such as _pragma=foreign_keys(1), which applies to the
// transactions of deliveries, too. The parameters parley_prefix and parley_synchronous set the
// options of that name. The path ":memory:" stands for a separate database that vanishes with the
// store.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dsn, "sqlite:"), "//"), "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("parley: sqlite: the parameters of the name cannot be read: a percent sign is written %25")
	}
	if path == "" {
		return nil, errors.New("parley: sqlite: no path: write it like sqlite:app.db")
	}
	opt := *cmp.Or(o, new(Options))
	err = sqlstore.TakeParams(params, map[string]*string{"parley_prefix": &opt.Prefix, "parley_synchronous": &opt.Synchronous})
	if err != nil {
		return nil, err
	}
	now := clock
	if c := testclock.Take(ctx); c != nil {
		now = func() int64 { return after(&c.Last, c.Now) }
	}
	s := newStore(&pool{path: path, params: params}, opt, now)
	if err := s.pool.open(ctx); err != nil {
		return nil, s.Classify(placed(path, err))
	}
	return s, nil
}

// New makes a store of a database that the application has opened with the driver
// modernc.org/sqlite. At its first use the store asks db for the file's name, and opens separate
// connections with the same synchronous and foreign_keys settings. It does not use db otherwise,
// and does not close it. A database in memory has no name and cannot be shared in this way: use
// Open. The store refuses a handle of another driver, such as github.com/mattn/go-sqlite3, because
// two copies of SQLite in one process damage a file.
func New(db *sql.DB, o *Options) *Store {
	return newStore(&pool{user: db}, *cmp.Or(o, new(Options)), clock)
}

func newStore(p *pool, o Options, now func() int64) *Store {
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.TurnTimeout <= 0 {
		o.TurnTimeout = 5 * time.Second
	}
	if o.PollEvery <= 0 {
		o.PollEvery = 5 * time.Millisecond
	}
	o.Prefix, _, p.invalid = sqlstore.Names(o.Prefix, "", "sqlite_*")
	if p.invalid == nil {
		p.invalid = o.check()
	}
	p.options = o
	p.turn = turn{taken: make(chan struct{}, 1), limit: o.TurnTimeout, log: slog.New(slog.DiscardHandler)}
	m := &p.many
	d := &sqlstore.Dialect{
		Texts:        statements,
		Together:     &backend.Together{Room: 1, KeyedPosts: true, Posts: true},
		Own:          m,
		Token:        token,
		Adapt:        adapt,
		Invalid:      p.invalid,
		Prefix:       o.Prefix,
		Placeholder:  func(n int) string { return fmt.Sprintf("?%d", n) },
		Clock:        now,
		ID:           func(id backend.ID) any { return id[:] },
		Begin:        p.begin,
		Read:         p.reader,
		Join:         p.join,
		InTx:         p.inTx,
		Classify:     classify,
		Migrations:   sqlstore.Files(schema),
		RemoveFirst:  "DROP VIEW IF EXISTS parley_outbox_with_headers; DROP VIEW IF EXISTS parley_outbox",
		Exclude:      func(context.Context, backend.Execer) error { return nil }, // there is one writer
		Info:         p.info,
		Close:        p.close,
		Futile:       true,
		RemovePosts:  m.remove,
		SendOne:      m.send,
		PostKeyed:    m.postKeyed,
		BeginDialogs: m.beginDialogs,
		EndGuards:    func(context.Context, *sqlstore.Tx, backend.ID, backend.ID) (bool, error) { return true, nil },
		EndSides:     m.endSides,
		EndMany: func(ctx context.Context, tx *sqlstore.Tx, list []sqlstore.LateEnd) ([]sqlstore.LateEnd, error) {
			return tx.EndMany(ctx, list, func(_ context.Context, guards []backend.ID) ([]backend.ID, error) { return guards, nil })
		},
		List:         func(list []backend.ID) any { return ids(list) },
		RemoveQuiet:  m.removeQuiet,
		Drop:         m.drop,
		Finish:       m.finish,
		JoinPosts:    m.joinPosts,
		Reclaim:      m.reclaim,
		HeldPosts:    m.held,
		ReleasePosts: m.release,
	}
	store, err := sqlstore.New(d)
	p.store, p.invalid = store, cmp.Or(p.invalid, err)
	return &Store{store, p}
}

func (o *Options) check() error {
	switch strings.ToUpper(o.Synchronous) {
	case "", "OFF", "NORMAL", "FULL", "EXTRA":
		return nil
	}
	return fmt.Errorf("parley: sqlite: synchronous %q: want OFF, NORMAL or FULL", o.Synchronous)
}

func (p *pool) info(ctx context.Context) (backend.Info, error) {
	i := backend.Info{Engine: "sqlite", Settings: map[string]string{"prefix": p.options.Prefix}}
	if err := p.open(ctx); err != nil {
		return i, err
	}
	if err := p.read.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&i.Version); err != nil {
		return i, err
	}
	i.Settings["file"] = p.path
	i.Settings["synchronous"] = p.synchronous
	i.Settings["busy_timeout"] = p.options.BusyTimeout.String()
	var mode string
	if err := p.read.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return i, err
	}
	i.Settings["journal_mode"] = mode
	sqlstore.Warn(&i, mode != "wal" && mode != "memory", backend.Warning{Code: backend.WarnJournal,
		Text: "the journal mode is " + mode + ": readers and the writer wait for each other", Hint: "WAL mode needs a file on a local disk"})
	sqlstore.Warn(&i, p.synchronous == "OFF", backend.Warning{Code: backend.WarnDurability,
		Text: "synchronous is OFF: a power loss may corrupt the database", Hint: "Options.Synchronous"})
	why := p.readOnly()
	sqlstore.Warn(&i, why != "", backend.Warning{Code: backend.WarnReadOnly, Bad: true, Text: why,
		Hint: "the file and its folder must be writable for the program's user"})
	return i, nil
}
