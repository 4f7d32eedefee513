// Package postgres keeps Parley's conversations in a PostgreSQL database,
// version 13 or later.
//
//	b, err := parley.Open(ctx, "postgres://user@host/db", nil)
//	b, err := parley.New(ctx, postgres.New(db, nil), nil)
//
// New takes a *sql.DB of github.com/lib/pq or of github.com/jackc/pgx/v5/stdlib.
//
// # Isolation and locks
//
// Every transaction of the store's is READ COMMITTED, in which each statement
// has a snapshot of its own: what a statement locks is looked at in the next
// one. Rows are locked FOR NO KEY UPDATE, and receivers skip what is locked.
// Sends, posts and new conversations may join a transaction of any level; what
// REPEATABLE READ and SERIALIZABLE cannot reconcile fails with
// backend.ErrSerialization.
//
// # Sessions
//
// Statements are prepared once per connection. Behind a pooler that gives out
// servers by the transaction, such as PgBouncer in transaction mode, they are
// not, and nothing else is left in a session: the store finds that out when it
// is first used (Options.Pooler). pgx prepares statements by itself; behind such
// a pooler it has to be told not to (default_query_exec_mode=exec).
//
// # Wake-ups
//
// LISTEN needs a session. Open listens on a connection of its own by the same
// name, New on the one of Options.Listen, or, with pgx, on one of the pool's. A
// store that cannot listen is polled.
//
// # Speed
//
// With lib/pq, binary_parameters=yes in the data source name spares the server
// from decoding bodies. On a connection over a network it pays to send and post
// in batches: each call is one or two round trips, whatever its size.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// Options are the settings of a store; nil is the same as none.
type Options struct {
	// Prefix of the names of everything that Migrate makes; default "parley_".
	Prefix string
	// Schema in which it is; default: the first of the search_path. It must
	// exist, or the role must be allowed to create it.
	Schema string
	// Listen is the data source name for a connection of lib/pq that listens
	// for wake-ups, not through a transaction pooler. Default: for Open the
	// name that it is given; for New none.
	Listen string
	// Pooler says whether a pooler in transaction mode is in between.
	Pooler Pooler
	// MaxConns limits the pool of Open; default 16. New leaves the pool as it is.
	MaxConns int
}

// Pooler is whether connections are those of a transaction pooler.
type Pooler int

// The values of Options.Pooler. Auto finds out by two connections, the first
// time the store is used.
const (
	PoolerAuto Pooler = iota
	PoolerAlways
	PoolerNever
)

// Store is a backend on a PostgreSQL database.
type Store struct {
	*sqlstore.Store
	pool *pool
}

var (
	_ backend.Backend           = (*Store)(nil)
	_ backend.Joiner            = (*Store)(nil)
	_ backend.Listener          = (*Store)(nil)
	_ backend.TransactionHolder = (*Store)(nil)
	_ backend.Printer           = (*Store)(nil)
	_ backend.Pool              = (*Store)(nil)
)

func init() {
	backend.Register(func(ctx context.Context, dsn string) (backend.Backend, error) { return Open(ctx, dsn, nil) },
		"postgres", "postgresql")
}

// Open opens a pool of lib/pq. Besides the driver's parameters the name may have
// parley_schema, parley_prefix, parley_listen and parley_pooler (auto, always or
// never), which set the options of that name.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	dsn, err := opt.take(dsn)
	if err != nil {
		return nil, err
	}
	if opt.Listen == "" {
		opt.Listen = dsn
	}
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("parley: postgres: %w", err)
	}
	db := sql.OpenDB(connector)
	if opt.MaxConns <= 0 {
		opt.MaxConns = 16
	}
	db.SetMaxOpenConns(opt.MaxConns)
	db.SetMaxIdleConns(opt.MaxConns)
	s := newStore(db, opt)
	s.pool.owned = true
	if err := s.pool.probe(ctx); err != nil {
		s.Close()
		return nil, s.Classify(err)
	}
	return s, nil
}

// take sets options by the parameters of a URL and returns it without them.
func (o *Options) take(dsn string) (string, error) {
	if !strings.Contains(dsn, "parley_") {
		return dsn, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errors.New("parley: postgres: the name is no URL") // and may hold a password
	}
	q := u.Query()
	for _, x := range []struct {
		name string
		to   *string
	}{{"parley_schema", &o.Schema}, {"parley_prefix", &o.Prefix}, {"parley_listen", &o.Listen}} {
		if v := q.Get(x.name); v != "" {
			*x.to = v
		}
		q.Del(x.name)
	}
	switch v := q.Get("parley_pooler"); v {
	case "":
	case "auto":
		o.Pooler = PoolerAuto
	case "always":
		o.Pooler = PoolerAlways
	case "never":
		o.Pooler = PoolerNever
	default:
		return "", fmt.Errorf("parley: postgres: parley_pooler=%s: want auto, always or never", v)
	}
	q.Del("parley_pooler")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// New makes a store on a pool that the application has opened, and does not
// close it.
func New(db *sql.DB, o *Options) *Store {
	var opt Options
	if o != nil {
		opt = *o
	}
	return newStore(db, opt)
}

func newStore(db *sql.DB, o Options) *Store {
	if o.Prefix == "" {
		o.Prefix = "parley_"
	}
	_, libpq := db.Driver().(*pq.Driver)
	p := &pool{options: o, db: db, listen: o.Listen, libpq: libpq, invalid: o.check()}
	if p.invalid != nil {
		o.Prefix, o.Schema = "parley_", ""
	}
	schemaDot := ""
	if o.Schema != "" {
		schemaDot = o.Schema + "."
	}
	d := &sqlstore.Dialect{
		Statements:  statements(schemaDot, o.Prefix),
		Prefix:      o.Prefix,
		Schema:      schemaDot,
		Placeholder: func(n int) string { return fmt.Sprintf("$%d", n) },
		Now:         now,
		ID:          func(id backend.ID) any { return id.String() },
		Begin:       p.begin,
		Read:        p.reader,
		Join:        p.join,
		Classify:    classify,
		Migrations:  migrations(),
		Removal:     removal,
		Exclude:     p.exclude,
		Info:        p.info,
		Close:       p.close,
		SendBatch:   p.send,
		PostBatch:   p.post,
		ClaimBatch:  p.claim,
		SettleBatch: p.settle,
		Finish:      p.finish,
		Extend:      p.extend,
		OnlyInTx:    p.pooled.Load,
		Several:     true,
		Reclaim:     p.reclaim,
		SubmitBatch: p.submit,
		FinishTasks: p.finishTasks,
	}
	store, err := sqlstore.New(d)
	if err == nil {
		err = p.hot.compile(d)
	}
	if err == nil {
		p.notify, err = d.Stmt("notify", notifySQL)
	}
	if err != nil {
		p.invalid = err
	}
	p.store = store
	return &Store{store, p}
}

func (o *Options) check() error {
	if err := sqlstore.CheckName("prefix", o.Prefix); err != nil {
		return err
	}
	return sqlstore.CheckName("schema", o.Schema)
}

// HoldsInTransaction implements backend.TransactionHolder.
func (s *Store) HoldsInTransaction() {}

// MaxConns implements backend.Pool.
func (s *Store) MaxConns() int { return s.pool.db.Stats().MaxOpenConnections }

// Begin implements backend.Backend.
func (s *Store) Begin(ctx context.Context) (backend.Tx, error) {
	return s.wrap(s.Store.Begin(ctx))
}

// Join implements backend.Joiner.
func (s *Store) Join(ctx context.Context, tx backend.Execer) (backend.Tx, error) {
	return s.wrap(s.Store.Join(ctx, tx))
}

//go:embed schema/0*.sql
var schema embed.FS

//go:embed schema/uninstall.sql
var removal string

func migrations() (files []string) {
	names, err := fs.Glob(schema, "schema/0*.sql")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for _, name := range names {
		b, err := schema.ReadFile(name)
		if err != nil {
			panic(err)
		}
		files = append(files, string(b))
	}
	return files
}

// exclude makes migrations take turns, by an advisory lock that ends with the
// transaction, and looks names up in the schema until then.
func (p *pool) exclude(ctx context.Context, tx backend.Execer) error {
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('parley migrate', 0))`); err != nil {
		return err
	}
	if p.options.Schema == "" {
		return nil
	}
	// The name has been validated. To ask first spares those who may not create.
	var one int
	err := tx.QueryRowContext(ctx, `SELECT 1 FROM pg_namespace WHERE nspname = '`+p.options.Schema+`'`).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = tx.ExecContext(ctx, "CREATE SCHEMA "+p.options.Schema)
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "SET LOCAL search_path = "+p.options.Schema)
	}
	return err
}

func (p *pool) info(ctx context.Context) (backend.Info, error) {
	i := backend.Info{Engine: "postgres", Settings: map[string]string{"prefix": p.options.Prefix}}
	if err := p.probe(ctx); err != nil {
		return i, err
	}
	if err := p.db.QueryRowContext(ctx, "SELECT version()").Scan(&i.Version); err != nil {
		return i, err
	}
	rows, err := p.db.QueryContext(ctx, `
		SELECT name, setting FROM pg_settings
		 WHERE name IN ('synchronous_commit', 'fsync', 'default_transaction_isolation',
		                'max_connections', 'autovacuum', 'idle_in_transaction_session_timeout',
		                'transaction_read_only')`)
	if err != nil {
		return i, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, setting string
		if err := rows.Scan(&name, &setting); err != nil {
			return i, err
		}
		i.Settings[name] = setting
	}
	if err := rows.Err(); err != nil {
		return i, err
	}
	i.Settings["schema"] = p.options.Schema
	i.Settings["channel"] = p.channel
	i.Settings["pooler"] = fmt.Sprint(p.pooled.Load())
	warn := func(when bool, text string) {
		if when {
			i.Warnings = append(i.Warnings, text)
		}
	}
	warn(i.Settings["fsync"] == "off", "fsync is off: a crash of the machine may destroy the database")
	warn(i.Settings["synchronous_commit"] == "off", "synchronous_commit is off: a crash may lose messages whose sending had been confirmed")
	warn(i.Settings["autovacuum"] == "off", "autovacuum is off: queues become slow")
	warn(i.Settings["transaction_read_only"] == "on", "the server is read-only: a standby?")
	warn(p.pooled.Load() && p.listen == "", "behind a transaction pooler and without Options.Listen there are no wake-ups: receivers poll")
	warn(p.libpq && p.listen == "" && !p.pooled.Load(), "without Options.Listen there are no wake-ups: receivers poll")
	return i, nil
}
