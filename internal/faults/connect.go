package main

import (
	"context"
	"database/sql"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/backend/postgres/pgxstore"
)

// connect opens a store by one of the engine's drivers, on a small pool of connections now and then.
func connect(ctx context.Context, db string) (store parley.Backend, free func(), err error) {
	conns, free := []int{16, 2, 3}[random.IntN(3)], func() {}
	switch scheme, _, _ := strings.Cut(db, ":"); scheme {
	case "postgres":
		return connectPostgres(ctx, db, conns)
	case "mysql":
		store, err = mysql.Open(ctx, db, &mysql.Options{MaxConns: conns})
	default:
		store, err = backend.Open(ctx, db)
	}
	return store, free, err
}

func connectPostgres(ctx context.Context, db string, conns int) (store parley.Backend, free func(), err error) {
	switch random.IntN(3) {
	case 0:
		pool, err := sql.Open("pgx", db)
		if err != nil {
			return nil, nil, err
		}
		pool.SetMaxOpenConns(conns)
		return postgres.New(pool, nil), func() { pool.Close() }, nil
	case 1:
		config, err := pgxpool.ParseConfig(db)
		if err != nil {
			return nil, nil, err
		}
		config.MaxConns = int32(conns)
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, nil, err
		}
		return pgxstore.New(pool, nil), func() { go pool.Close() }, nil // it waits for connections that do not answer
	}
	store, err = postgres.Open(ctx, db, &postgres.Options{MaxConns: conns})
	return store, func() {}, err
}
