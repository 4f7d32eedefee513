package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

func recurringLock(name string) lock { return lock{kind: lockRecurring, name: name} }

// NextRecurring implements [backend.TxRecurring].
func (tx *Tx) NextRecurring(ctx context.Context) (*backend.RecurringJob, time.Duration, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer tx.leave()
	s := tx.store
	now := s.now()
	jobs := s.recurringJobs(tx)
	slices.SortStableFunc(jobs, func(a, b backend.RecurringJob) int { return a.Look.Compare(b.Look) })
	for _, j := range jobs {
		if j.State != backend.RecurringActive && !(s.fault == FaultRecurringPaused && j.State == backend.RecurringPaused) {
			continue
		}
		if wait := j.Look.Sub(now); wait > 0 && !(s.fault == FaultRecurringEarly && wait < time.Hour) {
			return nil, wait, nil
		}
		if tx.tryLock(recurringLock(j.Name)) || s.fault == FaultRecurringUnlocked {
			return &j, 0, nil
		}
		if s.fault == FaultRecurringHides {
			break
		}
	}
	return nil, 0, nil
}

// LockRecurring implements [backend.TxRecurring].
func (tx *Tx) LockRecurring(ctx context.Context, name string) (*backend.RecurringJob, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.lock(ctx, recurringLock(name)); err != nil {
		return nil, err
	}
	j, ok := s.recurring.get(tx, name)
	if !ok {
		j = backend.RecurringJob{Name: name, State: backend.RecurringRemoved}
		s.recurring.put(tx, name, j)
	}
	j.Body, j.Now = bytes.Clone(j.Body), s.now()
	return &j, nil
}

// SetRecurring implements [backend.TxRecurring].
func (tx *Tx) SetRecurring(ctx context.Context, j backend.RecurringJob) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	old, _ := s.recurring.get(tx, j.Name)
	if s.fault == FaultCatchUpLost {
		j.CatchUp = old.CatchUp
	}
	if s.fault == FaultOverlapLost {
		j.Overlap = old.Overlap
	}
	if s.fault == FaultRevisionLost {
		j.Revision = old.Revision
	}
	j.Body = bytes.Clone(j.Body)
	s.recurring.put(tx, j.Name, j)
	return nil
}

// RecurringJobs implements [backend.Recurring].
func (h *Handle) RecurringJobs(ctx context.Context) ([]backend.RecurringJob, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	return h.store.recurringJobs(nil), nil
}

// recurringJobs returns the jobs that tx sees, by name.
func (s *Store) recurringJobs(tx *Tx) (list []backend.RecurringJob) {
	for _, name := range s.recurring.keys(tx) {
		j, _ := s.recurring.get(tx, name)
		j.Body, j.Now = bytes.Clone(j.Body), s.now()
		list = append(list, j)
	}
	return list
}
