package mysql_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
)

// TestKeysRolledBack: many transactions of two processes use a new key concurrently, and roll back
// one after the other. None loses a deadlock, and each inserts the key. The same holds with further
// new keys, in one process.
func TestKeysRolledBack(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		const rounds, senders = 25, 6
		base := database(t, server)
		f := backendtest.New(t, open(t, connect(t, server, base, nil), nil))
		other := open(t, connect(t, server, base, nil), nil)
		var deadlocks atomic.Int64
		for round := range rounds {
			var all sync.WaitGroup
			stores := []*mysql.Store{f.Backend.(*mysql.Store), other}
			if round%2 == 1 {
				stores[1] = stores[0]
			}
			for i := range senders {
				for _, s := range stores {
					all.Go(func() {
						tx, err := s.Begin(f.Ctx)
						if err != nil {
							t.Error(err)
							return
						}
						defer tx.Rollback(f.Ctx)
						batch := []backend.Posting{f.Posting(backend.Posting{Key: fmt.Sprint("round ", round), Body: fmt.Append(nil, i)})}
						for k := range round % 2 * 3 {
							batch = append(batch, f.Posting(backend.Posting{Key: fmt.Sprint((i+k)%5, " of round ", round)}))
						}
						_, err = tx.Post(f.Ctx, f.Version, batch)
						if errors.Is(err, backend.ErrSerialization) {
							deadlocks.Add(1)
						} else if err != nil {
							t.Error(err)
						}
					})
				}
			}
			all.Wait()
		}
		f.Equal("deadlocks", deadlocks.Load(), int64(0))
		f.Equal("posts", len(f.Drain(f.QP)), 0)
	})
}
