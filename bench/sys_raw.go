package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/lib/pq"
)

// rawQueue is the queue of an application without a library: a table, and a loop
// that deletes rows and skips locked ones.
type rawQueue struct {
	db     *sql.DB
	sqlite bool
	take   int // messages for each transaction
	ins    *sql.Stmt
	many   *sql.Stmt
	pop    *sql.Stmt
	row    *sql.Stmt
}

func rawWith(driver string, take int) func(context.Context, string) (queue, error) {
	return func(ctx context.Context, dsn string) (queue, error) { return openRaw(ctx, driver, dsn, take) }
}

func openRaw(ctx context.Context, driver, dsn string, take int) (queue, error) {
	q := &rawQueue{take: take, sqlite: driver == "sqlite"}
	conns := 32
	switch driver {
	case "sqlite":
		dsn, conns = sqliteDSN(dsn), 1
	case "postgres":
		dsn = libpq(dsn)
	}
	var err error
	if q.db, err = sql.Open(driver, dsn); err != nil {
		return nil, err
	}
	q.db.SetMaxOpenConns(conns)
	q.db.SetMaxIdleConns(conns)
	statements := []string{`CREATE TABLE IF NOT EXISTS raw_queue (id bigserial PRIMARY KEY, body bytea NOT NULL)`, createRow}
	pop := `DELETE FROM raw_queue WHERE id IN (SELECT id FROM raw_queue ORDER BY id LIMIT %d FOR UPDATE SKIP LOCKED) RETURNING body`
	if q.sqlite {
		statements[0] = `CREATE TABLE IF NOT EXISTS raw_queue (id integer PRIMARY KEY AUTOINCREMENT, body blob NOT NULL)`
		pop = `DELETE FROM raw_queue WHERE id IN (SELECT id FROM raw_queue ORDER BY id LIMIT %d) RETURNING body`
	}
	for _, s := range statements {
		if _, err := q.db.ExecContext(ctx, s); err != nil {
			return nil, err
		}
	}
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&q.ins, `INSERT INTO raw_queue (body) VALUES ($1)`},
		{&q.pop, fmt.Sprintf(pop, take)},
		{&q.row, insertRow},
		{&q.many, `INSERT INTO raw_queue (body) SELECT unnest($1::bytea[])`},
	} {
		if q.sqlite && p.to == &q.many {
			continue
		}
		if *p.to, err = q.db.PrepareContext(ctx, p.text); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (q *rawQueue) close() { q.db.Close() }

func (q *rawQueue) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (q *rawQueue) send(ctx context.Context, body []byte) error {
	return q.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.StmtContext(ctx, q.ins).ExecContext(ctx, body)
		return err
	})
}

func (q *rawQueue) sendOwn(ctx context.Context, body []byte) error {
	return q.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.StmtContext(ctx, q.row).ExecContext(ctx, string(body[:12]), "ordered"); err != nil {
			return err
		}
		_, err := tx.StmtContext(ctx, q.ins).ExecContext(ctx, body)
		return err
	})
}

func (q *rawQueue) batch(ctx context.Context, bodies [][]byte) error {
	return q.inTx(ctx, func(tx *sql.Tx) error {
		if !q.sqlite {
			_, err := tx.StmtContext(ctx, q.many).ExecContext(ctx, pq.ByteaArray(bodies))
			return err
		}
		for len(bodies) > 0 {
			n := min(100, len(bodies))
			args := make([]any, n)
			for i, b := range bodies[:n] {
				args[i] = b
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO raw_queue (body) VALUES (?)`+strings.Repeat(`, (?)`, n-1), args...); err != nil {
				return err
			}
			bodies = bodies[n:]
		}
		return nil
	})
}

var errNothing = errors.New("nothing there")

func (q *rawQueue) work(ctx context.Context, j job) (func(), error) {
	readers := j.readers
	if q.sqlite {
		readers = 1 // there is one writer
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := q.inTx(ctx, func(tx *sql.Tx) error { return q.receive(ctx, tx, j) })
				if errors.Is(err, errNothing) {
					pause(ctx, pollRaw)
				} else if err != nil && ctx.Err() == nil {
					fmt.Println("raw:", err)
					return
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }, nil
}

func (q *rawQueue) receive(ctx context.Context, tx *sql.Tx, j job) error {
	rows, err := tx.StmtContext(ctx, q.pop).QueryContext(ctx)
	if err != nil {
		return err
	}
	var got [][]byte
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return err
		}
		got = append(got, b)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(got) == 0 {
		return errNothing
	}
	for _, b := range got {
		if j.row {
			if _, err := tx.StmtContext(ctx, q.row).ExecContext(ctx, string(b[:12]), "done"); err != nil {
				return err
			}
		}
		j.handled(b)
	}
	return nil
}
