package mysql

import (
	"context"
	"sync"
	"time"

	"github.com/parleymq/parley/backend/sqlstore"
)

// A keyInsertLimiter lets one transaction of a pool at a time insert a key. When two
// transactions wait in their INSERTs for a third one and that one rolls back, InnoDB makes a
// deadlock. Each then has a shared lock on the gap that the other wants to insert into. The
// turn is no lock that anything depends on, and lasts for one statement.
type keyInsertLimiter struct {
	mu   sync.Mutex
	busy map[sqlstore.Key]chan struct{} // closed when it is free
}

// keyInsertWait is how long to wait for others before doing without. They wait in turn
// for an open transaction, which may come here for another key.
const keyInsertWait = 3 * time.Second

// enter waits until no other transaction inserts the key, and returns how to let others.
func (g *keyInsertLimiter) enter(ctx context.Context, key sqlstore.Key) (leave func()) {
	timeout := time.NewTimer(keyInsertWait)
	defer timeout.Stop()
	mine := make(chan struct{})
	for {
		other := g.take(key, mine)
		if other == nil {
			return func() { g.leave(mine, key) }
		}
		select {
		case <-other:
		case <-timeout.C:
			return func() {}
		case <-ctx.Done(): // the statement will say so
			return func() {}
		}
	}
}

// enterAll marks the keys if no other transaction inserts one of them, and returns how to let others.
func (g *keyInsertLimiter) enterAll(keys []sqlstore.Key) (leave func(), ok bool) {
	mine := make(chan struct{})
	for i, k := range keys {
		if g.take(k, mine) != nil {
			g.leave(mine, keys[:i]...)
			return nil, false
		}
	}
	return func() { g.leave(mine, keys...) }, true
}

// take marks the key, or returns who has it.
func (g *keyInsertLimiter) take(key sqlstore.Key, mine chan struct{}) (other chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy == nil {
		g.busy = make(map[sqlstore.Key]chan struct{})
	}
	if other = g.busy[key]; other == nil {
		g.busy[key] = mine
	}
	return other
}

func (g *keyInsertLimiter) leave(mine chan struct{}, keys ...sqlstore.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		delete(g.busy, key)
	}
	close(mine)
}
