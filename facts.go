package parley

import "sync"

// factCache remembers what never changes about conversations, so that sending
// costs no look-up. When it is full it forgets at random.
type factCache struct {
	mu sync.Mutex
	m  map[ID]*facts
}

const maxFacts = 20000

func (c *factCache) get(handle ID) *facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[handle]
}

func (c *factCache) put(f *facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[ID]*facts)
	}
	if len(c.m) >= maxFacts {
		for h := range c.m { // the order of a map's keys is random enough
			delete(c.m, h)
			break
		}
	}
	c.m[f.handle] = f
}
