package postgres

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/lib/pq"
)

// pings are how often to ask whether a listener's connection still lives, and how
// long the server may take to answer.
type pings struct{ every, limit time.Duration }

// listenPQ listens on a connection of lib/pq until ctx ends. The driver listens
// again by itself when the connection was lost, and then sends nil.
func (p *pool) listenPQ(ctx context.Context, wake func(int64)) {
	d := &listenDialer{ctx: ctx}
	defer context.AfterFunc(ctx, d.cut)()
	l := pq.NewDialListener(d, prompt(p.listen), 50*time.Millisecond, 5*time.Second, nil)
	defer func() {
		d.cut()
		l.Close()
		go func() { // which may be about to send, or pause before it tries again
			for range l.NotificationChannel() {
			}
		}()
	}()
	listening := make(chan error, 1)
	go func() { listening <- l.Listen(*p.wakes.Load()) }() // it quotes the name, and waits for the connection
	select {
	case err := <-listening:
		if err != nil {
			return
		}
	case <-ctx.Done():
		return
	}
	wake(0)
	ping := time.NewTicker(p.pings.every)
	defer ping.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-l.NotificationChannel():
			if n == nil {
				wake(0)
			} else {
				wakeAll(n.Extra, wake)
			}
		case <-ping.C:
			go func() {
				late := time.AfterFunc(p.pings.limit, d.cut)
				defer late.Stop()
				l.Ping()
			}()
		}
	}
}

// listenDialer opens the connection of a listener, and can cut it. The listener waits without limit
// for what the server says, and holds a lock that its Close needs. If a connection was dropped
// silently, nothing else ends that wait.
type listenDialer struct {
	net.Dialer
	ctx context.Context

	mu   sync.Mutex
	conn net.Conn
}

// DialContext implements pq.DialerContext.
func (d *listenDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.conn = conn
	d.mu.Unlock()
	if d.ctx.Err() != nil {
		d.cut()
	}
	return conn, nil
}

// DialTimeout implements pq.Dialer, which prefers DialContext.
func (d *listenDialer) DialTimeout(network, address string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// cut closes the connection under the listener.
func (d *listenDialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		d.conn.Close()
	}
}
