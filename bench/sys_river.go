package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverArgs struct {
	Body string `json:"body"`
}

func (riverArgs) Kind() string { return "bench" }

// riverWorker works on jobs; with row it completes them in its own transaction.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	pool *pgxpool.Pool
	job  job
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[riverArgs]) error {
	if w.job.row {
		tx, err := w.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if _, err := tx.Exec(ctx, insertRow, j.Args.Body[:12], "done"); err != nil {
			return err
		}
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
	}
	w.job.handled([]byte(j.Args.Body))
	return nil
}

// riverQueue is River on pgx.
type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	how    riverHow
}

// riverHow are River's settings. Zero: River's own.
type riverHow struct {
	workers  int // MaxWorkers has no default: examples use 100
	cooldown time.Duration
	poll     time.Duration
}

func riverWith(how riverHow) func(context.Context, string) (queue, error) {
	return func(ctx context.Context, dsn string) (queue, error) { return openRiver(ctx, dsn, how) }
}

func openRiver(ctx context.Context, dsn string, how riverHow) (queue, error) {
	pool, err := openPgxPool(ctx, dsn)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{pool: pool, how: how}
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		_, err = pool.Exec(ctx, createRow)
	}
	if err == nil {
		q.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet(), FetchCooldown: how.cooldown, FetchPollInterval: how.poll})
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

// openPgxPool is for the systems on pgx.
func openPgxPool(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	c.MaxConns = 40
	return pgxpool.NewWithConfig(ctx, c)
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 4}))
}

func (q *riverQueue) close() { q.pool.Close() }

func (q *riverQueue) send(ctx context.Context, body []byte) error {
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		_, err := q.client.InsertTx(ctx, tx, riverArgs{string(body)}, nil)
		return err
	})
}

func (q *riverQueue) sendOwn(ctx context.Context, body []byte) error {
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertRow, string(body[:12]), "ordered"); err != nil {
			return err
		}
		_, err := q.client.InsertTx(ctx, tx, riverArgs{string(body)}, nil)
		return err
	})
}

func (q *riverQueue) batch(ctx context.Context, bodies [][]byte) error {
	many := make([]river.InsertManyParams, len(bodies))
	for i, b := range bodies {
		many[i].Args = riverArgs{string(b)}
	}
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		_, err := q.client.InsertManyFastTx(ctx, tx, many)
		return err
	})
}

func (q *riverQueue) work(ctx context.Context, j job) (func(), error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{pool: q.pool, job: j})
	n := q.how.workers
	if n == 0 {
		n = 100
	}
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Logger: quiet(), Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: n}},
		FetchCooldown: q.how.cooldown, FetchPollInterval: q.how.poll,
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if client.StopAndCancel(ctx) != nil {
			return
		}
	}, nil
}
