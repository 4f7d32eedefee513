package workertest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// Statements: rows that the application leaves open, and its running statements, block neither other transactions
// nor the end of workers and the Broker. The query sleep takes a minute. The function write, if it is set, writes
// something by another handle. Without it the engine runs one statement at a time on a connection, and a verb says
// so.
func Statements(t *testing.T, sleep string, write func(t *testing.T), open func(*testing.T) backend.Backend) {
	const rows = "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3"
	t.Run("rows in a transaction", func(t *testing.T) {
		b := limited(t, open(t))
		for range 20 { // more than there are connections
			within(t, "a transaction ends", func() {
				err := b.InTx(t.Context(), func(tx *parley.Tx) error {
					_, err := tx.SQL().QueryContext(context.Background(), rows) //nolint:sqlclosecheck // it is left open
					if err == nil {
						_, err = tx.Post(context.Background(), "jobs", parley.Payload{Body: []byte("beside rows")})
					}
					return err
				})
				if want := write == nil; errors.Is(err, parley.ErrRowsOpen) != want || !want && err != nil {
					t.Errorf("a post beside open rows fails with %v", err)
				}
			})
			if write != nil {
				write(t)
			}
			b.post(t)
		}
		within(t, "the Broker closes", func() { b.Close() })
	})
	t.Run("rows of a handler", func(t *testing.T) {
		b := limited(t, open(t))
		b.post(t)
		handler := func(ctx context.Context, m *parley.Message) error {
			tx, err := m.Tx(ctx)
			if err == nil {
				_, err = tx.SQL().QueryContext(context.Background(), rows) //nolint:sqlclosecheck // it is left open
			}
			return err
		}
		b.work(t, &parley.WorkerOptions{MaxAttempts: 2, Backoff: func(int) time.Duration { return time.Millisecond }}, handler,
			func(q parley.QueueStatus) bool { return q.Depth+q.Deferred == 0 })
		within(t, "the Broker closes", func() { b.Close() })
	})
	t.Run("a long statement of a handler", func(t *testing.T) {
		b := limited(t, open(t))
		b.post(t)
		ctx, stop := context.WithCancel(t.Context())
		begun := make(chan struct{}, 10)
		over := make(chan error, 1)
		go func() {
			over <- sure.Of(b.NewWorker("jobs", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
				tx, err := m.Tx(ctx)
				if err != nil {
					return err
				}
				begun <- struct{}{}
				var n sql.RawBytes
				return tx.SQL().QueryRowContext(context.Background(), sleep).Scan(&n)
			}), &parley.WorkerOptions{MaxReaders: 1, Grace: 100 * time.Millisecond})).Run(ctx)
		}()
		<-begun
		time.Sleep(100 * time.Millisecond) // it is at the statement now; if not, it is refused
		stop()
		within(t, "the worker ends", func() { t.Logf("it ended with %v", <-over) })
		within(t, "the Broker closes", func() { b.Close() })
	})
}

// within fails the test if f does not return in time: what it must not wait for takes for ever.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	begun := time.Now()
	select {
	case <-done:
	case <-time.After(slow.By(25 * time.Second)):
		t.Fatal(slow.Failure(t.Failed(), what, time.Since(begun), nil))
	}
}
