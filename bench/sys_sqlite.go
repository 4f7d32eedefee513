package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/gob"
	"fmt"
	"sync"
	"time"

	"github.com/mikestefanello/backlite"
	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

// goqiteQueue is goqite with its job runner. With a row of the user's it is
// goqite's own receive loop, since the runner deletes in a separate transaction.
type goqiteQueue struct {
	db  *sql.DB
	q   *goqite.Queue
	how goqiteHow
}

type goqiteHow struct {
	limit int
	poll  time.Duration
}

// goqiteSchema is the schema that goqite's repository has users create.
const goqiteSchema = `
CREATE TABLE IF NOT EXISTS goqite (
	id text PRIMARY KEY DEFAULT ('m_' || lower(hex(randomblob(16)))),
	created text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
	updated text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
	queue text NOT NULL,
	body blob NOT NULL,
	timeout text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
	received integer NOT NULL DEFAULT 0,
	priority integer NOT NULL DEFAULT 0
) STRICT;
CREATE TRIGGER IF NOT EXISTS goqite_updated_timestamp AFTER UPDATE ON goqite BEGIN
	UPDATE goqite SET updated = strftime('%Y-%m-%dT%H:%M:%fZ') WHERE id = old.id;
END;
CREATE INDEX IF NOT EXISTS goqite_queue_priority_created_idx ON goqite (queue, priority DESC, created);`

func openOne(path string, schema ...string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", sqliteDSN(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // as goqite's documentation advises
	for _, s := range schema {
		if _, err := db.Exec(s); err != nil {
			db.Close()
			return nil, err
		}
	}
	return db, nil
}

func goqiteWith(how goqiteHow) func(context.Context, string) (queue, error) {
	return func(_ context.Context, path string) (queue, error) {
		db, err := openOne(path, goqiteSchema, createRow)
		if err != nil {
			return nil, err
		}
		return &goqiteQueue{db, goqite.New(goqite.NewOpts{DB: db, Name: "bench"}), how}, nil
	}
}

func (q *goqiteQueue) close() { q.db.Close() }

func (q *goqiteQueue) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (q *goqiteQueue) send(ctx context.Context, body []byte) error {
	return q.batch(ctx, [][]byte{body})
}

func (q *goqiteQueue) batch(ctx context.Context, bodies [][]byte) error {
	return q.inTx(ctx, func(tx *sql.Tx) error {
		for _, b := range bodies {
			if _, err := jobs.CreateTx(ctx, tx, q.q, "bench", goqite.Message{Body: b}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *goqiteQueue) work(ctx context.Context, j job) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if !j.row {
		r := jobs.NewRunner(jobs.NewRunnerOpts{Queue: q.q, Limit: q.how.limit, PollInterval: q.how.poll})
		r.Register("bench", func(_ context.Context, body []byte) error {
			j.handled(body)
			return nil
		})
		wg.Go(func() { r.Start(ctx) })
		return func() { cancel(); wg.Wait() }, nil
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			m, err := q.q.ReceiveAndWait(ctx, max(q.how.poll, time.Millisecond))
			if err != nil {
				break
			}
			err = q.inTx(ctx, func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, insertRow, string(m.ID), "done"); err != nil {
					return err
				}
				return q.q.DeleteTx(ctx, tx, m.ID)
			})
			if err != nil {
				if ctx.Err() == nil {
					fmt.Println("goqite:", err)
				}
				break
			}
			var named struct { // as the runner's
				Name    string
				Message []byte
			}
			if err := gob.NewDecoder(bytes.NewReader(m.Body)).Decode(&named); err != nil {
				fmt.Println("goqite:", err)
				break
			}
			j.handled(named.Message)
		}
	})
	return func() { cancel(); wg.Wait() }, nil
}

// backliteTask is a task of backlite, whose queues are known by its type.
type backliteTask struct{ Body string }

func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "bench", MaxAttempts: 5, Timeout: 10 * time.Second}
}

// backliteQueue is backlite, which acknowledges in a separate transaction.
type backliteQueue struct {
	db      *sql.DB
	client  *backlite.Client
	handled func([]byte)
}

func backliteWith(workers int) func(context.Context, string) (queue, error) {
	return func(_ context.Context, path string) (queue, error) {
		db, err := openOne(path, createRow)
		if err != nil {
			return nil, err
		}
		q := &backliteQueue{db: db}
		q.client, err = backlite.NewClient(backlite.ClientConfig{DB: db, NumWorkers: workers, ReleaseAfter: 10 * time.Minute, CleanupInterval: time.Hour})
		if err == nil {
			err = q.client.Install()
		}
		if err != nil {
			db.Close()
			return nil, err
		}
		q.client.Register(backlite.NewQueue(func(_ context.Context, t backliteTask) error {
			q.handled([]byte(t.Body))
			return nil
		}))
		return q, nil
	}
}

func (q *backliteQueue) close() { q.db.Close() }

func (q *backliteQueue) send(ctx context.Context, body []byte) error {
	return q.batch(ctx, [][]byte{body})
}

func (q *backliteQueue) batch(ctx context.Context, bodies [][]byte) error {
	tasks := make([]backlite.Task, len(bodies))
	for i, b := range bodies {
		tasks[i] = backliteTask{string(b)}
	}
	_, err := q.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

func (q *backliteQueue) work(ctx context.Context, j job) (func(), error) {
	if j.row {
		return nil, errUnsupported
	}
	q.handled = j.handled
	ctx, cancel := context.WithCancel(ctx)
	q.client.Start(ctx)
	return func() {
		stopping, over := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer over()
		q.client.Stop(stopping)
		cancel()
	}, nil
}
