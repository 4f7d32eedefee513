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
		dropIdle(s.d.DB)
	})
}

// dropIdle closes as many connections as are idle. It waits for none.
func dropIdle(db *sql.DB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for range db.Stats().Idle {
		conn, err := db.Conn(ctx)
		if err != nil {
			return
		}
		Discard(conn)
	}
}
