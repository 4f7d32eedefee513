package console

import (
	"context"
	"sync"
	"time"
)

// cache keeps what was read for a moment, so that many pages that show the same read it once.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// entry is a read, which is over when done is closed.
type entry struct {
	done  chan struct{}
	at    time.Time
	value any
	err   error
}

// most is how many entries there can be, and stale is when others push one out.
const (
	most  = 500
	stale = 10 * time.Second
)

// cached returns what f has returned at most an age ago, or calls it. Requests for the same value wait for one call,
// so the end of one request must not end it: f has a separate time limit.
func cached[T any](ctx context.Context, c *cache, key string, age time.Duration, f func() (T, error)) (v T, err error) {
	e, mine := c.entry(key, age)
	if mine {
		defer close(e.done) // also when f panics
		v, err = f()
		e.at, e.value, e.err = time.Now(), v, err
		return v, err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return v, ctx.Err()
	}
	v, ok := e.value.(T)
	if !ok && e.err == nil {
		return v, context.Canceled // it has panicked
	}
	return v, e.err
}

// entry returns the entry of a key, and whether the caller has to fill it.
func (c *cache) entry(key string, age time.Duration) (e *entry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		select {
		case <-e.done:
			if e.err == nil && time.Since(e.at) < age {
				return e, false
			}
		default:
			return e, false
		}
	}
	if len(c.entries) >= most {
		c.clean(stale)
	}
	if len(c.entries) >= most {
		c.clean(0)
	}
	if c.entries == nil {
		c.entries = make(map[string]*entry)
	}
	e = &entry{done: make(chan struct{})}
	c.entries[key] = e
	return e, true
}

// forget has everything read again, since something was changed. What is being read may be from before.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}

// clean removes entries that are over and older than an age.
func (c *cache) clean(age time.Duration) {
	for key, e := range c.entries {
		select {
		case <-e.done:
			if time.Since(e.at) >= age {
				delete(c.entries, key)
			}
		default:
		}
	}
}
