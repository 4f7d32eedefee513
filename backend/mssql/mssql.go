// Package mssql keeps Parley's conversations in a database of SQL Server, 2017
// or later, or of Azure SQL, by the driver github.com/microsoft/go-mssqldb.
//
//	b, err := parley.Open(ctx, "sqlserver://user:password@host?database=app", nil)
//	b, err := parley.New(ctx, mssql.New(db, nil), nil)
//
// # Isolation and locks
//
// Every transaction of the store's is READ COMMITTED, and every statement locks
// by hints, so that it does the same whether READ_COMMITTED_SNAPSHOT is on or
// off. Why each is right stands in dialect.go, beside it. A transaction that is
// joined must be READ COMMITTED or REPEATABLE READ: at other levels READPAST is
// not allowed or locks become locks of ranges, and the store answers
// backend.ErrIsolation.
//
// # Errors inside a transaction
//
// SQL Server undoes a statement that fails and, as long as XACT_ABORT is off, as
// it is by default, keeps the transaction. A deadlock always ends it, and with
// XACT_ABORT on any error does. What follows would run without a transaction, one
// statement at a time; therefore each of the store's own statements looks whether
// the transaction is still there, and fails with backend.ErrSerialization if not.
// The store uses no error to find something out that would end a transaction of
// the caller's, whatever his XACT_ABORT.
//
// # Ids and names
//
// Ids are binary(16): as uniqueidentifier they would be compared by their last
// bytes first, which are random, and rows of one time would not stand together.
// Names compare by code point, and a space at the end of one counts.
//
// # Wake-ups
//
// Processes that share a database notice each other's commits by asking for the
// database's oldest active row version every few milliseconds while somebody
// waits. That changes with each message, and costs no read of a table.
package mssql

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
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
	// MaxConns limits the pool of Open; default 16. New leaves the pool as it is.
	MaxConns int
	// PollEvery is how often to look whether another process has sent something,
	// while somebody waits for messages. Default 10 milliseconds.
	PollEvery time.Duration
}

// Store is a backend on a database of SQL Server.
type Store struct {
	*sqlstore.Store
	server *server
}

var (
	_ backend.Backend           = (*Store)(nil)
	_ backend.Joiner            = (*Store)(nil)
	_ backend.Listener          = (*Store)(nil)
	_ backend.TransactionHolder = (*Store)(nil)
	_ backend.Pool              = (*Store)(nil)
	_ backend.Printer           = (*Store)(nil)
)

func init() {
	backend.Register(func(ctx context.Context, dsn string) (backend.Backend, error) { return Open(ctx, dsn, nil) }, "sqlserver")
}

// Open opens a pool. Besides the driver's parameters the name may have
// parley_schema and parley_prefix, which set the options of that name.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, errors.New("parley: mssql: the name is no URL") // and may hold a password
	}
	var opt Options
	if o != nil {
		opt = *o
	}
	params := u.Query()
	if v := params.Get("parley_schema"); v != "" {
		opt.Schema = v
	}
	if v := params.Get("parley_prefix"); v != "" {
		opt.Prefix = v
	}
	params.Del("parley_schema")
	params.Del("parley_prefix")
	u.RawQuery = params.Encode()
	connector, err := driver.NewConnector(u.String())
	if err != nil {
		return nil, fmt.Errorf("parley: mssql: %w", err)
	}
	conns := opt.MaxConns
	if conns <= 0 {
		conns = 16
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	s := newStore(&server{db: db, owned: true}, opt)
	if err = s.server.invalid; err == nil {
		err = db.PingContext(ctx)
	}
	if err != nil {
		s.Close()
		return nil, s.Classify(err)
	}
	return s, nil
}

// New makes a store on a pool that the application has opened, and does not
// close it.
func New(db *sql.DB, o *Options) *Store {
	var opt Options
	if o != nil {
		opt = *o
	}
	return newStore(&server{db: db}, opt)
}

func newStore(s *server, o Options) *Store {
	if o.Prefix == "" {
		o.Prefix = "parley_"
	}
	if o.PollEvery <= 0 {
		o.PollEvery = 10 * time.Millisecond
	}
	s.invalid = o.check()
	if s.invalid != nil {
		o.Prefix, o.Schema = "parley_", ""
	}
	s.options = o
	dot := ""
	if o.Schema != "" {
		dot = o.Schema + "."
	}
	s.ids, s.batch = dot+o.Prefix+"ids", dot+o.Prefix+"batch"
	files, removal := migrations(dot)
	d := &sqlstore.Dialect{
		Statements:   statements(dot, o.Prefix),
		Prefix:       o.Prefix,
		Schema:       dot,
		Placeholder:  func(n int) string { return fmt.Sprintf("@p%d", n) },
		Now:          now,
		ID:           func(id backend.ID) any { return key(id) },
		Begin:        s.begin,
		Read:         s.reader,
		Join:         s.join,
		Classify:     classify,
		Migrations:   files,
		Removal:      removal,
		Exclude:      s.exclude,
		Info:         s.info,
		Close:        s.close,
		SetPoint:     setPoint,
		BackToPoint:  backToPoint,
		ReleasePoint: func(string) string { return "" }, // T-SQL has no such thing
		SendBatch:    s.send,
		PostBatch:    s.post,
		ClaimBatch:   s.claim,
		SettleBatch:  s.settle,
		Finish:       s.finish,
		Extend:       s.extend,
		Reclaim:      s.reclaim,
		SubmitBatch:  s.submit,
	}
	store, err := sqlstore.New(d)
	if err == nil {
		err = s.many.compile(d)
	}
	if err != nil {
		s.invalid = err
	}
	return &Store{store, s}
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
func (s *Store) MaxConns() int { return s.server.db.Stats().MaxOpenConnections }

//go:embed schema/*.sql
var schema embed.FS

// migrations returns the schema's files, and what undoes them. Names of indexes
// are those of a table and have no prefix, so every parley_ is a name that the
// schema stands before.
func migrations(dot string) (files []string, removal string) {
	names, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for _, name := range names {
		b, err := schema.ReadFile(name)
		if err != nil {
			panic(err)
		}
		text := strings.ReplaceAll(string(b), "parley_", dot+"parley_")
		if name == "schema/uninstall.sql" {
			removal = text
		} else {
			files = append(files, text)
		}
	}
	return files, removal
}

// exclude makes migrations take turns, by an application lock that ends with the
// transaction, and creates the schema. The name has been validated.
func (s *server) exclude(ctx context.Context, tx backend.Execer) error {
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
	if s.options.Schema == "" {
		return nil
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`IF SCHEMA_ID(N'%s') IS NULL EXEC(N'CREATE SCHEMA %[1]s')`, s.options.Schema))
	return err
}

func (s *server) info(ctx context.Context) (backend.Info, error) {
	i := backend.Info{Engine: "mssql", Settings: map[string]string{
		"prefix": s.options.Prefix, "schema": s.options.Schema,
	}}
	if s.invalid != nil {
		return i, s.invalid
	}
	if err := s.db.QueryRowContext(ctx, "SELECT @@VERSION").Scan(&i.Version); err != nil {
		return i, err
	}
	var level int
	var versions bool
	var access string
	err := s.db.QueryRowContext(ctx, `
		SELECT compatibility_level, is_read_committed_snapshot_on,
		       CONVERT(nvarchar(60), DATABASEPROPERTYEX(name, 'Updateability'))
		  FROM sys.databases WHERE database_id = DB_ID()`).Scan(&level, &versions, &access)
	if err != nil {
		return i, err
	}
	i.Settings["compatibility_level"] = fmt.Sprint(level)
	i.Settings["read_committed_snapshot"] = fmt.Sprint(versions)
	i.Settings["updateability"] = access
	if access == "READ_ONLY" {
		i.Warnings = append(i.Warnings, "the database is read-only: a secondary replica?")
	}
	if !versions {
		i.Warnings = append(i.Warnings, "READ_COMMITTED_SNAPSHOT is off: Parley does not mind, but the handlers' own queries wait for each other's writes")
	}
	return i, nil
}
