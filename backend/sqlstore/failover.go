package sqlstore

import (
	"context"
	"database/sql"
	"time"
)

// After a failover a pool may keep connections to a server that is a standby now, or
// was told to refuse writes. Each works, so nothing closes it, and each transaction
// that gets one fails. So when a server turns out to be read-only, the pool's idle
// connections are closed: the next ones go where the address leads by then.

// leaving is how long after such an error that is done: the transaction that met it
// has given its own connection back by then.
const leaving = 50 * time.Millisecond

// leave closes the pool's idle connections soon.
func (s *Store) leave() {
	if s.d.DB == nil || s.leaving.Swap(true) {
		return
	}
	time.AfterFunc(leaving, func() {
		defer s.leaving.Store(false)
		s.dropIdle()
	})
}

// mostBehind bounds how many connections are looked at that a pool behind the pool has.
const mostBehind = 100

// dropIdle closes as many connections as are idle, and then those that a pool behind
// this one gives out, until a connection may write.
func (s *Store) dropIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for i, idle := 0, s.d.DB.Stats().Idle; i < idle+mostBehind; i++ {
		conn, err := s.d.DB.Conn(ctx)
		if err != nil {
			return
		}
		if i >= idle && !refusesWrites(ctx, conn) {
			conn.Close()
			return
		}
		Discard(conn)
	}
}

// refusesWrites reports whether a transaction that may write cannot begin.
func refusesWrites(ctx context.Context, conn *sql.Conn) bool {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err == nil {
		tx.Rollback()
	}
	return err != nil
}
