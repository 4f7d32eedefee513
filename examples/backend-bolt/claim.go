package bolt

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// claim is a Claim at work.
type claim struct {
	backend.ClaimRequest
	backend.Claim
	tx    *Tx
	l     *look
	bytes int // still allowed
	seen  map[backend.ID]bool
}

// Claim implements [backend.Tx].
func (tx *Tx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	c := &claim{ClaimRequest: r, tx: tx, bytes: r.MaxBytes, seen: make(map[backend.ID]bool)}
	err := tx.write(ctx, func(l *look) error {
		c.l = l
		switch {
		case l.stale(r.Version):
			return backend.ErrStaleCatalog
		case l.disabled(r.Queue):
			return backend.ErrQueueDisabled
		case !r.Handle.IsZero():
			if e, ok := l.endpoint(r.Handle); ok {
				c.try(e.Group)
			}
		case !r.Group.IsZero():
			c.try(r.Group)
		default:
			c.walk()
		}
		return nil
	})
	c.Contended = c.Contended && len(c.Holds) == 0
	if err != nil {
		return backend.Claim{}, err
	}
	return c.Claim, nil
}

func (c *claim) full() bool { return len(c.Holds) >= c.MaxGroups || len(c.Holds) > 0 && c.bytes <= 0 }

// walk tries groups, best first, until there are enough.
func (c *claim) walk() {
	for _, id := range c.l.promoted(c.Queue) {
		if c.full() {
			return
		}
		c.try(id)
	}
	for k := range walk(c.l, order, key(c.Queue)) {
		if c.full() {
			return
		}
		if id, ok := c.l.home(idAt(k, 17)); ok {
			c.try(id)
		}
	}
}

// try claims a group if it can be had and has something to deliver. Rule R-A asks for a look
// after the lock; this transaction has had the lock since it began to write.
func (c *claim) try(id backend.ID) {
	l, tx := c.l, c.tx
	if c.seen[id] {
		return
	}
	c.seen[id] = true
	g, ok := get(l, groups, key(id))
	if !ok || g.Queue != c.Queue || g.hidden() || tx.holds[id] != nil && !slices.Contains(c.Own, id) {
		return
	}
	if l.alive(g.Lease) && !(tx.holds[id] != nil && tx.holds[id].Fence == g.Lease.Fence) {
		c.Contended = c.Contended || l.waits(id)
		return
	}
	found, discarded := tx.messages(l, g, id, reading{
		max: c.MaxMessages, bytes: &c.bytes, first: len(c.Holds) == 0, handle: c.Handle, headers: c.LockOnly,
	})
	c.Discarded += discarded
	if len(found) > 0 {
		c.take(id, g, found)
	}
}

// take makes a hold of a group.
func (c *claim) take(id backend.ID, g group, found []*backend.Message) {
	l, tx := c.l, c.tx
	hold := &backend.Hold{Queue: c.Queue, Group: id, Messages: found}
	if p, ok := get(l, promotions, key(id)); ok {
		hold.Promoted, hold.Level, hold.Private = true, p.Level, p.Since
	}
	if g.Lease != nil { // its receiver died
		m := found[0]
		m.Deaths++
		put(l, failures, key(m.ID), failure{m.Attempts, m.Deaths, m.LastError, m.Errors})
		g.Lease = nil
	}
	if c.LockOnly {
		hold.Messages = nil
	}
	if c.Lease > 0 {
		g.Lease = tx.newLease(l, c.Lease, c.Owner)
		hold.Fence = g.Lease.Fence
	}
	l.putGroup(id, g)
	tx.hold(l, hold)
	c.Holds = append(c.Holds, hold)
	if c.Consume && !c.LockOnly {
		for _, m := range found {
			tx.acknowledge(l, hold, m, c.Retain, c.Keep)
			l.mark(m.Stream)
		}
	}
}

// hold notes that a group is in this transaction's hands. A rollback to a savepoint before
// forgets that.
func (tx *Tx) hold(l *look, h *backend.Hold) {
	before := tx.holds[h.Group]
	tx.holds[h.Group] = h
	tx.locked[h.Group] = true
	l.did(func() { tx.restore(h.Group, before) })
}

// letGo is the end of a hold.
func (tx *Tx) letGo(l *look, id backend.ID) {
	before := tx.holds[id]
	delete(tx.holds, id)
	l.did(func() { tx.restore(id, before) })
}

func (tx *Tx) restore(id backend.ID, h *backend.Hold) {
	if h == nil {
		delete(tx.holds, id)
	} else {
		tx.holds[id] = h
	}
}

// reading says what to read of a group.
type reading struct {
	max     int
	bytes   *int                // still allowed
	first   bool                // the first message is read whatever its size
	handle  backend.ID          // only of this side
	beyond  map[backend.ID]bool // messages that were delivered already
	headers bool                // no bodies
}

// found is a message with what decides its place.
type found struct {
	*backend.Message
	row    message
	oldest int64 // arrival of the oldest message of its conversation
	stream int64 // of its stream
}

// messages returns the next messages of a group, in the order of receipt. Those for sides that
// have ended are removed and counted.
func (tx *Tx) messages(l *look, g group, id backend.ID, r reading) (list []*backend.Message, discarded int) {
	var all []found
	if g.Service == "" && r.handle.IsZero() {
		all = l.heads(id, r, func(m *backend.Message) {
			p, _ := get(l, posts, key(m.ID))
			m.Key, m.Priority = p.Key, p.Rank
		})
	}
	for _, e := range l.members(id) {
		if !r.handle.IsZero() && r.handle != e.Handle {
			continue
		}
		if e.Closed != nil {
			discarded += tx.dropUnread(l, e)
			continue
		}
		var side []found
		for _, stream := range l.readBy(e) {
			side = append(side, l.heads(stream, r, func(m *backend.Message) {
				m.Handle, m.Conversation, m.Initiator, m.Priority = e.Handle, e.Conversation, e.Initiator, e.Priority
				m.Service, m.FarService, m.Contract = e.Service, e.FarService, e.Contract
			})...)
		}
		for i := range side {
			side[i].oldest = slices.MinFunc(side, func(a, b found) int { return cmp.Compare(a.stream, b.stream) }).stream
		}
		all = append(all, side...)
	}
	slices.SortStableFunc(all, compareReceipt)
	for i, m := range all {
		if len(list) == r.max || *r.bytes < m.row.Size && !(r.first && i == 0) {
			break
		}
		*r.bytes -= m.row.Size
		m.Group = id
		if !r.headers {
			m.Body = l.body(key(m.Stream, m.Seq), m.row)
		}
		list = append(list, m.Message)
	}
	return list, discarded
}

// compareReceipt orders conversations by priority and then by age, and keeps the messages of each
// together. Within a conversation timers come first, then errors, then the rest in the order of
// sending.
func compareReceipt(a, b found) int {
	class := func(m found) backend.Kind { return min(m.Kind, backend.KindUser) }
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(a.oldest, b.oldest),
		bytes.Compare(a.Handle[:], b.Handle[:]),
		cmp.Compare(class(a), class(b)),
		cmp.Compare(a.stream, b.stream),
		cmp.Compare(a.Seq, b.Seq),
	)
}

// heads returns the first messages of a stream that were not delivered yet.
func (l *look) heads(id backend.ID, r reading, fill func(*backend.Message)) (all []found) {
	for k, row := range scan(l, messages, key(id)) {
		if len(all) == r.max {
			break
		}
		if r.beyond[row.ID] {
			continue
		}
		f, _ := get(l, failures, key(row.ID))
		m := &backend.Message{
			ID: row.ID, Stream: id, Seq: numberAt(k, 16), Kind: row.Kind, Type: row.Type, Headers: row.Headers, Enqueued: row.Enqueued,
			Attempts: f.Attempts, Deaths: f.Deaths, LastError: f.Error, Errors: f.Errors,
		}
		fill(m)
		all = append(all, found{Message: m, row: row, stream: row.Arrival})
	}
	for i := range all {
		all[i].stream = all[0].stream
	}
	return all
}

// More implements [backend.Tx].
func (tx *Tx) More(
	ctx context.Context, hold *backend.Hold, maxMessages, maxBytes int,
) (more []*backend.Message, err error) {
	err = tx.write(ctx, func(l *look) error {
		if err := tx.own(l, hold); err != nil {
			return err
		}
		g, _ := get(l, groups, key(hold.Group))
		delivered := make(map[backend.ID]bool)
		for _, m := range hold.Messages {
			delivered[m.ID] = true
		}
		r := reading{max: maxMessages, bytes: &maxBytes, first: true, beyond: delivered}
		more, _ = tx.messages(l, g, hold.Group, r)
		hold.Messages = append(hold.Messages, more...)
		return nil
	})
	return more, err
}

// Reclaim implements [backend.Tx].
func (tx *Tx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	return tx.write(ctx, func(l *look) error {
		if l.versions().Schema > schemaVersion+1 {
			return backend.ErrNewerSchema
		}
		for _, h := range holds {
			if err := tx.own(l, h); err != nil {
				return err
			}
		}
		return nil
	})
}

// own makes sure that this transaction owns a hold. It owns a hold of a transaction if it was
// claimed here, and a leased one if its fence is still the group's.
func (tx *Tx) own(l *look, hold *backend.Hold) error {
	if mine := tx.holds[hold.Group]; mine != nil && mine.Fence == hold.Fence {
		return nil
	}
	g, _ := get(l, groups, key(hold.Group))
	if hold.Fence == 0 || !l.alive(g.Lease) || g.Lease.Fence != hold.Fence {
		return backend.ErrFenced
	}
	tx.hold(l, hold)
	tx.f.mu.Lock()
	defer tx.f.mu.Unlock()
	tx.f.settling[hold.Fence] = true // it needs no heartbeat any more
	tx.settling = append(tx.settling, hold.Fence)
	return nil
}

// Extend implements [backend.Backend]. It writes nothing, so that it waits for no turn.
func (h *Handle) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	lost := false
	err := h.view(ctx, func(l *look) error {
		for _, hold := range holds {
			g, _ := get(l, groups, key(hold.Group))
			lost = !l.extend(g.Lease, hold.Fence, d) || lost
		}
		return nil
	})
	if err == nil && lost {
		err = backend.ErrFenced
	}
	return err
}

// extend extends a lease, if it is one of this fence.
func (l *look) extend(x *lease, fence int64, d time.Duration) bool {
	if x == nil || x.Fence != fence {
		return false
	}
	alive := l.alive(x)
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if !alive && !l.f.settling[fence] {
		return false
	}
	l.f.until[fence] = l.now().Add(d)
	return true
}
