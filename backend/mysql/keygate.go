package mysql

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend/sqlstore"
)

// A keygate lets one transaction of a pool at a time insert a key. Of two that wait
// in their INSERTs for a third one InnoDB makes a deadlock when that one rolls back:
// each then has a shared lock on the gap that the other wants to insert into. It is
// no lock that anything depends on, and is had for one statement.
type keygate struct {
	mu   sync.Mutex
	busy map[sqlstore.Key]chan struct{} // closed when it is free
}

// keygateWait is how long to wait for others before doing without. They wait in turn
// for somebody whose transaction is open, and he may come here for another key.
const keygateWait = 3 * time.Second

// enter waits until nobody else inserts any of the keys, and returns how to let others.
func (g *keygate) enter(ctx context.Context, keys []sqlstore.Key) (leave func()) {
	timeout := time.NewTimer(keygateWait)
	defer timeout.Stop()
	mine := make(chan struct{})
	for {
		other := g.take(keys, mine)
		if other == nil {
			return func() { g.leave(keys, mine) }
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

// take marks all of the keys, or returns who has one of them.
func (g *keygate) take(keys []sqlstore.Key, mine chan struct{}) (other chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.IndexFunc(keys, func(k sqlstore.Key) bool { return g.busy[k] != nil }); i >= 0 {
		return g.busy[keys[i]]
	}
	if g.busy == nil {
		g.busy = make(map[sqlstore.Key]chan struct{})
	}
	for _, k := range keys {
		g.busy[k] = mine
	}
	return nil
}

func (g *keygate) leave(keys []sqlstore.Key, mine chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range keys {
		delete(g.busy, k)
	}
	close(mine)
}
