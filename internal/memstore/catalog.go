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
	defined := tx.store.defined(tx)
	c := defined.Clone()
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

	defined, change := s.defined(tx), change.Clone()
	if s.fault == FaultNeverRemoved {
		change.Removed = nil
	}
	if s.fault == FaultHistoryLost {
		change.History = nil
	}
	c := defined.With(change)
	if s.fault == FaultFoldsCase {
		c.Queues = folded(c.Queues)
	}
	for i := range c.Queues {
		if q := &c.Queues[i]; q.ID == 0 {
			s.queues++
			q.ID = s.queues
		}
	}
	s.catalog.put(tx, 0, *c)
	if s.fault == FaultRulesReachBack {
		s.rateAgain(tx, c)
	}
	return c.Version, nil
}

// folded leaves out queues whose names differ from those of later ones in case only.
func folded(queues []backend.Queue) (kept []backend.Queue) {
	for i, q := range queues {
		if !slices.ContainsFunc(queues[i+1:], func(later backend.Queue) bool { return strings.EqualFold(later.Name, q.Name) }) {
			kept = append(kept, q)
		}
	}
	return kept
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
