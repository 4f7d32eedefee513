package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres/pgxstore"
)

// poolQueue is Parley on the pgxpool of a program that works with pgx.
type poolQueue struct {
	*parleyQueue
	pool *pgxpool.Pool
}

func openPoolQueue(ctx context.Context, dsn string) (queue, error) {
	pool, err := openPgxPool(ctx, dsn)
	if err != nil {
		return nil, err
	}
	q := &poolQueue{&parleyQueue{how: parleyHow{worker: large}, insert: insertRow, dsn: dsn}, pool}
	if q.b, err = parley.New(ctx, pgxstore.New(pool, nil), nil); err != nil {
		pool.Close()
		return nil, err
	}
	if _, err = pool.Exec(ctx, createRow); err == nil {
		err = q.prepare(ctx)
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (q *poolQueue) close() {
	q.b.Close()
	q.pool.Close()
}

func (q *poolQueue) sendOwn(ctx context.Context, body []byte) error {
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertRow, string(body[:12]), "ordered"); err != nil {
			return err
		}
		_, err := pgxstore.Join(q.b, tx).Post(ctx, "jobs", payload(body))
		return err
	})
}
