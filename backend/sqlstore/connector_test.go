package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"testing"
	"time"
)

// deafConnector connects when it is told to, whatever context it is given.
type deafConnector struct {
	driver.Connector
	answer, closed chan struct{}
}

func (c deafConnector) Connect(context.Context) (driver.Conn, error) {
	<-c.answer
	return closingConn{closed: c.closed}, nil
}

type closingConn struct {
	driver.Conn
	closed chan struct{}
}

func (c closingConn) Close() error { close(c.closed); return nil }

func TestConnectIsBounded(t *testing.T) {
	deaf := func() deafConnector { return deafConnector{answer: make(chan struct{}), closed: make(chan struct{})} }
	t.Run("the limit", func(t *testing.T) {
		c := deaf()
		_, err := bounded{c, time.Millisecond}.Connect(t.Context())
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want a time-out that is not the caller's", err)
		}
		close(c.answer)
		<-c.closed // what came too late is closed
	})
	t.Run("the caller's context", func(t *testing.T) {
		c := deaf()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := (bounded{c, time.Hour}).Connect(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's error", err)
		}
		close(c.answer)
		<-c.closed
	})
	t.Run("an answer in time", func(t *testing.T) {
		c := deaf()
		close(c.answer)
		conn, err := bounded{c, time.Hour}.Connect(t.Context())
		if conn == nil || err != nil {
			t.Errorf("%v, %v, want a connection", conn, err)
		}
	})
}
