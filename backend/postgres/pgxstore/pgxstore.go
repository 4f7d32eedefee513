// Package pgxstore keeps Parley's conversations in PostgreSQL for programs that work with
// pgx: on their pgxpool.Pool, and in their own transactions.
//
//	pool, err := pgxpool.New(ctx, dsn)
//	b, err := parley.New(ctx, pgxstore.New(pool, nil), nil)
//
// What is sent in a transaction of the program's own commits, or is rolled back, with it:
//
//	tx, err := pool.Begin(ctx)
//	_, err = tx.Exec(ctx, "INSERT INTO orders …")
//	_, err = pgxstore.Join(b, tx).Post(ctx, "mail", parley.Payload{Body: body})
//	err = tx.Commit(ctx)
//
// A handler writes in the transaction that also acknowledges its message:
//
//	func(ctx context.Context, m *parley.Message) error {
//		tx, err := m.Tx(ctx)
//		…
//		own, err := pgxstore.Tx(ctx, tx)
//		…
//		_, err = own.Exec(ctx, "UPDATE orders …")
//		return err
//	}
//
// The store is that of package postgres, whose options, locks and limits are the same. It
// takes connections from the pool one by one, gives each back at once, and never holds more
// than the pool's MaxConns. One of them listens for wake-ups if there are three or more. pgx
// prepares the statements and keeps them with their connections. Behind a pooler in
// transaction mode it has to be told not to: default_query_exec_mode=exec.
package pgxstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/postgres"
)

// Store is a backend on a pool of pgx.
type Store struct {
	*postgres.Store
	db *sql.DB
}

var _ backend.Backend = (*Store)(nil)

// New makes a store on a pool that the program has opened. Close leaves the pool open.
func New(pool *pgxpool.Pool, o *postgres.Options) *Store {
	db := sql.OpenDB(acquiring{stdlib.GetPoolConnector(pool), pool})
	db.SetMaxIdleConns(0) // the pool keeps them
	db.SetMaxOpenConns(int(pool.Config().MaxConns))
	return &Store{postgres.New(db, o), db}
}

// acquiring distinguishes two waits. One is for a connection that is being opened, perhaps to a
// server that does not answer. The other is for a connection that others use. The pool opens
// connections in the background, and returns the context's error for both.
type acquiring struct {
	driver.Connector
	pool *pgxpool.Pool
}

// Connect implements driver.Connector.
func (a acquiring) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := a.Connector.Connect(ctx)
	if err != nil && err == ctx.Err() && a.pool.Stat().AcquiredConns() < a.pool.Config().MaxConns {
		err = &net.OpError{Op: "connect", Err: err}
	}
	return c, err
}

// Close implements backend.Backend.
func (s *Store) Close() error { return errors.Join(s.Store.Close(), s.db.Close()) }
