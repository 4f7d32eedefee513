package main

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

// waiters is how many queues a process has in these rows, each with a worker that has had a message.
const waiters = 100

// holding measures what a process with idle workers has of memory or of connections.
func holding(of func(ctx context.Context, m *measurement) (float64, error)) func(context.Context, *measurement) (sample, error) {
	return func(ctx context.Context, m *measurement) (v sample, err error) {
		q, err := openParley(ctx, m.dsn, parleyHow{})
		if err != nil {
			return v, err
		}
		defer q.close()
		before, err := of(ctx, m)
		if err != nil {
			return v, err
		}
		run, stop := context.WithCancel(ctx)
		var over, handled sync.WaitGroup
		defer over.Wait()
		defer stop()
		for i := range waiters {
			name := fmt.Sprint("queue-", i)
			if err := q.b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: name}}}); err != nil {
				return v, err
			}
			handled.Add(1)
			w, err := q.b.NewWorker(name, parley.HandlerFunc(func(context.Context, *parley.Message) error { handled.Done(); return nil }), nil)
			if err != nil {
				return v, err
			}
			over.Go(func() { w.Run(run) })
			if _, err := q.b.Post(ctx, name, payload(body(i))); err != nil {
				return v, err
			}
		}
		handled.Wait()
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return v, ctx.Err()
		}
		after, err := of(ctx, m)
		return sample{value: after - before}, err
	}
}

// memory is what the heap and the stacks have, in MiB.
func memory(context.Context, *measurement) (float64, error) {
	runtime.GC()
	runtime.GC() // what finalizers have let go
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc+s.StackInuse) / (1 << 20), nil
}

// connections counts those of the server that have the database of the measurement.
func connections(ctx context.Context, m *measurement) (n float64, err error) {
	driver, dsn, query := "postgres", m.dsn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
	if m.e.name != "postgres" {
		driver, dsn, query = "mysql", driverDSN(m.dsn, true), "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE()"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}
