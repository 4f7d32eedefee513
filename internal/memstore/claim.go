package memstore

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
	bytes int // still allowed
	seen  map[backend.ID]bool
}

// private is what Hold.Private holds: the promotion under which the group was
// claimed.
type private struct{ promotion promotion }

// Claim implements [backend.Tx].
func (tx *Tx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	if err := tx.enter(ctx); err != nil {
		return backend.Claim{}, err
	}
	defer tx.leave()
	s := tx.store
	if s.stale(tx, r.Version) {
		return backend.Claim{}, backend.ErrStaleCatalog
	}
	if s.disabled(tx, r.Queue) {
		return backend.Claim{}, backend.ErrQueueDisabled
	}

	c := &claim{ClaimRequest: r, tx: tx, bytes: r.MaxBytes, seen: make(map[backend.ID]bool)}
	if narrow := c.narrow(); !narrow.IsZero() {
		c.try(ctx, narrow)
	} else {
		c.walk(ctx)
	}
	c.Contended = c.Contended && len(c.Holds) == 0
	return c.Claim, nil
}

// narrow returns the one group that the request is about, if it is about one.
func (c *claim) narrow() backend.ID {
	if c.Handle.IsZero() {
		return c.Group
	}
	if e, ok := c.tx.store.endpoints.get(c.tx, c.Handle); ok {
		return e.Group
	}
	return c.Handle // finds nothing
}

// walk tries groups, best first, until there are enough.
func (c *claim) walk(ctx context.Context) {
	s := c.tx.store
	for i, id := range s.promoted(c.tx, c.Queue) {
		if c.full() {
			return
		}
		if s.fault == FaultPromotionWindow && i == faultWindow {
			break
		}
		c.try(ctx, id)
	}
	n := 0
	for stream := range s.ready(c.tx, c.Queue) {
		if n++; c.full() || s.fault == FaultOrderWindow && n > faultWindow {
			return
		}
		id, ok := s.home(c.tx, stream)
		if _, visible := s.oldest(c.tx, stream); !ok || !visible {
			// Its messages are not committed yet, or the marker is left over.
			c.Contended = true
			continue
		}
		c.try(ctx, id)
	}
}

// faultWindow is how far a claim with one of the faults looks.
const faultWindow = 100

func (c *claim) full() bool {
	return len(c.Holds) >= c.MaxGroups || len(c.Holds) > 0 && c.bytes <= 0
}

// try claims a group if it can be had and has something to deliver.
//
// Rule R-A, lock and then look: what was seen on the way here was seen without
// the lock, and its holder may have changed everything. So the group's
// state and its messages are read after the lock is taken. (In this store the
// mutex is held from the walk to here, so that nothing could have changed; in
// a database it is two statements.)
func (c *claim) try(ctx context.Context, id backend.ID) {
	s, tx := c.tx.store, c.tx
	if c.seen[id] {
		return
	}
	c.seen[id] = true
	if !s.waiting(tx, id) {
		return
	}
	if tx.holds[id] != nil && !slices.Contains(c.Own, id) {
		return // it is in this transaction's hands already
	}

	var before earlier // what must not be used below
	if s.fault == FaultOldLook {
		before.messages = c.peek(id)
		s.pause()
	}
	if s.fault == FaultStateBeforeLock {
		before.group = s.groups.look(tx, id)
		s.pause()
	}

	l := groupLock(id)
	fresh := !tx.holdsLock(l)
	if s.fault == FaultReceiverWaits {
		_ = tx.lock(ctx, l)
	}
	named := s.fault == FaultNamedUnlocked && !c.Group.IsZero()
	if !tx.tryLock(l) && s.fault != FaultTwoReceivers && !named {
		c.Contended = true
		return
	}
	g, ok := before.or(s.groups.get(tx, id))
	if !ok || g.queue != c.Queue || s.blocked(g) || s.leased(tx, id, g) {
		c.Contended = c.Contended || ok && g.queue == c.Queue && !s.blocked(g)
		if fresh {
			tx.unlock(l)
		}
		return
	}

	messages, discarded := s.read(tx, g, id, reading{max: c.MaxMessages, bytes: &c.bytes, first: len(c.Holds) == 0, handle: c.Handle})
	c.Discarded += discarded
	if before.messages != nil {
		messages = before.messages
	}
	if len(messages) == 0 {
		if fresh && discarded == 0 {
			tx.unlock(l)
		}
		return
	}
	c.take(id, g, messages)
}

// take makes a hold of a group that is locked.
func (c *claim) take(id backend.ID, g group, messages []*backend.Message) {
	s, tx := c.tx.store, c.tx
	hold := &backend.Hold{Queue: c.Queue, Group: id, Messages: messages}
	if p, ok := s.promotions.get(tx, id); ok {
		hold.Promoted, hold.Level, hold.Private = true, p.level, private{p}
	}
	if g.lease != nil && len(messages) > 0 { // its receiver died
		m := messages[0]
		if s.seesDeaths() {
			m.Deaths++
		}
		s.failures.put(tx, m.ID, failure{m.Attempts, m.Deaths, m.LastError, m.Errors})
		g.lease = nil
		s.groups.put(tx, id, g)
	}
	if s.fault == FaultClaimCounts && len(messages) > 0 {
		messages[0].Attempts += int(s.spent[messages[0].ID])
		s.spent[messages[0].ID]++
	}
	if c.LockOnly {
		hold.Messages = nil
	}
	if c.Lease > 0 {
		s.fence++
		hold.Fence = s.fence
		now := s.now()
		g.lease = &lease{fence: s.fence, owner: c.Owner, length: c.Lease, since: now, until: now.Add(c.Lease)}
		s.groups.put(tx, id, g)
		tx.leases = append(tx.leases, g.lease)
	}
	tx.hold(hold)
	tx.owner = c.Owner
	c.Holds = append(c.Holds, hold)
	if s.fault == FaultPostsUnlocked && g.post {
		tx.unlock(groupLock(id))
	}
	if s.fault == FaultOneShotLostByRollback && hold.Promoted {
		other := tx.handle.begin()
		s.promotions.delete(other, id)
		other.commit()
	}
	if c.Consume && !c.LockOnly {
		for _, m := range messages {
			s.acknowledge(tx, hold, m, c.Retain, c.Keep)
		}
	}
}

// hold records that a group is in this transaction's hands. A rollback to a
// savepoint before it forgets that.
func (tx *Tx) hold(hold *backend.Hold) {
	before := tx.holds[hold.Group]
	tx.holds[hold.Group] = hold
	tx.did(change{undo: func() {
		if before == nil {
			delete(tx.holds, hold.Group)
		} else {
			tx.holds[hold.Group] = before
		}
	}})
}

// release is the end of a hold.
func (tx *Tx) release(id backend.ID) {
	before := tx.holds[id]
	delete(tx.holds, id)
	tx.did(change{undo: func() { tx.holds[id] = before }})
}

// waiting reports whether a group has a message that tx sees.
func (s *Store) waiting(tx *Tx, id backend.ID) bool {
	return slices.ContainsFunc(s.homed(tx, id), func(stream backend.ID) bool {
		_, ok := s.oldest(tx, stream)
		return ok
	})
}

// reading says what to read of a group.
type reading struct {
	max    int
	bytes  *int                // still allowed
	first  bool                // the first message is read whatever its size
	handle backend.ID          // only of this endpoint
	beyond map[backend.ID]bool // messages that were delivered already
}

// place in which a message is received within its group.
type placed struct {
	*backend.Message
	oldest int64 // arrival of the oldest message of its conversation
	stream int64 // arrival of the oldest message of its stream
}

// read returns the next messages of a group, which tx holds, in the order of
// receipt. Messages for endpoints that have ended are removed and counted.
func (s *Store) read(tx *Tx, g group, id backend.ID, r reading) (messages []*backend.Message, discarded int) {
	var found []placed
	if g.service == "" {
		found = s.readPosts(tx, id, r)
	}
	for _, handle := range second(&s.members, tx, id) {
		e, ok := s.endpoints.get(tx, handle)
		if !ok || !r.handle.IsZero() && r.handle != handle {
			continue
		}
		if s.closings.has(tx, handle) && s.fault != FaultEndedReceives {
			discarded += s.dropUnread(tx, e)
			continue
		}
		found = append(found, s.readEndpoint(tx, e, r)...)
	}
	slices.SortStableFunc(found, s.compareReceipt)

	for i, m := range found {
		size := len(m.Body) + len(m.Headers)
		if s.fault == FaultHeadersUncounted {
			size = len(m.Body)
		}
		if len(messages) == r.max && s.fault != FaultMaxIgnored || *r.bytes < size && !(r.first && i == 0) && s.fault != FaultBytesIgnored {
			break
		}
		*r.bytes -= size
		messages = append(messages, m.Message)
	}
	return messages, discarded
}

// compareReceipt orders the messages of a group. Conversations are ordered by priority and then by
// age, and the messages of each stay together. Within a conversation timers come first, then
// errors, then the rest in the order of sending.
func (s *Store) compareReceipt(a, b placed) int {
	if s.fault == FaultMixesConversations {
		return cmp.Compare(a.Seq, b.Seq)
	}
	if s.fault == FaultBusyFirst {
		a.oldest, b.oldest = 0, 0
	}
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(a.oldest, b.oldest),
		compareIDs(a.Handle, b.Handle),
		cmp.Compare(s.class(a.Kind), s.class(b.Kind)),
		cmp.Compare(a.stream, b.stream),
		cmp.Compare(a.Seq, b.Seq),
	)
}

// class is the part of a kind that decides the order.
func (s *Store) class(k backend.Kind) backend.Kind {
	if s.fault == FaultErrorLast && k == backend.KindError {
		return backend.KindEnd
	}
	if s.fault == FaultTimerLast && k == backend.KindTimer {
		return backend.KindEnd
	}
	if s.fault == FaultEndOvertakes && k == backend.KindEnd {
		return backend.KindError
	}
	return min(k, backend.KindUser)
}

// readEndpoint reads the head of each stream that an endpoint receives.
func (s *Store) readEndpoint(tx *Tx, e endpoint, r reading) []placed {
	var found []placed
	oldest := int64(1<<63 - 1)
	for _, stream := range s.readBy(tx, e) {
		head := s.readStream(tx, stream, r)
		for _, p := range head {
			m := p.Message
			m.Group, m.Handle, m.Conversation, m.Initiator = e.Group, e.Handle, e.Conversation, e.Initiator
			m.Service, m.FarService, m.Contract, m.Priority = e.Service, e.FarService, e.Contract, e.Priority
			oldest = min(oldest, p.stream)
		}
		found = append(found, head...)
	}
	for i := range found {
		found[i].oldest = oldest
	}
	return found
}

// readPosts reads the head of a key's stream, or the one post of its group.
func (s *Store) readPosts(tx *Tx, id backend.ID, r reading) []placed {
	if !r.handle.IsZero() {
		return nil
	}
	found := s.readStream(tx, id, r)
	for _, p := range found {
		post, _ := s.posts.get(tx, p.ID)
		p.Group, p.Key, p.Priority = id, post.Key, post.Rank
	}
	return found
}

// readStream reads the first messages of a stream that were not delivered yet.
func (s *Store) readStream(tx *Tx, id backend.ID, r reading) []placed {
	var found []placed
	for key, m := range rowsOf(&s.messages, tx, id) {
		if len(found) == r.max && s.fault == FaultLatestOfMany {
			found = found[1:]
		}
		if len(found) == r.max {
			break
		}
		if r.beyond[m.ID] {
			continue
		}
		f, _ := s.failures.get(tx, m.ID)
		if s.fault == FaultRetryOvertaken && f.attempts > 0 && key.n < s.last(tx, id) {
			continue
		}
		if s.fault == FaultSkipsMessage && key.n%3 == 1 && key.n < s.last(tx, id) {
			continue
		}
		if s.fault == FaultHeadersLostByRetry && f.attempts > 0 {
			m.Headers = ""
		}
		found = append(found, placed{stream: m.arrival, Message: &backend.Message{
			ID: m.ID, Stream: id, Seq: key.n, Kind: m.Kind, Type: m.Type, Body: bytes.Clone(m.Body), Headers: m.Headers, Enqueued: m.Enqueued,
			Attempts: f.attempts, Deaths: f.deaths, LastError: f.err, Errors: f.errors,
		}})
	}
	for i := range found {
		found[i].stream = found[0].stream
	}
	return found
}

// More implements [backend.Tx].
func (tx *Tx) More(ctx context.Context, hold *backend.Hold, maxMessages, maxBytes int) ([]*backend.Message, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.own(hold); err != nil {
		return nil, err
	}
	g, _ := s.groups.get(tx, hold.Group)
	delivered := make(map[backend.ID]bool)
	for _, m := range hold.Messages {
		delivered[m.ID] = true
	}
	messages, _ := s.read(tx, g, hold.Group, reading{max: maxMessages, bytes: &maxBytes, first: true, beyond: delivered})
	hold.Messages = append(hold.Messages, messages...)
	return messages, nil
}

// Reclaim implements [backend.Tx].
func (tx *Tx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	if tx.store.outgrown() {
		return backend.ErrNewerSchema
	}
	for _, hold := range holds {
		if err := tx.own(hold); err != nil {
			return err
		}
	}
	return nil
}

// own makes sure that this transaction owns a hold. It owns a hold of a transaction if it was
// claimed here, and a leased one if its fence is still the group's.
func (tx *Tx) own(hold *backend.Hold) error {
	s := tx.store
	if mine := tx.holds[hold.Group]; mine != nil && mine.Fence == hold.Fence && tx.holdsLock(groupLock(hold.Group)) {
		return nil
	}
	if s.fault == FaultFenceIgnored && hold.Fence != 0 {
		tx.hold(hold)
		tx.tryLock(groupLock(hold.Group))
		return nil
	}
	g, ok := s.groups.get(tx, hold.Group)
	if hold.Fence == 0 || !ok || g.lease == nil || g.lease.fence != hold.Fence || !s.alive(g.lease) {
		return backend.ErrFenced
	}
	if !tx.tryLock(groupLock(hold.Group)) {
		return backend.ErrFenced
	}
	tx.hold(hold)
	return nil
}

// Extend implements [backend.Backend].
func (h *Handle) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	if err := h.enterMigrated(ctx); err != nil {
		return err
	}
	defer h.leave()
	s := h.store
	var err error
	for _, hold := range holds {
		g, ok := s.groups.get(nil, hold.Group)
		if !ok || g.lease == nil || g.lease.fence != hold.Fence || !s.alive(g.lease) && !s.reclaimed(hold) {
			err = backend.ErrFenced
			continue
		}
		g.lease.until = s.now().Add(d)
	}
	return err
}

// reclaimed reports whether a transaction is settling the hold just now: then
// it needs no heartbeat, and a late heartbeat is no sign of trouble.
func (s *Store) reclaimed(hold *backend.Hold) bool {
	tx := s.locks[groupLock(hold.Group)]
	return tx != nil && tx.holds[hold.Group] != nil && tx.holds[hold.Group].Fence == hold.Fence
}
