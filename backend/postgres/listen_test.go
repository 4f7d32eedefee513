package postgres_test

import (
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/parleymq/parley/backend/postgres"
)

// pgxPool returns a handle of a pool of pgx, of whose size it knows nothing.
func pgxPool(t *testing.T, conns string) *sql.DB {
	config, err := pgxpool.ParseConfig(with(t, server(t), "pool_max_conns", conns))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	return db
}

// TestListensWhereThereIsRoom: a store listens on a connection of its pool only if
// there are three or more. Otherwise it says once that it polls, and keeps none.
func TestListensWhereThereIsRoom(t *testing.T) {
	limited := func(n int) *sql.DB {
		db := connect(t, "pgx", server(t))
		db.SetMaxOpenConns(n)
		return db
	}
	for name, small := range map[string]*sql.DB{"limit of 1": limited(1), "limit of 2": limited(2), "pgxpool of 2": pgxPool(t, "2")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := open(t, small, postgres.Options{Schema: schema(t, connect(t, "postgres", server(t)))})
			lines := make(chan string, 10)
			s.LogTo(slog.New(slog.NewTextHandler(writer(lines), nil)))
			listening, stop := context.WithCancel(ctx)
			over := make(chan struct{})
			go func() {
				defer close(over)
				s.Listen(listening, func(int64) { t.Error("it listens") })
			}()
			select {
			case line := <-lines:
				if !strings.Contains(line, "event=listen.polls") {
					t.Errorf("it says %q", line)
				}
			case <-ctx.Done():
				t.Error("it does not say that it polls")
			}
			for small.Stats().InUse != 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond) // those that it has counted with go back
			}
			if n := small.Stats().InUse; n != 0 {
				t.Errorf("%d connections are in use", n)
			}
			stop()
			<-over
		})
	}
	t.Run("limit of 3", func(t *testing.T) {
		t.Parallel()
		s := open(t, limited(3), postgres.Options{Schema: schema(t, connect(t, "postgres", server(t)))})
		listening, stop := context.WithCancel(t.Context())
		heard, over := make(chan struct{}, 100), make(chan struct{})
		go func() {
			defer close(over)
			s.Listen(listening, func(int64) { heard <- struct{}{} })
		}()
		<-heard
		stop()
		<-over
	})
}

// writer sends what is written to a channel.
type writer chan<- string

func (w writer) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
