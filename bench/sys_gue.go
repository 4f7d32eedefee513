package main

import (
	"context"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

// gueQueue is gue on pgx.
type gueQueue struct {
	pool   *pgxpool.Pool
	client *gue.Client
	how    gueHow
}

// gueHow are gue's settings. Zero: gue's own.
type gueHow struct {
	byRunAt bool
	workers int
	poll    time.Duration
}

// gueSchema is the table that gue's documentation has users create by their own
// migrations.
const gueSchema = `
CREATE TABLE IF NOT EXISTS gue_jobs (
	job_id text NOT NULL PRIMARY KEY,
	priority smallint NOT NULL,
	run_at timestamptz NOT NULL,
	job_type text NOT NULL,
	args bytea NOT NULL,
	error_count integer NOT NULL DEFAULT 0,
	last_error text,
	queue text NOT NULL,
	created_at timestamptz NOT NULL,
	updated_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_gue_jobs_selector ON gue_jobs (queue, run_at, priority);`

func gueWith(how gueHow) func(context.Context, string) (queue, error) {
	return func(ctx context.Context, dsn string) (queue, error) {
		pool, err := openPgxPool(ctx, dsn)
		if err != nil {
			return nil, err
		}
		q := &gueQueue{pool: pool, how: how}
		if _, err = pool.Exec(ctx, gueSchema+createRow); err == nil {
			q.client, err = gue.NewClient(pgxv5.NewConnPool(pool))
		}
		if err != nil {
			pool.Close()
			return nil, err
		}
		return q, nil
	}
}

func (q *gueQueue) close() { q.pool.Close() }

func (q *gueQueue) send(ctx context.Context, body []byte) error {
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		return q.client.EnqueueTx(ctx, &gue.Job{Type: "bench", Args: body}, pgxv5.NewTx(tx))
	})
}

func (q *gueQueue) batch(ctx context.Context, bodies [][]byte) error {
	jobs := make([]*gue.Job, len(bodies))
	for i, b := range bodies {
		jobs[i] = &gue.Job{Type: "bench", Args: b}
	}
	return pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		return q.client.EnqueueBatchTx(ctx, jobs, pgxv5.NewTx(tx))
	})
}

func (q *gueQueue) work(ctx context.Context, j job) (func(), error) {
	work := gue.WorkMap{"bench": func(ctx context.Context, job *gue.Job) error {
		if j.row {
			if _, err := job.Tx().Exec(ctx, insertRow, string(job.Args[:12]), "done"); err != nil {
				return err
			}
		}
		j.handled(job.Args)
		return nil
	}}
	var o []gue.WorkerPoolOption
	if q.how.byRunAt {
		o = append(o, gue.WithPoolPollStrategy(gue.RunAtPollStrategy))
	}
	if q.how.poll > 0 {
		o = append(o, gue.WithPoolPollInterval(q.how.poll))
	}
	n := q.how.workers
	if n == 0 {
		n = j.readers
	}
	pool, err := gue.NewWorkerPool(q.client, work, n, o...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := pool.Run(ctx); err != nil && ctx.Err() == nil {
			fmt.Println("gue:", err)
		}
	})
	return func() { cancel(); wg.Wait() }, nil
}
