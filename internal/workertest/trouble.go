package workertest

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// ignored: a handler that does not mind that a statement has failed, and returns the
// error of the next one, is charged like any other. On PostgreSQL that error says no
// more than that the transaction has failed before.
func (s *shop) ignored() {
	s.post("guilty")
	var tries atomic.Int64
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	over := make(chan error, 1)
	w := sure.Of(s.b.NewWorker("q", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		tries.Add(1)
		tx, err := m.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.SQL().ExecContext(ctx, "INSERT INTO account (id, balance) VALUES (1, 1)"); err == nil {
			s.Error("a second account of one number could be made")
		}
		_, err = tx.SQL().ExecContext(ctx, "INSERT INTO effect (body) VALUES ('never')")
		return errors.Join(err, errors.New("it fails in any case"))
	}), &parley.WorkerOptions{Hold: s.hold, MaxAttempts: 3, Backoff: func(int) time.Duration { return time.Millisecond }}))
	go func() { over <- w.Run(ctx) }()
	s.until("a message that always fails is not parked", func() bool {
		q, err := s.b.Admin().Queues(s.ctx, "q")
		s.must(err)
		return q[0].Parked == 1
	})
	stop()
	s.must(<-over)
	if n := tries.Load(); n != 3 {
		s.Errorf("it was tried %d times, want 3", n)
	}
}

// refused: when the server refuses writes, the pool's connections to it are closed. New connections
// may then lead to another server.
func (s *shop) refused() {
	s.must(s.b.Close())
	s.broker(&parley.Options{NoMaintenance: true})
	const n = 3
	s.db.SetMaxIdleConns(n)
	old := make([]*sql.Conn, n)
	for i := range old {
		var err error
		old[i], err = s.db.Conn(s.ctx)
		s.must(err)
		_, err = old[i].ExecContext(s.ctx, "CREATE TEMPORARY TABLE parley_old (x INT)")
		s.must(err)
	}
	for _, c := range old {
		s.must(c.Close())
	}
	s.until("connections to a server that takes no writes stay in the pool", func() bool {
		tx, err := s.db.BeginTx(s.ctx, &sql.TxOptions{ReadOnly: true})
		s.must(err)
		if _, err := s.b.Join(tx).Post(s.ctx, "q", parley.Payload{}); !errors.Is(err, parley.ErrReadOnly) {
			s.Errorf("a post in a transaction that may only read: %v", err)
		}
		s.must(tx.Rollback())
		time.Sleep(100 * time.Millisecond) // what is in use just then is not closed, but the next time
		fresh := 0
		var taken []*sql.Conn
		for range n {
			c, err := s.db.Conn(s.ctx)
			s.must(err)
			taken = append(taken, c)
			if _, err := c.ExecContext(s.ctx, "SELECT x FROM parley_old"); err != nil {
				fresh++
			}
		}
		for _, c := range taken {
			s.must(c.Close())
		}
		return fresh == n
	})
}

// until waits for something, and fails the test if it does not come.
func (s *shop) until(otherwise string, f func() bool) {
	s.Helper()
	slow.Eventually(s, 20*time.Second, otherwise, func() (any, bool) { return nil, f() })
}
