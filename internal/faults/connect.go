package main

import (
	"context"
	"database/sql"
	"net/url"
	"strings"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/backend/postgres/pgxstore"
)

// connection is a store, and a pool of the program's on the same database.
type connection struct {
	store    parley.Backend
	begin    func(ctx context.Context, b *parley.Broker) (joined, error) // nil: the program does not join
	snapshot bool                                                        // transactions read what was there at their start
	close    func()
}

// joined is a transaction of the program's that a broker has joined.
type joined struct {
	tx               *parley.Tx
	commit, rollback func() error
}

// connect opens a store by one of the engine's drivers, on a small pool of connections now and then.
func connect(ctx context.Context, db string) (c connection, err error) {
	conns := []int{16, 2, 3}[random.IntN(3)]
	switch scheme, _, _ := strings.Cut(db, ":"); scheme {
	case "postgres":
		c, err = []func(context.Context, string, int) (connection, error){byPQ, byPGX, byPool}[random.IntN(3)](ctx, db, conns)
	case "mysql":
		c, err = onMySQL(ctx, db, conns)
	case "sqlite":
		c, err = onSQLite(ctx, db)
	default:
		c.close = func() {}
		c.store, err = backend.Open(ctx, db)
	}
	if err != nil && c.close != nil {
		c.close()
	}
	return c, err
}

func byPQ(ctx context.Context, db string, conns int) (connection, error) {
	own, err := sql.Open("postgres", db)
	if err != nil {
		return connection{}, err
	}
	store, err := postgres.Open(ctx, db, &postgres.Options{MaxConns: conns})
	return owning(store, own, sql.LevelDefault), err
}

// byPGX is for a store on the program's own pool.
func byPGX(_ context.Context, db string, conns int) (connection, error) {
	own, err := sql.Open("pgx", db)
	if err != nil {
		return connection{}, err
	}
	own.SetMaxOpenConns(conns)
	return owning(postgres.New(own, nil), own, sql.LevelDefault), nil
}

func byPool(ctx context.Context, db string, conns int) (c connection, err error) {
	config, err := pgxpool.ParseConfig(db)
	if err != nil {
		return c, err
	}
	config.MaxConns = int32(conns)
	own, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return c, err
	}
	c.store = pgxstore.New(own, nil)
	c.close = func() { go own.Close() } // which waits for connections that do not answer
	c.begin = func(ctx context.Context, b *parley.Broker) (t joined, err error) {
		tx, err := own.Begin(ctx)
		if err == nil {
			t.tx = pgxstore.Join(b, tx)
			t.commit, t.rollback = func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) }
		}
		return t, err
	}
	return c, nil
}

func onMySQL(ctx context.Context, db string, conns int) (c connection, err error) {
	u, err := url.Parse(db)
	if err != nil {
		return c, err
	}
	config := mysqlConfig(u)
	config.Logger, config.RejectReadOnly = &driver.NopLogger{}, true
	config.InterpolateParams, config.MultiStatements = random.IntN(2) == 0, random.IntN(2) == 0
	own, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		return c, err
	}
	store, err := mysql.Open(ctx, db, &mysql.Options{MaxConns: conns})
	c = owning(store, own, []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted}[random.IntN(2)])
	var name, value string
	if err == nil {
		err = own.QueryRowContext(ctx, "SHOW VARIABLES LIKE 'wsrep_on'").Scan(&name, &value)
	}
	switch {
	case err == sql.ErrNoRows:
		err = nil
	case value == "ON": // Galera: a migration rolls back what is in its way, and a joined transaction goes on without it
		c.begin = nil
	}
	return c, err
}

func onSQLite(ctx context.Context, db string) (connection, error) {
	own, err := sql.Open("sqlite", sqliteFile(db)+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return connection{}, err
	}
	store, err := backend.Open(ctx, db)
	return owning(store, own, sql.LevelDefault), err
}

// owning is a store beside a pool of package database/sql.
func owning(store parley.Backend, own *sql.DB, level sql.IsolationLevel) connection {
	_, isMySQL := store.(*mysql.Store)
	return connection{store: store, snapshot: isMySQL && level == sql.LevelDefault, close: func() { own.Close() },
		begin: func(ctx context.Context, b *parley.Broker) (t joined, err error) {
			tx, err := own.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err == nil {
				t = joined{b.Join(tx), tx.Commit, tx.Rollback}
			}
			return t, err
		}}
}
