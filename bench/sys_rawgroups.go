package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// pollRaw is how often the hand-written loops look for work when there is none.
const pollRaw = 2 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// rawGroups is the queue of such an application that needs order in groups. Each group has a row,
// which is locked while the group's first message is handled.
type rawGroups struct{ db *sql.DB }

func openRawGroups(ctx context.Context, dsn string) (queue, error) {
	db, err := sql.Open("postgres", libpq(dsn))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS raw_group (name text PRIMARY KEY);
		CREATE TABLE IF NOT EXISTS raw_message (name text NOT NULL, id bigserial, body bytea NOT NULL, PRIMARY KEY (name, id))`)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &rawGroups{db}, nil
}

func (q *rawGroups) close() { q.db.Close() }

func (q *rawGroups) send(ctx context.Context, body []byte) error {
	return q.batchOf(ctx, "one", [][]byte{body})
}

func (q *rawGroups) batch(ctx context.Context, bodies [][]byte) error {
	return q.batchOf(ctx, "one", bodies)
}

func (q *rawGroups) batchOf(ctx context.Context, key string, bodies [][]byte) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO raw_group (name) VALUES ($1) ON CONFLICT DO NOTHING`, key); err != nil {
		return err
	}
	for _, b := range bodies {
		if _, err := tx.ExecContext(ctx, `INSERT INTO raw_message (name, body) VALUES ($1, $2)`, key, b); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (q *rawGroups) work(ctx context.Context, j job) (func(), error) {
	lock, err := q.db.PrepareContext(ctx, `
		SELECT g.name FROM raw_group g
		WHERE EXISTS (SELECT FROM raw_message m WHERE m.name = g.name)
		LIMIT 1 FOR UPDATE OF g SKIP LOCKED`)
	if err != nil {
		return nil, err
	}
	take, err := q.db.PrepareContext(ctx, `
		DELETE FROM raw_message WHERE (name, id) = (SELECT name, id FROM raw_message WHERE name = $1 ORDER BY id LIMIT 1) RETURNING body`)
	if err != nil {
		return nil, err
	}
	one := func() error {
		tx, err := q.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		var name string
		if err := tx.StmtContext(ctx, lock).QueryRowContext(ctx).Scan(&name); err != nil {
			return err
		}
		var body []byte
		if err := tx.StmtContext(ctx, take).QueryRowContext(ctx, name).Scan(&body); err != nil {
			return err
		}
		j.handled(body)
		return tx.Commit()
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range j.readers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := one(); errors.Is(err, sql.ErrNoRows) {
					pause(ctx, pollRaw)
				} else if err != nil && ctx.Err() == nil {
					fmt.Println("raw-groups:", err)
					return
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }, nil
}
