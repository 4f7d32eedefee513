package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// hotRows is how many rows the handlers of the row "drainhot" share.
const hotRows = 50

// hotDrainLoad is long enough for the second that PostgreSQL takes to find a deadlock.
func hotDrainLoad(*measurement) loader { return loader{n: 10_000} }

// drainingHot empties a queue whose handlers each change one of a few rows, in the
// transaction that acknowledges the message. A batch has the locks of all its handlers
// until it commits, so long batches deadlock, or wait for each other. What was rolled
// back is done again: it counts from the start until the rows add up.
func drainingHot(ctx context.Context, m *measurement) (sample, error) {
	how := parleyHow{}
	if m.s.name == "parley-single" {
		how.worker.MaxBatch = 1
	}
	q, err := openParley(ctx, m.dsn, how)
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	db, err := hotTable(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	defer db.Close()
	handler := parley.HandlerFunc(func(ctx context.Context, msg *parley.Message) error {
		tx, err := msg.Tx(ctx)
		if err == nil {
			_, err = tx.SQL().ExecContext(ctx, fmt.Sprintf("UPDATE bench_hot SET n = n + 1 WHERE id = %d", 1+rand.IntN(hotRows)))
		}
		return err
	})
	want := hotDrainLoad(m).n
	m.begin()
	start := time.Now()
	for done := 0; done < want; { // what deadlocked is due again after a moment
		if err := sure.Of(q.b.NewWorker("jobs", handler, &q.how.worker)).Drain(ctx); err != nil {
			return sample{}, err
		}
		if err := db.QueryRowContext(ctx, "SELECT sum(n) FROM bench_hot").Scan(&done); err != nil {
			return sample{}, err
		}
	}
	return sample{value: float64(want) / time.Since(start).Seconds(), n: want}, nil
}

// hotTable makes the rows.
func hotTable(ctx context.Context, dsn string) (db *sql.DB, err error) {
	if strings.HasPrefix(dsn, "postgres") {
		db, err = sql.Open("postgres", libpq(dsn))
	} else {
		db, err = sql.Open("mysql", driverDSN(dsn, true))
	}
	if err != nil {
		return nil, err
	}
	rows := make([]string, hotRows)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, 0)", i+1)
	}
	for _, text := range []string{
		"CREATE TABLE bench_hot (id int PRIMARY KEY, n int NOT NULL)",
		"INSERT INTO bench_hot (id, n) VALUES " + strings.Join(rows, ", "),
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			db.Close()
			return nil, err
		}
	}
	return db, nil
}
