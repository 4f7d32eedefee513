package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/parleymq/parley/backend"
)

// Catalog implements [backend.Tx].
func (tx *Tx) Catalog(ctx context.Context, locked bool) (*backend.Catalog, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	if err := tx.store.check(); err != nil {
		return nil, err
	}
	if locked {
		if err := tx.lock(ctx, lock{kind: lockCatalog}); err != nil {
			return nil, err
		}
	}
	c := clone(tx.store.defined(tx))
	if !locked {
		c.History = nil
	}
	return c, nil
}

// PutCatalog implements [backend.Tx].
func (tx *Tx) PutCatalog(ctx context.Context, change *backend.Catalog) (int64, error) {
	if err := tx.enter(ctx); err != nil {
		return 0, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.lock(ctx, lock{kind: lockCatalog}); err != nil {
		return 0, err
	}

	c, change := clone(s.defined(tx)), clone(*change)
	c.Version++
	c.Types = merge(s, c.Types, change.Types, func(t *backend.MessageType) string { return t.Name })
	c.Contracts = merge(s, c.Contracts, change.Contracts, func(c *backend.Contract) string { return c.Name })
	c.Services = merge(s, c.Services, change.Services, func(s *backend.Service) string { return s.Name })
	c.Priorities = merge(s, c.Priorities, change.Priorities, func(r *backend.PriorityRule) string { return r.Name })

	// A queue keeps its ID for life.
	name := func(q *backend.Queue) string { return q.Name }
	for i := range change.Queues {
		q := &change.Queues[i]
		if known := index(s, c.Queues, name, q.Name); known >= 0 {
			q.ID = c.Queues[known].ID
		} else {
			s.queues++
			q.ID = s.queues
		}
	}
	c.Queues = merge(s, c.Queues, change.Queues, name)

	for _, o := range change.Removed {
		if s.fault != FaultNeverRemoved {
			remove(c, o)
		}
	}
	for _, d := range change.History {
		if s.fault != FaultHistoryLost {
			d.Version = c.Version
			c.History = append(c.History, d)
		}
	}
	s.catalog.put(tx, 0, *c)
	if s.fault == FaultRulesReachBack {
		s.rateAgain(tx, c)
	}
	return c.Version, nil
}

// remove takes an object out of the catalog.
func remove(c *backend.Catalog, o backend.Object) {
	switch o.Kind {
	case backend.ObjectType:
		c.Types = slices.DeleteFunc(c.Types, func(t backend.MessageType) bool { return t.Name == o.Name })
	case backend.ObjectContract:
		c.Contracts = slices.DeleteFunc(c.Contracts, func(k backend.Contract) bool { return k.Name == o.Name })
	case backend.ObjectService:
		c.Services = slices.DeleteFunc(c.Services, func(s backend.Service) bool { return s.Name == o.Name })
	case backend.ObjectPriority:
		c.Priorities = slices.DeleteFunc(c.Priorities, func(r backend.PriorityRule) bool { return r.Name == o.Name })
	}
}

// merge puts the objects in change in the places of those with the same names.
func merge[O any](s *Store, objects, change []O, name func(*O) string) []O {
	for i := range change {
		if known := index(s, objects, name, name(&change[i])); known >= 0 {
			objects[known] = change[i]
		} else {
			objects = append(objects, change[i])
		}
	}
	return objects
}

// index finds an object by its name, byte by byte.
func index[O any](s *Store, objects []O, name func(*O) string, want string) int {
	for i := range objects {
		got := name(&objects[i])
		if got == want {
			return i
		}
		if s.fault == FaultFoldsCase && strings.EqualFold(got, want) {
			return i
		}
	}
	return -1
}

// clone makes a copy whose slices the caller may keep.
func clone(c backend.Catalog) *backend.Catalog {
	c.Types = slices.Clone(c.Types)
	c.Contracts = slices.Clone(c.Contracts)
	c.Queues = slices.Clone(c.Queues)
	c.Services = slices.Clone(c.Services)
	c.Priorities = slices.Clone(c.Priorities)
	c.History = slices.Clone(c.History)
	for i := range c.Contracts {
		c.Contracts[i].Messages = slices.Clone(c.Contracts[i].Messages)
	}
	for i := range c.Services {
		c.Services[i].Contracts = slices.Clone(c.Services[i].Contracts)
	}
	return &c
}

// defined returns the catalog as tx sees it.
func (s *Store) defined(tx *Tx) backend.Catalog {
	c, _ := s.catalog.get(tx, 0)
	return c
}

func (s *Store) queue(tx *Tx, id int64) (backend.Queue, bool) {
	for _, q := range s.defined(tx).Queues {
		if q.ID == id {
			return q, true
		}
	}
	return backend.Queue{}, false
}

// disabled reports whether a queue is off. A queue that does not exist is off.
func (s *Store) disabled(tx *Tx, id int64) bool {
	q, ok := s.queue(tx, id)
	return !ok || q.Disabled
}

// stale reports whether the caller decided by another catalog than this one.
func (s *Store) stale(tx *Tx, version int64) bool {
	if s.fault == FaultStaleCatalog {
		return false
	}
	return s.defined(tx).Version != version
}
