package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// group is what a receiver holds. Whether it may be taken is written here and
// nowhere else, under the group's lock, and tested on the locked row (rule
// R-C). Senders neither read nor write it.
type group struct {
	queue   int64
	service string // "": posts
	key     string
	post    bool // a post without key

	lease    *lease
	deferred time.Time // hidden until then; stays set until JobDeferred has put all its streams back
	parked   bool
	reason   string
	since    time.Time // deferred or parked since
	again    bool      // some stream could not be put into the ready order: look again
	returned int64     // its last deferral was over when the next message had this arrival
}

// lease is a hold that outlives its transaction. It is shared by all versions
// of the row: prolonging it is not part of any transaction.
type lease struct {
	fence  int64
	owner  string
	length time.Duration
	since  time.Time
	until  time.Time
}

// blocked reports whether a group is hidden from claims.
func (s *Store) blocked(g group) bool { return g.parked || g.deferred.After(s.now()) }

// leased reports whether a lease keeps tx from taking a group.
func (s *Store) leased(tx *Tx, id backend.ID, g group) bool {
	if g.lease == nil {
		return false
	}
	if tx != nil {
		if hold := tx.holds[id]; hold != nil && hold.Fence == g.lease.fence {
			return false // reclaimed, or claimed in this very transaction
		}
	}
	return s.alive(g.lease)
}

func (s *Store) alive(l *lease) bool {
	return s.fault == FaultLeaseForever || l.until.After(s.now())
}

// tryGroup takes a group for tx unless another receiver holds it.
func (tx *Tx) tryGroup(id backend.ID) bool {
	if tx.holdsLock(groupLock(id)) {
		return true
	}
	if !tx.tryLock(groupLock(id)) {
		return false
	}
	if g, ok := tx.store.groups.get(tx, id); ok && tx.store.leased(tx, id, g) {
		tx.unlock(groupLock(id))
		return false
	} else if ok && tx.store.fault == FaultDeathForgotten {
		g.lease = nil
		tx.store.groups.put(tx, id, g)
	}
	return true
}

// newGroup makes a group and takes it, unless there is one of this id.
func (tx *Tx) newGroup(id backend.ID, g group) bool {
	if tx.store.groups.has(tx, id) || !tx.tryLock(groupLock(id)) { // another transaction has made it, or is making it
		return false
	}
	tx.store.groups.put(tx, id, g)
	return true
}

// mayJoin checks that tx holds a group and that it is of the same kind as want.
func (tx *Tx) mayJoin(id backend.ID, want group) error {
	g, ok := tx.store.groups.get(tx, id)
	switch {
	case !ok:
		return backend.ErrNoGroup
	case !tx.holdsLock(groupLock(id)):
		return backend.ErrGroupBusy
	case g.queue != want.queue || g.service != want.service:
		return backend.ErrGroupElsewhere
	default:
		return nil
	}
}

func (s *Store) removeGroup(tx *Tx, id backend.ID) {
	s.groups.delete(tx, id)
	s.promotions.delete(tx, id)
}

// LockGroup implements [backend.Tx].
func (tx *Tx) LockGroup(ctx context.Context, id backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	if !tx.store.groups.has(tx, id) {
		return backend.ErrNoGroup
	}
	if !tx.tryGroup(id) {
		return backend.ErrGroupBusy
	}
	return nil
}

// Move implements [backend.Tx].
func (tx *Tx) Move(ctx context.Context, handle, to backend.ID, newGroup bool) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	e, ok := s.endpoints.get(tx, handle)
	if !ok {
		return backend.ErrNoConversation
	}
	if s.closings.has(tx, handle) {
		return backend.ErrEnded
	}
	if !tx.holdsLock(groupLock(e.Group)) {
		return backend.ErrGroupBusy
	}
	// The guard, because the stream's marker may have to be put back below. It
	// comes after groups in the order of locks, so it is tried, not waited for:
	// the sender may be waiting for something of ours.
	if s.fault == FaultMoveWaits {
		if err := tx.lock(ctx, guardLock(e.FarHandle)); err != nil {
			return err
		}
	}
	fresh := !tx.holdsLock(guardLock(e.FarHandle))
	if !tx.tryLock(guardLock(e.FarHandle)) {
		return backend.ErrStreamBusy
	}
	want := group{queue: e.Queue, service: e.Service}
	var err error
	if newGroup {
		if !tx.newGroup(to, want) {
			err = backend.ErrGroupBusy
		}
	} else {
		err = tx.mayJoin(to, want)
	}
	if err != nil {
		if fresh {
			tx.unlock(guardLock(e.FarHandle))
		}
		return err
	}

	s.members.delete(tx, pair{e.Group, handle})
	e.Group = to
	tx.putEndpoint(e)
	if s.fault == FaultMoveLoses {
		clearRows(&s.messages, tx, e.FarHandle)
	}
	// If the old group was blocked, its streams may be out of the ready order.
	for _, id := range s.readBy(tx, e) {
		s.mark(tx, id)
	}
	return nil
}

// Unpark implements [backend.Tx].
func (tx *Tx) Unpark(ctx context.Context, id backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	if !tx.store.groups.has(tx, id) {
		return backend.ErrNoGroup
	}
	if !tx.tryGroup(id) {
		return backend.ErrGroupBusy
	}
	tx.store.unblock(tx, id, 0)
	return nil
}

// unblock makes a group ready, which tx holds: its state, and then each of its
// streams whose guard is free. For those that have a sender, who may believe
// that there is a marker, the group is marked for another look (JobDeferred). None is placed before
// returned.
func (s *Store) unblock(tx *Tx, id backend.ID, returned int64) (done bool) {
	g, _ := s.groups.get(tx, id)
	g.parked, g.deferred, g.reason, g.since, g.returned = false, time.Time{}, "", time.Time{}, returned
	s.groups.put(tx, id, g) // by which its streams find their places
	g.again = !s.putBack(tx, id)
	s.groups.put(tx, id, g)
	return !g.again
}

// putBack puts streams of a group that have messages into the ready order, as many as one
// transaction may lock against their senders. It reports whether it could do so with all.
func (s *Store) putBack(tx *Tx, id backend.ID) bool {
	all, guards, most := true, 0, 100
	if s.fault == FaultUnblocksAll {
		most = 1 << 30
	}
	for _, stream := range s.homed(tx, id) {
		oldest, waits := s.oldest(tx, stream)
		m, _ := s.markers.get(tx, stream)
		switch {
		case !waits, s.markers.has(tx, stream) && !s.markers.busy(tx, stream) && m.since == s.standing(tx, stream, oldest):
		case guards == most:
			return false
		case tx.tryLock(guardLock(stream)):
			s.remark(tx, stream)
			guards++
		default:
			all = false
		}
	}
	return all
}

// sorted returns the keys of a set in the order of ids.
func sorted[V any](set map[backend.ID]V) []backend.ID {
	var ids []backend.ID
	for id := range set {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}
