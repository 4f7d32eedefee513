// Package mssql keeps Parley's conversations in a database of SQL Server, 2017
// or later, or of Azure SQL, by the driver github.com/microsoft/go-mssqldb.
//
//	b, err := parley.Open(ctx, "sqlserver://user:password@host?database=app", nil)
//	b, err := parley.New(ctx, mssql.New(db, nil), nil)
//
// # Isolation and locks
//
// Every transaction of the store is READ COMMITTED, and every statement locks by hints. So the
// store behaves the same with READ_COMMITTED_SNAPSHOT on or off. The comments in dialect.go give
// the reasons. A joined transaction must be READ COMMITTED or REPEATABLE READ. At other levels
// READPAST is not allowed, or row locks become range locks, and the store returns
// backend.ErrIsolation.
//
// # Errors inside a transaction
//
// SQL Server undoes a statement that fails. With XACT_ABORT off, the default, it keeps the
// transaction. A deadlock always ends the transaction, and with XACT_ABORT on any error does. Later
// statements would then commit one by one. Therefore each of the store's statements checks that the
// transaction is still there, and otherwise fails with backend.ErrSerialization. The store never
// provokes an error that could end the caller's transaction.
//
// # Application locks
//
// They are rows, and with Options.Locks also locks of sp_getapplock. The server then releases a
// session's locks as soon as it has lost the session's connection. No other owner gets them before
// that.
//
// # Ids and names
//
// Ids are binary(16). As uniqueidentifier they would be compared by their last bytes first, which
// are random, so rows of the same time would not be adjacent. Names compare by code point, and
// trailing spaces count.
//
// # Wake-ups
//
// Processes that share a database notice each other's commits by asking for the
// database's oldest active row version every few milliseconds while a receiver
// waits. That changes with each message, and costs no read of a table.
package mssql

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"fmt"
	"time"

	driver "github.com/microsoft/go-mssqldb"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// Options are the settings of a store; nil is the same as none.
type Options struct {
	// Prefix of the names of everything that Migrate makes; default "parley_".
	Prefix string
	// Schema in which it is; default: that of the database's user, mostly dbo. It
	// must exist, or the user must be allowed to create it.
	Schema string
	// Locks is how application locks are kept; default LocksRows.
	Locks Locks
	// MaxConns limits the pool of Open; default 16. New leaves the pool as it is.
	MaxConns int
	// PollEvery is how often to look whether another process has sent something,
	// while a receiver waits for messages. Default 10 milliseconds.
	PollEvery time.Duration
}

// Store is a backend on a database of SQL Server.
type Store struct {
	sqlstore.Pooled
	pool *pool
}

var _ backend.Backend = (*Store)(nil)

// Capabilities implements backend.Backend.
func (s *Store) Capabilities() backend.Capabilities {
	c := s.Pooled.Capabilities()
	c.Listener = s
	return c
}

func init() {
	backend.Register(backend.Version,
		func(ctx context.Context, dsn string) (backend.Backend, error) { return Open(ctx, dsn, nil) }, "sqlserver")
}

// Open opens a pool. Besides the driver's parameters the name may have
// parley_schema, parley_prefix, parley_locks (rows or native) and parley_max_conns,
// which set the options of that name.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	u, err := sqlstore.ParseURL("mssql", dsn)
	if err != nil {
		return nil, err
	}
	opt := *cmp.Or(o, new(Options))
	params := u.Query()
	var locks, conns string
	err = sqlstore.TakeParams(params, map[string]*string{
		"parley_schema": &opt.Schema, "parley_prefix": &opt.Prefix, "parley_locks": &locks, "parley_max_conns": &conns,
	})
	if err != nil {
		return nil, err
	}
	if err := sqlstore.TakeConns(conns, &opt.MaxConns); err != nil {
		return nil, fmt.Errorf("parley: mssql: %w", err)
	}
	if locks != "" {
		if opt.Locks, err = sqlstore.ParseLocks(locks); err != nil {
			return nil, fmt.Errorf("parley: mssql: %w", err)
		}
	}
	u.RawQuery = params.Encode()
	connector, err := driver.NewConnector(u.String())
	if err != nil {
		return nil, fmt.Errorf("parley: mssql: %w", err)
	}
	db := sqlstore.OpenPool(connector, opt.MaxConns)
	s := newStore(&pool{db: db, owned: true}, opt)
	if err = s.pool.invalid; err == nil {
		err = db.PingContext(ctx)
	}
	if err != nil {
		err = s.Late(ctx, err)
		s.Close()
		return nil, err
	}
	return s, nil
}

// New makes a store on a pool that the application has opened, and does not
// close it.
func New(db *sql.DB, o *Options) *Store {
	return newStore(&pool{db: db}, *cmp.Or(o, new(Options)))
}

func newStore(p *pool, o Options) *Store {
	if o.PollEvery <= 0 {
		o.PollEvery = 10 * time.Millisecond
	}
	prefix, dot, err := sqlstore.Names(o.Prefix, o.Schema, reserved)
	p.invalid = err
	o.Prefix = prefix
	p.options = o
	p.ids, p.batch = dot+prefix+"ids", dot+prefix+"payloads"
	d := &sqlstore.Dialect{
		Texts:       statements,
		Own:         &p.many,
		Token:       p.token,
		Invalid:     err,
		Prefix:      prefix,
		Schema:      dot,
		Qualify:     true,
		Placeholder: func(n int) string { return fmt.Sprintf("@p%d", n) },
		Now:         now,
		ID:          func(id backend.ID) any { return key(id) },
		Begin:       p.begin,
		Read:        p.reader,
		Join:        p.join,
		Classify:    classify,
		Migrations:  sqlstore.Files(schema),
		RemoveFirst: "DROP PROCEDURE IF EXISTS parley_post_message_with_headers; " +
			"DROP PROCEDURE IF EXISTS parley_post_message",
		RemoveLast: "DROP TYPE IF EXISTS parley_payloads; DROP TYPE IF EXISTS parley_batch; DROP TYPE IF EXISTS parley_ids",
		Hasten:     p.hasten,
		Drain:      p.drain,
		// sqlcmd has it off, and filtered indexes want it on. A column that a batch adds is
		// not known to the rest of it.
		PrintFirst:   "SET QUOTED_IDENTIFIER ON;\n",
		PrintAlone:   "EXEC (N'%s')",
		Exclude:      p.exclude,
		Info:         p.info,
		Grants:       p.grants(),
		DB:           p.db,
		Close:        p.close,
		MaxConns:     func() int { return p.db.Stats().MaxOpenConnections },
		SetPoint:     setPoint,
		BackToPoint:  backToPoint,
		ReleasePoint: func(string) string { return "" }, // T-SQL has no such thing
		SendOne:      p.send,
		Guards:       p.streams,
		Append:       p.append,
		PostPlain:    p.post,
		ClaimBatch:   p.claim,
		SettleBatch:  p.settle,
		Finish:       p.finish,
		Extend:       p.extend,
		Reclaim:      p.reclaim,
		SubmitBatch:  p.submit,
	}
	if o.Locks == LocksNative {
		d.OpenLine, d.TxNative = p.openLine, p.txNative
	}
	store, err := sqlstore.New(d)
	p.invalid = cmp.Or(p.invalid, err)
	return &Store{sqlstore.OnPool(store, p.db), p}
}

//go:embed schema/0*.sql
var schema embed.FS

// exclude makes migrations take turns, by an application lock that ends with the
// transaction, and creates the schema. The name has been validated.
func (p *pool) exclude(ctx context.Context, tx backend.Execer) error {
	var code int
	err := tx.QueryRowContext(ctx, `
		DECLARE @code int;
		EXEC @code = sp_getapplock @Resource = N'parley migrate', @LockMode = N'Exclusive',
		     @LockOwner = N'Transaction', @LockTimeout = -1;
		SELECT @code`).Scan(&code)
	if err != nil {
		return err
	}
	if err := applock(code); err != nil {
		return err
	}
	if p.options.Schema == "" {
		return nil
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`IF SCHEMA_ID(N'%s') IS NULL EXEC(N'CREATE SCHEMA %[1]s')`, p.options.Schema))
	return err
}

func (p *pool) info(ctx context.Context) (backend.Info, error) {
	i := backend.Info{Engine: "mssql", Settings: map[string]string{
		"prefix": p.options.Prefix, "schema": p.options.Schema, "locks": p.options.Locks.String(),
	}}
	if p.invalid != nil {
		return i, p.invalid
	}
	if err := p.db.QueryRowContext(ctx, "SELECT @@VERSION").Scan(&i.Version); err != nil {
		return i, err
	}
	var level int
	var versions bool
	var access string
	err := p.db.QueryRowContext(ctx, `
		SELECT compatibility_level, is_read_committed_snapshot_on,
		       CONVERT(nvarchar(60), DATABASEPROPERTYEX(name, 'Updateability'))
		  FROM sys.databases WHERE database_id = DB_ID()`).Scan(&level, &versions, &access)
	if err != nil {
		return i, err
	}
	i.Settings["compatibility_level"] = fmt.Sprint(level)
	i.Settings["read_committed_snapshot"] = fmt.Sprint(versions)
	i.Settings["updateability"] = access
	sqlstore.Warn(&i, access == "READ_ONLY", backend.Warning{Code: backend.WarnReadOnly, Bad: true,
		Text: "the database is read-only: a secondary replica?", Hint: "connect to the primary (ApplicationIntent=ReadWrite)"})
	sqlstore.Warn(&i, !versions, backend.Warning{Code: backend.WarnIsolation,
		Text: "READ_COMMITTED_SNAPSHOT is off: Parley works without it, but queries of handlers wait for each other's writes",
		Hint: "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON"})
	return i, nil
}
