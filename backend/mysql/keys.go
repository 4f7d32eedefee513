package mysql

import (
	"sync"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// keyCache are the ids of keys' streams. A stream that has been removed since is not found by its id.
type keyCache struct {
	mu  sync.Mutex
	ids map[sqlstore.Key]backend.ID
}

const mostKeys = 20000

// split returns the ids that are known, and the keys whose ids are not.
func (c *keyCache) split(keys []sqlstore.Key) (found map[sqlstore.Key]backend.ID, others []sqlstore.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found = make(map[sqlstore.Key]backend.ID, len(keys))
	for _, k := range keys {
		if id, ok := c.ids[k]; ok {
			found[k] = id
		} else {
			others = append(others, k)
		}
	}
	return found, others
}

// put remembers ids.
func (c *keyCache) put(ids map[sqlstore.Key]backend.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil || len(c.ids)+len(ids) > mostKeys {
		c.ids = make(map[sqlstore.Key]backend.ID)
	}
	for k, id := range ids {
		c.ids[k] = id
	}
}

// forget forgets the ids of keys.
func (c *keyCache) forget(keys []sqlstore.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		delete(c.ids, k)
	}
}
