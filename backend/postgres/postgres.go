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
// Every transaction of the store is READ COMMITTED, in which each statement has a separate
// snapshot. The store first locks rows, and reads them in the next statement. Rows are locked FOR
// NO KEY UPDATE, and receivers skip locked rows. Sends, posts and new conversations may join a
// transaction of any level. Conflicts under REPEATABLE READ and SERIALIZABLE fail with
// backend.ErrSerialization.
//
// # Sessions
//
// Statements are prepared once per connection. Behind a pooler that assigns servers by transaction,
// such as PgBouncer in transaction mode, the store prepares nothing, and leaves nothing else in a
// session. It detects the pooler at its first use (Options.Pooler). pgx prepares statements itself.
// Behind such a pooler it must be told not to (default_query_exec_mode=exec).
//
// # Application locks
//
// They are rows, and with Options.Locks advisory locks as well. The locks of a session are then
// free as soon as the server has lost its connection, and no other owner gets them before that.
//
// # Wake-ups
//
// LISTEN needs a session. Open listens on a separate connection by the same name. New listens on
// the connection of Options.Listen or, with pgx, on one of the pool if that has three or more.
// Receivers of a store that cannot listen poll.
//
// # Speed
//
// With lib/pq, binary_parameters=yes in the data source name spares the server from decoding
// bodies. Over a network it pays to send and post in batches: each call is one or two round trips,
// whatever its size.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"time"

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
	// Listen is the data source name for a connection of lib/pq that listens for wake-ups, not
	// through a transaction pooler. Default: for Open the name that was passed to it; for New none.
	Listen string
	// Pooler says whether a pooler in transaction mode is in between.
	Pooler Pooler
	// Locks is how application locks are kept; default LocksRows. Processes that
	// share a store may differ in it.
	Locks Locks
	// MaxConns limits the pool of Open; default 16. New leaves the pool as it is.
	MaxConns int
}

// Pooler is whether connections are those of a transaction pooler.
type Pooler int

// The values of Options.Pooler. Auto tests that with two connections at the store's first use.
const (
	PoolerAuto Pooler = iota
	PoolerAlways
	PoolerNever
)

// Store is a backend on a PostgreSQL database.
type Store struct {
	sqlstore.Pooled
	pool *pool
}

var _ backend.Backend = (*Store)(nil)

// Capabilities implements backend.Backend.
func (s *Store) Capabilities() backend.Capabilities {
	c := s.Pooled.Capabilities()
	c.Listener, c.Logging = s, s
	if s.pool.keeps { // behind a pool of pgx may be another one, which keeps what this one closes
		c.IdleClosed = nil
	}
	return c
}

func init() {
	backend.Register(backend.Version,
		func(ctx context.Context, dsn string) (backend.Backend, error) { return Open(ctx, dsn, nil) },
		"postgres", "postgresql")
}

// Open opens a pool of lib/pq. Besides the driver's parameters the name may set options:
// parley_schema, parley_prefix, parley_listen, parley_pooler (auto, always or never), parley_locks
// (rows or native) and parley_max_conns.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	opt := *cmp.Or(o, new(Options))
	dsn, err := opt.take(dsn)
	if err != nil {
		return nil, err
	}
	if opt.Listen == "" {
		opt.Listen = dsn
	}
	connector, err := pq.NewConnector(prompt(dsn))
	if err != nil {
		return nil, unusable(dsn)
	}
	s := newStore(sqlstore.OpenPool(connector, opt.MaxConns), opt)
	s.pool.owned = true
	if err := s.pool.probe(ctx); err != nil {
		err = s.Late(ctx, err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// prompt limits how long connecting takes, unless the name or the environment does. The driver
// lib/pq ignores the context, and waits without limit for a server that accepts and never answers.
func prompt(dsn string) string {
	if c, err := pq.NewConfig(dsn); err != nil || c.ConnectTimeout > 0 {
		return dsn
	}
	const limit = "10" // seconds
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		return dsn + " connect_timeout=" + limit
	}
	q := u.Query()
	q.Set("connect_timeout", limit)
	u.RawQuery = q.Encode()
	return u.String()
}

// unusable says why the driver does not take a URL, by what it says of the same one
// without its password.
func unusable(dsn string) error {
	u, err := sqlstore.ParseURL("postgres", dsn)
	if err != nil {
		return err
	}
	q := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		q.Del(secret)
	}
	u.User, u.RawQuery = url.User(u.User.Username()), q.Encode()
	if _, err := pq.NewConfig(u.String()); err != nil {
		return fmt.Errorf("parley: postgres: %w", err)
	}
	return errors.New("parley: postgres: the driver does not take the password in the name")
}

// take sets options by the parameters of a URL and returns it without them.
func (o *Options) take(dsn string) (string, error) {
	u, err := sqlstore.ParseURL("postgres", dsn)
	if err != nil {
		return "", err
	}
	q := u.Query()
	var pooler, locks, conns string
	err = sqlstore.TakeParams(q, map[string]*string{
		"parley_schema": &o.Schema, "parley_prefix": &o.Prefix, "parley_listen": &o.Listen,
		"parley_pooler": &pooler, "parley_locks": &locks, "parley_max_conns": &conns,
	})
	if err != nil {
		return "", err
	}
	if err := sqlstore.TakeConns(conns, &o.MaxConns); err != nil {
		return "", fmt.Errorf("parley: postgres: %w", err)
	}
	switch pooler {
	case "":
	case "auto":
		o.Pooler = PoolerAuto
	case "always":
		o.Pooler = PoolerAlways
	case "never":
		o.Pooler = PoolerNever
	default:
		return "", fmt.Errorf("parley: postgres: parley_pooler=%s: want auto, always or never", pooler)
	}
	if locks != "" {
		if o.Locks, err = sqlstore.ParseLocks(locks); err != nil {
			return "", fmt.Errorf("parley: postgres: %w", err)
		}
	}
	if len(q) == len(u.Query()) {
		return dsn, nil // as it is
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// New makes a store on a pool that the application has opened, and does not
// close it.
func New(db *sql.DB, o *Options) *Store {
	return newStore(db, *cmp.Or(o, new(Options)))
}

func newStore(db *sql.DB, o Options) *Store {
	_, libpq := db.Driver().(*pq.Driver)
	prefix, dot, err := sqlstore.Names(o.Prefix, o.Schema, reserved)
	o.Prefix = prefix
	p := &pool{options: o, db: db, listen: o.Listen, libpq: libpq, keeps: isPGX(db.Driver()), invalid: err, pings: pings{time.Minute, 10 * time.Second}}
	if o.Schema != "" {
		channel := channelName(o.Schema, prefix)
		p.wakes.Store(&channel)
	}
	d := &sqlstore.Dialect{
		Texts:       statements,
		Own:         &p.hot,
		Axes:        axes,
		Lock:        lockClause,
		Token:       p.token,
		Invalid:     err,
		Prefix:      prefix,
		Together:    &backend.Together{Room: 2},
		Schema:      dot,
		Placeholder: func(n int) string { return fmt.Sprintf("$%d", n) },
		Now:         now,
		ID:          func(id backend.ID) any { return id.String() },
		Begin:       p.begin,
		Read:        p.reader,
		Join:        p.join,
		InTx:        p.inTx,
		Wrap:        func(tx *sqlstore.Tx) backend.Tx { return &Tx{tx, p} },
		Classify:    classify,
		Migrations:  sqlstore.Files(schema),
		RemoveFirst: "DROP FUNCTION IF EXISTS parley_post(text, text, bytea, text, text);\n" +
			"DROP FUNCTION IF EXISTS parley_post(text, text, bytea, text)",
		Hasten:       p.hasten,
		Online:       p.online,
		Rebuild:      p.rebuild,
		Drain:        p.drain,
		Exclude:      p.exclude,
		Info:         p.info,
		Grants:       p.grants(),
		Timeouts:     p.timeouts,
		DB:           db,
		Close:        p.close,
		MaxConns:     p.maxConns,
		SendOne:      p.send,
		SendTogether: p.sendTogether,
		Guards:       p.streams,
		Append:       p.append,
		PostPlain:    p.post,
		PostKeyed:    p.postKeyed,
		KeyStreams:   p.keyStreams,
		ClaimBatch:   p.claim,
		BeginDialogs: p.beginDialogs,
		EndFirst:     p.endFirst,
		EndMany:      p.endMany,
		EndGuards:    p.endGuards,
		DropUnread:   p.dropUnread,
		RemoveSides:  p.removeSides,
		SettleBatch:  p.settle,
		RemovePosts:  p.removePosts,
		Finish:       p.finish,
		Restore:      p.restore,
		Extend:       p.extend,
		OnlyInTx:     p.pooled.Load,
		Several:      true,
		Reclaim:      p.reclaim,
		SubmitBatch:  p.submit,
		FinishTasks:  p.finishTasks,
		JoinPosts:    p.joinPosts,
	}
	if libpq {
		d.Unread = 50 * time.Millisecond
	}
	if o.Locks == LocksNative {
		d.OpenLine, d.TxNative = p.openLine, p.txNative
	}
	store, err := sqlstore.New(d)
	p.store, p.invalid = store, cmp.Or(p.invalid, err)
	return &Store{sqlstore.OnPool(store, db), p}
}

//go:embed schema/0*.sql
var schema embed.FS

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
	if err := sqlstore.Settings(i.Settings, rows, err); err != nil {
		return i, err
	}
	i.Settings["schema"] = p.options.Schema
	i.Settings["channel"] = *p.wakes.Load()
	i.Settings["pooler"] = fmt.Sprint(p.pooled.Load())
	i.Settings["locks"] = p.options.Locks.String()
	sqlstore.Warn(&i, i.Settings["fsync"] == "off", backend.Warning{Code: backend.WarnDurability,
		Text: "fsync is off: a crash of the machine may destroy the database"})
	sqlstore.Warn(&i, i.Settings["synchronous_commit"] == "off", backend.Warning{Code: backend.WarnDurability,
		Text: "synchronous_commit is off: a crash may lose messages whose sending had been confirmed"})
	sqlstore.Warn(&i, i.Settings["autovacuum"] == "off", backend.Warning{Code: backend.WarnVacuum, Text: "autovacuum is off: queues become slow"})
	sqlstore.Warn(&i, i.Settings["transaction_read_only"] == "on", backend.Warning{Code: backend.WarnReadOnly, Bad: true,
		Text: "the server is read-only: a standby?", Hint: "connect to the primary (target_session_attrs=read-write)"})
	level := i.Settings["default_transaction_isolation"]
	sqlstore.Warn(&i, level == "repeatable read" || level == "serializable", backend.Warning{Code: backend.WarnIsolation,
		Text: "default_transaction_isolation is " + level + ": transactions of the application that Parley joins may have to be retried",
		Hint: "begin them with sql.LevelReadCommitted"})
	sqlstore.Warn(&i, p.pooled.Load(), backend.Warning{Code: backend.WarnPooler,
		Text: "connections go through a pooler in transaction mode: the server plans each statement again"})
	return i, nil
}
