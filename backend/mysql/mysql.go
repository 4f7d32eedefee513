// Package mysql keeps Parley's conversations in a database of MySQL, version
// 8.0.13 or later, MariaDB, 10.6 or later, or Vitess, by the driver
// github.com/go-sql-driver/mysql.
//
//	b, err := parley.Open(ctx, "mysql://user@host/db", nil) // or mariadb://
//	b, err := parley.New(ctx, mysql.New(db, nil), nil)
//
// # Isolation and locks
//
// Every transaction of the store is READ COMMITTED, in which each statement reads what is committed
// when it begins. So the store first locks rows, and reads them in the next statement. Rows are
// locked one by one through their primary keys, and receivers skip locked rows. Claims walk the
// order with plain reads, and lock what they find by a subquery. So no lock is ever left on rows
// that senders write, and no gap is locked.
//
// InnoDB rolls back the whole transaction that it chooses as a deadlock's victim, and would execute
// later statements outside any transaction. The store notices that, also if it happened to a
// statement of the application. It also notices statements that commit implicitly, such as CREATE
// TABLE. In both cases the transaction fails with backend.ErrSerialization and must be rolled back.
//
// # Sessions
//
// The handle that is passed to New needs no settings. The store sets the level of each transaction,
// unless the session has it anyway. Statements contain their values, so interpolateParams,
// parseTime, the time zone, character sets, collations and sql_mode make no difference. The store
// refuses sessions with autocommit off, and those with the modes EMPTY_STRING_IS_NULL and
// PAD_CHAR_TO_FULL_LENGTH. It changes nothing in a session that the application shares. With
// innodb_snapshot_isolation of MariaDB, a statement fails if it locks a row that has changed
// meanwhile. The store turns that off for each of its statements.
//
// On a connection that takes several statements in a text, a post with a key is one round trip and its commit. The
// savepoint of a handler comes with its first statement there, if that has no arguments or interpolateParams is set. Open
// sets multiStatements, and refuses such texts of the application. For New the application sets it.
//
// When its context ends, a waiting statement is ended by KILL QUERY on another connection of the
// pool. If none is free, its own connection is closed.
//
// # Clusters
//
// On Galera only one node knows a lock. All programs that use one store must use the same node at a
// time; Info warns about that. When a node is lost, calls fail with ErrConnection or
// ErrSerialization.
//
// # Vitess
//
// An unsharded keyspace of Vitess is a database like others; vtgate is known by the version that it reports. A
// keyspace with shards is refused (ErrSharded). A statement that is killed or takes too long loses the connection
// behind vtgate. The error is ErrConnection, and the transaction is over, whatever vtgate reports for later
// statements. There are no procedures for posting by SQL, and no GRANT.
//
// # Wake-ups
//
// The servers have no notifications: receivers in other processes poll.
package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// Options are the settings of a store; nil is the same as none.
type Options struct {
	// Prefix of the names of everything that Migrate makes; default "parley_".
	Prefix string
	// MaxConns limits the pool of Open; default 16. New leaves the pool as it is.
	MaxConns int
}

// Store is a backend on a database of MySQL or MariaDB.
type Store struct {
	sqlstore.Pooled
	pool *pool
}

var _ backend.Backend = (*Store)(nil)

func init() {
	backend.Register(backend.Version,
		func(ctx context.Context, dsn string) (backend.Backend, error) { return Open(ctx, dsn, nil) },
		"mysql", "mariadb")
}

// Open opens a pool. The name is a URL, mysql://user:password@host:port/database. The parameters
// after a question mark go to the driver (tls=true, …), with these exceptions. With socket, a path,
// the pool uses that Unix socket instead of the host. The parameters parley_prefix and
// parley_max_conns set the options of that name.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	opt := *cmp.Or(o, new(Options))
	config, err := opt.take(dsn)
	if err != nil {
		return nil, err
	}
	several := config.MultiStatements
	config.MultiStatements = true
	connector, err := driver.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("parley: mysql: %w", err)
	}
	s := newStore(sqlstore.OpenPool(committed{connector}, opt.MaxConns), opt)
	s.pool.side = sql.OpenDB(sqlstore.Bounded(connector))
	s.pool.side.SetMaxIdleConns(1)
	s.pool.guards = !several
	conn, _, err := s.pool.conn(ctx)
	if err != nil {
		err = s.Late(ctx, err)
		s.Close()
		return nil, err
	}
	conn.Close()
	return s, nil
}

// take makes the driver's configuration of a URL, and sets options by it.
func (o *Options) take(dsn string) (*driver.Config, error) {
	u, err := sqlstore.ParseURL("mysql", dsn)
	if err != nil {
		return nil, err
	}
	database := strings.TrimPrefix(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return nil, errors.New("parley: mysql: the name has no database: write it like mysql://user@host/database")
	}
	network, address := "tcp", u.Host
	var socket, conns string
	if u.Port() == "" {
		address += ":3306"
	}
	q := u.Query()
	err = sqlstore.TakeParams(q, map[string]*string{"parley_prefix": &o.Prefix, "parley_max_conns": &conns, "socket": &socket})
	if err != nil {
		return nil, err
	}
	if err := sqlstore.TakeConns(conns, &o.MaxConns); err != nil {
		return nil, fmt.Errorf("parley: mysql: %w", err)
	}
	if socket != "" {
		network, address = "unix", socket
	}
	// The driver reads parameters only from a name in its own format.
	config, err := driver.ParseDSN("/?" + strings.ReplaceAll(q.Encode(), "+", "%20"))
	if err != nil {
		return nil, fmt.Errorf("parley: mysql: parameters of the name: %w", err)
	}
	config.Net, config.Addr, config.DBName = network, address, database
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Logger = &driver.NopLogger{} // what it would print is in errors
	return config, nil
}

// New makes a store on a pool that the application has opened, and does not
// close it.
func New(db *sql.DB, o *Options) *Store {
	return newStore(db, *cmp.Or(o, new(Options)))
}

func newStore(db *sql.DB, o Options) *Store {
	p := &pool{db: db, known: make(map[any]*session)}
	p.prefix, _, p.invalid = sqlstore.Names(o.Prefix, "", "unlock")
	d := &sqlstore.Dialect{
		Texts:       statements,
		Together:    &backend.Together{Room: 2, KeyedPosts: true},
		Own:         &p.hot,
		Axes:        axes,
		Lock:        "FOR UPDATE",
		Token:       token,
		Adapt:       adapt,
		Invalid:     p.invalid,
		Prefix:      p.prefix,
		Placeholder: func(int) string { return "?" },
		Now:         now,
		ID:          func(id backend.ID) any { return id[:] },
		Begin:       p.begin,
		Read:        p.reader,
		Join:        p.join,
		InTx:        p.inTx,
		Wrap:        func(tx *sqlstore.Tx) backend.Tx { return &Tx{Tx: tx, pool: p} },
		Classify:    p.classify,
		Migrations:  sqlstore.Files(schema),
		// "If the current transaction has a savepoint with the same name, the old
		// savepoint is deleted and a new one is set."
		Replaces: true,
		RemoveFirst: "DROP PROCEDURE IF EXISTS parley_post_with_headers;\n" +
			"DROP PROCEDURE IF EXISTS parley_post;\nDROP TABLE IF EXISTS parley_probe;",
		RemoveLast:   "DROP TABLE IF EXISTS parley_turn;", // which keeps others away until then
		Script:       p.script,
		Hasten:       p.hasten,
		Drain:        p.drain,
		Exclude:      p.exclude,
		Info:         p.info,
		Timeouts:     p.timeouts,
		Lacks:        p.lacks,
		Grants:       p.grants(),
		DB:           db,
		Close:        p.close,
		MaxConns:     func() int { return p.db.Stats().MaxOpenConnections },
		SendOne:      p.send,
		Guards:       p.streams,
		Append:       p.append,
		PostPlain:    p.post,
		PostKeyed:    p.postKeyed,
		PostValues:   true,
		KeyStreams:   p.keyStreams,
		ClaimBatch:   p.claim,
		BeginDialogs: p.beginDialogs,
		EndGuards:    p.endGuards,
		EndSides:     p.endSides,
		EndMany:      p.endMany,
		List:         func(list []backend.ID) any { return ids(list) },
		RemoveQuiet:  p.removeQuiet,
		SettleBatch:  p.settle,
		Drop:         p.drop,
		RemovePosts:  p.removePosts,
		Restore:      p.restore,
		Finish:       p.finish,
		Extend:       p.extend,
		Reclaim:      p.reclaim,
		SubmitBatch:  p.submit,
		StartTasks:   p.start,
		FinishTasks:  p.finishTasks,
		JoinPosts:    p.joinPosts,
	}
	store, err := sqlstore.New(d)
	p.store, p.invalid = store, cmp.Or(p.invalid, err)
	return &Store{sqlstore.OnPool(store, db), p}
}

//go:embed schema/0*.sql
var schema embed.FS

// script runs a file statement by statement, as the command mysql does. Each statement ends at the
// end of a line, with a semicolon or the current DELIMITER.
func (p *pool) script(ctx context.Context, tx backend.Execer, text string) error {
	if p.vitess() {
		var err error
		if text, err = forVitess(ctx, tx, text); err != nil {
			return err
		}
	}
	delimiter := ";"
	var b strings.Builder
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if d, ok := strings.CutPrefix(trimmed, "DELIMITER "); ok {
			delimiter = d
			continue
		}
		if strings.HasPrefix(trimmed, "--") {
			continue
		}
		statement, end := strings.CutSuffix(trimmed, delimiter)
		if !end {
			b.WriteString(line)
			continue
		}
		b.WriteString(statement)
		if _, err := tx.ExecContext(ctx, b.String()); err != nil {
			return err
		}
		b.Reset()
	}
	return nil
}

func (p *pool) info(ctx context.Context) (backend.Info, error) {
	i := backend.Info{Engine: "mysql", Settings: map[string]string{"prefix": p.prefix}}
	conn, _, err := p.conn(ctx)
	if err != nil {
		return i, err
	}
	defer conn.Close()
	v, err := variables(ctx, conn, "version", "version_comment", "transaction_isolation", "tx_isolation", "autocommit",
		"innodb_snapshot_isolation",
		"sql_mode", "innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "binlog_format", "max_allowed_packet",
		"max_connections", "innodb_lock_wait_timeout", "wait_timeout", "read_only", "super_read_only", "wsrep_on",
		"group_replication_group_name", "group_replication_single_primary_mode", "group_replication_consistency")
	if err != nil {
		return i, err
	}
	for name, value := range v {
		i.Settings[name] = value
	}
	i.Version = v["version"]
	if strings.Contains(i.Version, "MariaDB") {
		i.Engine = "mariadb"
	}
	if p.vitess() {
		p.warnVitess(&i)
	}
	sqlstore.Warn(&i, v["innodb_flush_log_at_trx_commit"] != "1", backend.Warning{Code: backend.WarnDurability,
		Text: "innodb_flush_log_at_trx_commit is not 1: a crash may lose messages whose sending had been confirmed"})
	sqlstore.Warn(&i, v["log_bin"] == "ON" && v["sync_binlog"] != "1", backend.Warning{Code: backend.WarnDurability,
		Text: "sync_binlog is not 1: after a crash the binary log and the replicas may lack messages or have extra ones"})
	sqlstore.Warn(&i, v["log_bin"] == "ON" && v["binlog_format"] == "STATEMENT", backend.Warning{Code: backend.WarnIsolation, Bad: true,
		Text: "binlog_format is STATEMENT: InnoDB refuses to write at READ COMMITTED", Hint: "set it to ROW"})
	sqlstore.Warn(&i, v["read_only"] == "ON" || v["super_read_only"] == "ON", backend.Warning{Code: backend.WarnReadOnly, Bad: true,
		Text: "the server is read-only: a replica?", Hint: "connect to the primary"})
	sqlstore.Warn(&i, v["wsrep_on"] == "ON", backend.Warning{Code: backend.WarnCluster,
		Text: "the server is a node of a Galera cluster, whose nodes do not know each other's locks",
		Hint: "have all programs that use this store use the same node at a time"})
	sqlstore.Warn(&i, v["group_replication_group_name"] != "" && v["group_replication_single_primary_mode"] == "OFF", backend.Warning{Code: backend.WarnCluster,
		Text: "the server is a member of a group with several primaries, which do not know each other's locks",
		Hint: "have all programs that use this store use the same one at a time"})
	sqlstore.Warn(&i, v["group_replication_group_name"] != "" && v["group_replication_consistency"] == "EVENTUAL", backend.Warning{Code: backend.WarnCluster,
		Text: "group_replication_consistency is EVENTUAL: a new primary takes transactions before it has applied what the one before has committed, so messages may stay behind",
		Hint: "set it to BEFORE_ON_PRIMARY_FAILOVER"})
	return i, nil
}
