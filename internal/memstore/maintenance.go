package memstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Maintain implements [backend.Backend]. Each maintenance job is one short transaction here:
// the mutex is held throughout, so no transaction of another can come between.
// What other open transactions hold is skipped.
func (h *Handle) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return backend.Maintained{}, err
	}
	defer h.leave()
	if err := h.store.check(); err != nil {
		return backend.Maintained{}, err
	}
	if limit < 1 {
		limit = 100
	}
	tx := h.begin()
	d := &work{tx: tx, store: h.store, limit: limit, now: h.store.now()}
	switch job {
	case backend.JobDelayed:
		d.delayed()
	case backend.JobTimers:
		d.timers()
	case backend.JobLifetimes:
		d.lifetimes()
	case backend.JobDeferred:
		d.deferred()
	case backend.JobMarkers:
		d.markers()
	case backend.JobClosed:
		d.closed()
	case backend.JobGroups:
		d.groups()
	case backend.JobWorkers:
		d.workers()
	case backend.JobProcessed:
		d.processed()
	case backend.JobOnce:
		d.once()
	case backend.JobCancels:
		d.cancels()
	default:
		tx.rollback()
		return backend.Maintained{}, fmt.Errorf("there is no maintenance job %d", job)
	}
	tx.commit()
	return d.Maintained, nil
}

// work is a maintenance job at work.
type work struct {
	tx    *Tx
	store *Store
	limit int
	now   time.Time
	backend.Maintained
}

// due reports whether something that is to happen at the given time is to
// happen now, and remembers when the next such thing is.
func (d *work) due(at time.Time) bool {
	if !at.After(d.now) && d.Moved < d.limit {
		return true
	}
	d.again(max(at.Sub(d.now), time.Millisecond))
	return false
}

// again says that there is something to do in so long.
func (d *work) again(in time.Duration) {
	if d.Next == 0 || in < d.Next {
		d.Next = in
	}
}

// later is for what is due but cannot be done just now.
func (d *work) later() { d.again(10 * time.Millisecond) }

// delayed lets posts join their queue in the order in which they are due.
func (d *work) delayed() {
	s := d.store
	var waiting []post
	for _, p := range s.posts.from(d.tx, backend.ID{}) {
		if p.state == "delayed" {
			waiting = append(waiting, p)
		}
	}
	slices.SortStableFunc(waiting, func(a, b post) int { return a.until.Compare(b.until) })
	for _, p := range waiting {
		if s.fault == FaultDelayIgnored {
			p.until = d.now
		}
		if !d.due(p.until) {
			continue
		}
		if s.disabled(d.tx, p.Queue) { // it takes nothing
			if s.fault == FaultDisabledHides {
				return
			}
			continue
		}
		// An open transaction may cancel the post, or write to its key.
		if s.posts.busy(d.tx, p.ID) || !d.tx.tryLock(guardLock(p.stream)) {
			d.later()
			if s.fault == FaultLockedHides {
				return
			}
			continue
		}
		s.join(d.tx, p)
		d.Give(p.Queue)
	}
}

// timers turns timers that are due into messages.
func (d *work) timers() {
	s := d.store
	for _, handle := range s.timers.keys(d.tx) {
		at, _ := s.timers.get(d.tx, handle)
		if s.fault == FaultTimerEarly {
			at = d.now
		}
		if !d.due(at) {
			continue
		}
		if s.timers.busy(d.tx, handle) {
			d.later() // it is being set again
			continue
		}
		if s.fault != FaultTimerTwice || s.spent[handle] > 0 {
			s.timers.delete(d.tx, handle)
		}
		s.spent[handle]++
		if e, ok := s.endpoints.get(d.tx, handle); ok && !s.closings.has(d.tx, handle) {
			if s.fault == FaultTimerToPeer {
				e, _ = s.endpoints.get(d.tx, e.FarHandle)
			}
			s.notify(d.tx, e, message{ID: backend.NewID(), Kind: backend.KindTimer})
			d.Give(e.Queue)
		}
	}
}

// lifetimes puts conversations that are too old in error, each side for itself.
// A side that has heard that it is over, in whatever way, is left alone.
func (d *work) lifetimes() {
	s := d.store
	for _, handle := range s.endpoints.keys(d.tx) {
		e, _ := s.endpoints.get(d.tx, handle)
		state, _ := s.state(d.tx, e)
		if e.deadline.IsZero() || state != backend.StartedOutbound && state != backend.Conversing || !d.due(e.deadline) {
			continue
		}
		if s.fault == FaultLifetimeOneSide && !e.Initiator {
			continue
		}
		if s.closings.busy(d.tx, handle) || s.troubles.busy(d.tx, handle) {
			d.later()
			continue
		}
		err := backend.DialogError{Code: backend.CodeLifetime, Text: "the conversation's lifetime is over"}
		s.inError(d.tx, handle, err)
		s.notify(d.tx, e, message{ID: backend.NewID(), Kind: backend.KindError, Body: err.Body()})
		d.Give(e.Queue)
	}
}

// deferred makes groups ready whose deferral is over, and looks again at those
// whose streams had senders when they were made ready.
func (d *work) deferred() {
	s := d.store
	for _, id := range s.groups.keys(d.tx) {
		g, _ := s.groups.get(d.tx, id)
		if g.parked || g.deferred.IsZero() && !g.again {
			continue
		}
		if !g.deferred.IsZero() && !d.due(g.deferred) {
			continue
		}
		if d.Moved >= d.limit || !d.tx.tryGroup(id) {
			d.later()
			continue
		}
		returned := g.returned
		if !g.deferred.IsZero() {
			s.arrivals++
			returned = s.arrivals
		}
		if !s.unblock(d.tx, id, returned) {
			d.later()
		}
		d.Give(g.queue)
	}
}

// markers takes the streams of blocked groups out of the ready order, so that claims do
// not have to pass them again and again. It puts right what was left behind by
// receivers that could not or did not finish.
func (d *work) markers() {
	s, tx := d.store, d.tx
	for _, id := range s.markers.keys(tx) {
		if d.Moved >= d.limit {
			d.later()
			return
		}
		home, known := s.home(tx, id)
		g, _ := s.groups.get(tx, home)
		m, _ := s.markers.get(tx, id)
		oldest, ok := s.oldest(tx, id)
		switch {
		case known && ok && !s.blocked(g) && m.since == s.standing(tx, id, oldest):
			continue // as it should be
		case !tx.tryLock(guardLock(id)):
			d.later() // its sender may rely on the marker
		case !known:
			// The side that would receive has been cleaned up.
			s.clearMessages(tx, id)
			s.unmark(tx, id)
			d.Moved++
		case s.blocked(g):
			// The group, so that it is not made ready meanwhile.
			if !tx.tryGroup(home) {
				continue
			}
			s.unmark(tx, id)
			d.Moved++
		default:
			s.remark(tx, id)
			d.Moved++
		}
	}
}

// closed removes conversations that both sides have ended and that have been
// kept for long enough.
func (d *work) closed() {
	s, tx := d.store, d.tx
	for _, handle := range s.closings.keys(tx) {
		c, seen := s.closings.get(tx, handle)
		e, ok := s.endpoints.get(tx, handle)
		if state, _ := s.state(tx, e); !seen || !ok || state != backend.Closed {
			continue
		}
		if peer, ok := s.closings.get(tx, e.FarHandle); ok && peer.keep.After(c.keep) {
			continue // its time comes with the other side's
		}
		if !d.due(c.keep) {
			continue
		}
		if !tx.tryGroup(e.Group) || !s.removeIfFree(tx, e) {
			d.later()
			continue
		}
		d.Moved++
	}
}

// groups removes groups that nothing refers to, with their promotions. A transaction
// that makes something refer to a group holds the group, or for a key its guard.
func (d *work) groups() {
	s, tx := d.store, d.tx
	inUse := make(map[backend.ID]bool)
	for _, p := range s.posts.from(tx, backend.ID{}) {
		inUse[p.stream] = inUse[p.stream] || p.state != "processed"
	}
	ids := s.groups.keys(tx)
	if s.fault == FaultGroupsHead {
		slices.SortFunc(ids, func(a, b backend.ID) int { return bytes.Compare(b[:], a[:]) })
		ids = ids[:min(d.limit, len(ids))]
	}
	for _, id := range ids {
		if inUse[id] || len(second(&s.members, tx, id)) > 0 {
			continue
		}
		if d.Moved >= d.limit || s.groups.busy(tx, id) || !tx.tryGroup(id) {
			d.later()
			continue
		}
		g, _ := s.groups.get(tx, id)
		if g.service == "" {
			if !tx.tryLock(guardLock(id)) {
				d.later()
				continue
			}
			s.removeStream(tx, id)
		}
		s.removeGroup(tx, id)
		d.Moved++
	}
}

// processed removes posts that were kept after processing.
func (d *work) processed() {
	s := d.store
	for _, id := range s.posts.keys(d.tx) {
		p, _ := s.posts.get(d.tx, id)
		if p.state == "processed" && d.due(p.until) && s.posts.delete(d.tx, id) {
			d.Moved++
		}
	}
}

func (d *work) once() {
	s := d.store
	for _, key := range s.once.keys(d.tx) {
		until, _ := s.once.get(d.tx, key)
		if (d.due(until) || s.fault == FaultOnceForgets) && d.tx.tryLock(lock{kind: lockOnce, name: key}) && s.once.delete(d.tx, key) {
			d.Moved++
		}
	}
}
