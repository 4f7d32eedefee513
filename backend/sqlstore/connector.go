package sqlstore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"net"
	"os"
	"time"
)

// connectTime bounds how long connecting to a server takes. A server that accepts and never
// answers would otherwise keep its caller, and a place in the pool, forever.
const connectTime = 10 * time.Second

// bounded is a connector that gives up after a time, or when the caller's context ends, even if its
// driver does not. While lib/pq waits for the server's first answer, it checks neither.
type bounded struct {
	driver.Connector
	limit time.Duration
}

// Bounded returns a connector that obeys the caller's context, and a limit of its own.
func Bounded(c driver.Connector) driver.Connector { return bounded{c, connectTime} }

// Connect implements driver.Connector.
func (c bounded) Connect(ctx context.Context) (driver.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	type result struct {
		conn driver.Conn
		err  error
	}
	connected := make(chan result, 1)
	go func() {
		conn, err := c.Connector.Connect(limited)
		connected <- result{conn, err}
	}()
	select {
	case r := <-connected:
		cancel()
		return r.conn, r.err
	case <-limited.Done():
	}
	go func() {
		defer cancel()
		if r := <-connected; r.err == nil {
			r.conn.Close()
		}
	}()
	return nil, &net.OpError{Op: "connect", Err: cmp.Or(ctx.Err(), os.ErrDeadlineExceeded)}
}
