package memstore

import (
	"context"
	"slices"

	"github.com/parleymq/parley/backend"
)

// promotion raises a group. It has a separate table, so that it neither waits for nor disturbs the
// group's senders and receivers. It stays while the group is locked or empty.
type promotion struct {
	queue  int64
	level  int
	sticky bool
	empty  bool  // it stays until the group is empty
	since  int64 // first promoted, first served; also tells one from its replacement
}

// Promote implements [backend.Tx].
func (tx *Tx) Promote(ctx context.Context, p backend.Promotion) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	if p.Group.IsZero() {
		p.Group = keyID(p.Queue, p.Key)
	}
	g, ok := s.groups.get(tx, p.Group)
	if !ok {
		return backend.ErrNoGroup
	}
	if s.fault == FaultPromotionLostWhenHeld && s.held(p.Group, g) {
		return nil
	}
	if s.fault == FaultFirstPromotionStays && s.promotions.has(tx, p.Group) {
		return nil
	}
	s.serial++
	s.promotions.put(tx, p.Group, promotion{queue: g.queue, level: p.Level, sticky: p.Sticky, empty: p.UntilEmpty, since: s.serial})
	return nil
}

// Demote implements [backend.Tx].
func (tx *Tx) Demote(ctx context.Context, id backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	tx.store.promotions.delete(tx, id)
	return nil
}

// promoted returns the promoted groups of a queue, best first.
func (s *Store) promoted(tx *Tx, queue int64) []backend.ID {
	found := make(map[backend.ID]promotion)
	for id, p := range s.promotions.from(tx, backend.ID{}) {
		if p.queue == queue {
			found[id] = p
		}
	}
	ids := sorted(found)
	slices.SortStableFunc(ids, func(a, b backend.ID) int {
		pa, pb := found[a], found[b]
		if pa.level != pb.level {
			return pb.level - pa.level
		}
		if s.fault == FaultLastPromotionFirst {
			pa, pb = pb, pa
		}
		return int(pa.since - pb.since)
	})
	return ids
}

// served removes the promotion under which a group was claimed, once some of
// its messages have been dealt with. A promotion that has replaced it meanwhile, or
// is replacing it, stays.
func (s *Store) served(tx *Tx, id backend.ID, claimed promotion) {
	now, ok := s.promotions.get(tx, id)
	if !ok || now.since != claimed.since || now.sticky || s.promotions.busy(tx, id) {
		return
	}
	if s.fault == FaultOneShotStays {
		return
	}
	if now.empty && s.fault != FaultUntilEmptyEnds {
		for _, stream := range s.homed(tx, id) {
			if _, ok := s.oldest(tx, stream); ok || s.fault == FaultUntilEmptyStays {
				return
			}
		}
	}
	s.promotions.delete(tx, id)
}
