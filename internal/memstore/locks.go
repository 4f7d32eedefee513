package memstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// lock is something that one transaction at a time holds until it ends.
type lock struct {
	kind lockKind
	id   backend.ID
	n    int64
	name string
}

type lockKind int

const (
	lockGroup     lockKind = iota // receivers: taken by try only
	lockGuard                     // writers of a stream wait for it, others try
	lockCatalog                   // those that define wait for each other
	lockUnique                    // those that post the same unique value wait
	lockOnce                      // those that record the same key wait
	lockSchedule                  // those that submit wait, those that claim try
	lockFence                     // the fence of an application lock
	lockTask                      // taken by try only
	lockRecurring                 // those that change a job wait, those that claim try
)

func groupLock(group backend.ID) lock  { return lock{kind: lockGroup, id: group} }
func guardLock(stream backend.ID) lock { return lock{kind: lockGuard, id: stream} }

// tryLock takes a lock unless another transaction has it.
func (tx *Tx) tryLock(l lock) bool {
	switch tx.store.locks[l] {
	case tx:
		return true
	case nil:
		tx.store.locks[l] = tx
		tx.locks = append(tx.locks, l)
		return true
	default:
		return false
	}
}

// lock waits for a lock. When it comes back, everything else may have changed:
// look again.
func (tx *Tx) lock(ctx context.Context, l lock) error {
	s := tx.store
	tx.party.wants = &l
	defer func() { tx.party.wants = nil }()
	for !tx.tryLock(l) {
		if tx.noWait && s.fault != FaultTogetherWaits {
			return backend.ErrStreamBusy
		}
		if s.deadlocked(tx.party) {
			return backend.ErrSerialization
		}
		if err := s.sleep(ctx, time.Second); err != nil {
			return err
		}
		if tx.over != nil { // the handle was closed meanwhile
			return tx.over
		}
	}
	return nil
}

func (tx *Tx) holdsLock(l lock) bool { return tx.store.locks[l] == tx }

// unlock gives a lock back before the end: only right for a lock under which
// nothing has been changed.
func (tx *Tx) unlock(l lock) {
	if tx.holdsLock(l) {
		delete(tx.store.locks, l)
		tx.store.signal()
	}
}

func (tx *Tx) unlockAll() {
	for _, l := range tx.locks {
		tx.unlock(l)
	}
	tx.locks = nil
}

// signal wakes all who wait, since something was released. They look again
// whether it was what they wait for.
func (s *Store) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// sleep gives up the mutex until the next signal, until ctx ends, or for d.
func (s *Store) sleep(ctx context.Context, d time.Duration) error {
	changed := s.changed
	timer := time.NewTimer(d)
	defer timer.Stop()

	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// blockers returns whom a party waits for, in one step.
func (s *Store) blockers(p *party) []*party {
	var found []*party
	if p.wants != nil {
		if holder := s.locks[*p.wants]; holder != nil {
			found = append(found, holder.party)
		}
	}
	for _, r := range s.resources {
		for _, request := range r.waiting {
			if request.party == p {
				found = append(found, r.against(request)...)
			}
		}
	}
	return found
}

// deadlocked reports whether p waits for itself, over any number of steps.
func (s *Store) deadlocked(p *party) bool {
	seen := make(map[*party]bool)
	var reaches func(from *party) bool
	reaches = func(from *party) bool {
		for _, next := range s.blockers(from) {
			if next == p {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if reaches(next) {
					return true
				}
			}
		}
		return false
	}
	return reaches(p)
}
