package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// Admission limits how many connections of the pool are held while handlers work, in
// all workers, task pools and deliveries of a Broker together. What handlers send on the side,
// records, heartbeats and maintenance share what is left. A worker that is refused
// holds by lease: it has no connection while it waits for one.
//
// The limit is the pool's less SpareConns. A pool may be smaller than it says (a pool
// behind the pool, a server with few connections, other users). So the limit shrinks
// when a connection could not be had, and grows back slowly.
type Admission struct {
	pool backend.Pool // nil: there is no pool, and no limit
	log  func(held int)

	mu      sync.Mutex
	held    int
	opening int           // of these, how many wait for their connection
	learned int           // limit that was found out, if short is set
	short   bool          // connections were short
	grows   time.Time     // when learned may grow
	pause   time.Duration // between two steps of growth
	last    time.Time     // when connections were short
	changed chan struct{} // closed when there may be room
}

const (
	// SpareConns are for what is done besides handlers.
	SpareConns = 2

	firstGrowth, lastGrowth = time.Second, time.Minute
)

// NewAdmission returns the limit of a pool, nil for none. It calls log when connections are
// short.
func NewAdmission(pool backend.Pool, log func(held int)) *Admission {
	return &Admission{pool: pool, log: log, changed: make(chan struct{})}
}

// room returns how many may be held now, -1 for any number. a.mu is held.
func (a *Admission) room() int {
	room := -1
	if n := a.pool.MaxConns(); n > 0 {
		room = max(n-SpareConns, 0)
	}
	if !a.short {
		return room
	}
	if now := time.Now(); now.After(a.grows) {
		a.learned++
		a.grows = now.Add(a.pause)
	}
	if room >= 0 && a.learned >= room {
		a.short = false
		return room
	}
	return a.learned
}

// Enter counts one more connection that is held, and reports whether it may be. So
// many may be in any case.
func (a *Admission) Enter(least int) bool {
	if a.pool == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if room := a.room(); room >= 0 && a.held >= max(room, least) {
		return false
	}
	a.held++
	return true
}

// Count is Enter for what is held whether it may or not.
func (a *Admission) Count() {
	if a.pool == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held++
}

// Wait is Enter for a handler that needs a connection, which one may have at least. The caller
// takes the connection, and then calls Opened.
func (a *Admission) Wait(ctx context.Context) error {
	if a.pool == nil {
		return nil
	}
	for {
		a.mu.Lock()
		room := a.room()
		if room < 0 || a.held < max(room, 1) {
			a.held++
			a.opening++
			a.mu.Unlock()
			return nil
		}
		changed := a.changed
		a.mu.Unlock()
		timer := time.NewTimer(firstGrowth) // the limit may have grown
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}

// Opened ends the part of Wait's caller that took the connection, or could not take it. It reports
// whether the connection may be held. If connections have turned out to be short meanwhile, those
// who have one may need a second: then the caller lets go of it, and waits again.
func (a *Admission) Opened() bool {
	if a.pool == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opening--
	room := a.room()
	return room < 0 || a.held-a.opening <= max(room, 1)
}

// Leave ends what Enter, Count or Wait began.
func (a *Admission) Leave() {
	if a.pool == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held--
	close(a.changed)
	a.changed = make(chan struct{})
}

// Starved notes that a connection could not be had.
func (a *Admission) Starved() {
	if a.pool == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := max(a.held-a.opening-SpareConns, 0)
	now := time.Now()
	switch recent := now.Sub(a.last) < 2*lastGrowth; {
	case recent && a.short:
		limit = min(limit, a.learned)
		if now.After(a.last.Add(firstGrowth)) { // else it is still the same shortage
			a.pause = min(2*a.pause, lastGrowth)
		}
	default:
		a.pause = firstGrowth
		a.log(a.held - a.opening)
	}
	a.short, a.learned, a.grows, a.last = true, limit, now.Add(a.pause), now
}

// Starving reports whether connections were short a short while ago.
func (a *Admission) Starving() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.short && time.Since(a.last) < 2*lastGrowth
}
