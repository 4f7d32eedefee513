package memstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// endpoint is one side of a conversation. What its peer does never changes the
// row: handlers of both sides would wait for each other. State, Error and
// Lifetime are worked out when it is read.
type endpoint struct {
	backend.Endpoint
	deadline time.Time // zero: none
	began    time.Time
}

// closing says that the endpoint under whose handle it is kept has ended.
type closing struct {
	err  *backend.DialogError // what it told the peer, if it ended with an error
	keep time.Time            // the conversation stays visible until then
	n    int64                // tells which of two errors was first
}

// trouble is what the broker says of an endpoint: it is in error.
type trouble struct {
	backend.DialogError
	n int64
}

// BeginDialog implements [backend.Tx].
func (tx *Tx) BeginDialog(ctx context.Context, version int64, d backend.NewDialog) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	if s.stale(tx, version) {
		return backend.ErrStaleCatalog
	}

	g := group{queue: d.Queue, service: d.Service}
	if d.NewGroup {
		if !tx.newGroup(d.Group, g) {
			return backend.ErrGroupBusy
		}
	} else if err := tx.mayJoin(d.Group, g); err != nil {
		return err
	}

	e := endpoint{Endpoint: d.Endpoint, began: s.now()}
	if d.Lifetime > 0 {
		e.deadline = e.began.Add(d.Lifetime)
	}
	tx.putEndpoint(e)
	// The stream to the target has no home before there is a target: Accept
	// fills in where it leads. The other one leads here from the beginning.
	s.streams.put(tx, d.Handle, stream{reader: d.FarHandle})
	s.streams.put(tx, d.FarHandle, stream{reader: d.Handle, accepted: true, queue: d.Queue, priority: d.Priority})
	return nil
}

// Accept implements [backend.Tx].
func (tx *Tx) Accept(ctx context.Context, version int64, from backend.ID, target backend.Endpoint) (bool, error) {
	if err := tx.enter(ctx); err != nil {
		return false, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.lock(ctx, guardLock(from)); err != nil {
		return false, err
	}
	if s.stale(tx, version) {
		return false, backend.ErrStaleCatalog
	}
	initiator, ok := s.endpoints.get(tx, from)
	if !ok {
		return false, backend.ErrNoConversation
	}
	out, _ := s.streams.get(tx, from)
	if out.accepted {
		return false, nil
	}
	target.Group = target.Handle
	if !tx.newGroup(target.Group, group{queue: target.Queue, service: target.Service}) {
		return false, nil
	}
	// The lifetime is that of the whole conversation.
	tx.putEndpoint(endpoint{Endpoint: target, began: s.now(), deadline: initiator.deadline})
	out.accepted, out.queue, out.priority = true, target.Queue, target.Priority
	s.streams.put(tx, from, out)
	return true, nil
}

func (tx *Tx) putEndpoint(e endpoint) {
	tx.store.endpoints.put(tx, e.Handle, e)
	tx.store.members.put(tx, pair{e.Group, e.Handle}, struct{}{})
}

// Endpoint implements [backend.Tx].
func (tx *Tx) Endpoint(ctx context.Context, handle backend.ID) (*backend.Endpoint, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	e, ok := tx.store.endpoints.get(tx, handle)
	if !ok {
		return nil, backend.ErrNoConversation
	}
	seen := tx.store.view(tx, e)
	return &seen, nil
}

// Members implements [backend.Tx].
func (tx *Tx) Members(ctx context.Context, group backend.ID) ([]*backend.Endpoint, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	var list []*backend.Endpoint
	for _, handle := range second(&s.members, tx, group) {
		if e, ok := s.endpoints.get(tx, handle); ok && s.fault != FaultNoMembers {
			seen := s.view(tx, e)
			if s.fault == FaultSealedUnlisted && seen.Sealed {
				continue
			}
			list = append(list, &seen)
		}
	}
	return list, nil
}

// view fills in what is worked out when an endpoint is read.
func (s *Store) view(tx *Tx, e endpoint) backend.Endpoint {
	seen := e.Endpoint
	seen.State, seen.Error = s.state(tx, e)
	seen.FarCleaned = s.peerCleaned(tx, e)
	out, _ := s.streams.get(tx, e.Handle)
	seen.NextSeq, seen.Sealed = out.next, out.sealed
	seen.Lifetime = 0
	if !e.deadline.IsZero() && s.fault != FaultLifetimeUntold {
		seen.Lifetime = max(e.deadline.Sub(s.now()), 1) // never zero: that means unlimited
	}
	if s.fault == FaultEqualHandles {
		seen.FarHandle = seen.Handle
	}
	return seen
}

// state derives the state of a side from what both sides have left behind.
func (s *Store) state(tx *Tx, e endpoint) (backend.State, *backend.DialogError) {
	ended := s.closings.has(tx, e.Handle)
	peer, peerEnded := s.closings.get(tx, e.FarHandle)
	err := peer.err
	if t, ok := s.troubles.get(tx, e.Handle); ok && (err == nil || t.n < peer.n) {
		err = &t.DialogError
	}
	switch {
	case ended && (peerEnded || s.alone(tx, e)):
		return backend.Closed, nil
	case ended:
		return backend.DisconnectedOutbound, nil
	case err != nil:
		return backend.Errored, err
	case peerEnded:
		return backend.DisconnectedInbound, nil
	case e.Initiator && s.next(tx, e.Handle) == 0:
		return backend.StartedOutbound, nil
	default:
		return backend.Conversing, nil
	}
}

// alone reports whether there is no other side. It was never created and no waiting message could
// create it, or it was cleaned up.
func (s *Store) alone(tx *Tx, e endpoint) bool {
	if s.endpoints.has(tx, e.FarHandle) {
		return false
	}
	return s.peerCleaned(tx, e) || !s.holdsBack(tx, e.Handle)
}

// peerCleaned reports whether there was another side that has been cleaned up.
func (s *Store) peerCleaned(tx *Tx, e endpoint) bool {
	out, _ := s.streams.get(tx, e.Handle)
	return out.accepted && !s.endpoints.has(tx, e.FarHandle)
}

// EndDialog implements [backend.Tx].
func (tx *Tx) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	var done backend.Ended
	if err := tx.enter(ctx); err != nil {
		return done, err
	}
	defer tx.leave()
	s := tx.store

	e, ok := s.endpoints.get(tx, end.Handle)
	if !ok {
		return done, backend.ErrNoConversation
	}
	if s.closings.has(tx, end.Handle) {
		return done, backend.ErrEnded
	}
	if !tx.holdsLock(groupLock(e.Group)) {
		return done, backend.ErrGroupBusy
	}
	if err := tx.lock(ctx, guardLock(e.Handle)); err != nil { // senders on this side
		return done, err
	}

	state, _ := s.state(tx, e)
	peer, _ := s.endpoints.get(tx, e.FarHandle)
	peerEnded := s.closings.has(tx, e.FarHandle)
	if s.fault != FaultKeepsUnread {
		done.Dropped = s.dropUnread(tx, e)
	}
	s.dropOwn(tx, e)
	alone := s.alone(tx, e)

	if end.Kind == backend.EndCleanup {
		done.FarGone = peerEnded || alone
		s.forget(tx, e)
		if done.FarGone {
			s.removeConversation(tx, e)
		}
		return done, nil
	}

	if end.Kind == backend.EndError && s.fault != FaultErrorDelivers || state == backend.Errored || peerEnded {
		clearRows(&s.withheld, tx, e.Handle)
		alone = s.alone(tx, e)
	}
	s.serial++
	closed := closing{keep: s.now().Add(end.Keep), n: s.serial}
	if end.Kind == backend.EndError {
		closed.err = end.Error
	}
	s.closings.put(tx, e.Handle, closed)

	_, peerTroubled := s.troubles.get(tx, e.FarHandle)
	switch {
	case peerEnded && s.fault == FaultTellsEnded:
		done.Queue = s.tell(tx, e, peer, message{ID: end.MessageID, Kind: backend.KindEnd})
	case peerEnded || alone:
		done.FarGone = true
		done.FarEnded = peerEnded || s.peerCleaned(tx, e)
		done.Remains = end.Keep == 0 && !s.removeIfFree(tx, e)
	case peerTroubled:
		// It is in error: it has heard enough and will end by itself.
	case end.Kind == backend.EndError:
		done.Queue = s.tell(tx, e, peer, message{ID: end.MessageID, Kind: backend.KindError, Body: end.Error.Body()})
	default:
		done.Queue = s.tell(tx, e, peer, message{ID: end.MessageID, Kind: backend.KindEnd})
	}
	return done, nil
}

// tell sends the last message of a side whose guard is held. It returns the queue that got the
// message, or zero if the message has to wait behind others or for the queue.
func (s *Store) tell(tx *Tx, e endpoint, peer endpoint, m message) int64 {
	out, _ := s.streams.get(tx, e.Handle)
	m.Type = m.Kind.Type()
	switch {
	case !out.accepted || s.holdsBack(tx, e.Handle) || s.disabled(tx, out.queue):
		s.keepBack(tx, e.Handle, m, "the conversation has ended, its last message waits")
		return 0
	case m.Kind == backend.KindError: // goes before what was sent: a separate stream
		s.notify(tx, peer, m)
	default:
		s.append(tx, e.Handle, m)
	}
	return out.queue
}

// dropUnread removes the messages for a side and returns how many it were.
// Markers stay: they may only go under the guards of their senders.
func (s *Store) dropUnread(tx *Tx, e endpoint) int {
	n := 0
	for _, id := range s.readBy(tx, e) {
		n += s.clearMessages(tx, id)
	}
	return n
}

// clearMessages removes the messages of a stream and returns how many there were.
func (s *Store) clearMessages(tx *Tx, stream backend.ID) int {
	for _, m := range rowsOf(&s.messages, tx, stream) {
		s.failures.delete(tx, m.ID)
	}
	return clearRows(&s.messages, tx, stream)
}

// dropOwn removes what else a side has that dies with it.
func (s *Store) dropOwn(tx *Tx, e endpoint) {
	if s.fault != FaultTimerSurvivesEnd {
		s.timers.delete(tx, e.Handle)
	}
	if s.fault != FaultRetainedSurvivesEnd {
		clearRows(&s.retained, tx, e.Handle)
	}
}

// forget removes the rows of one side.
func (s *Store) forget(tx *Tx, e endpoint) {
	s.dropUnread(tx, e)
	for _, id := range second(&s.notices, tx, e.Handle) {
		s.removeStream(tx, id)
		s.notices.delete(tx, pair{e.Handle, id})
	}
	s.dropOwn(tx, e)
	if s.fault != FaultCleanupKeeps {
		clearRows(&s.withheld, tx, e.Handle)
	}
	s.troubles.delete(tx, e.Handle)
	s.closings.delete(tx, e.Handle)
	s.members.delete(tx, pair{e.Group, e.Handle})
	s.endpoints.delete(tx, e.Handle)
}

// removeIfFree removes a conversation that both sides have ended, unless
// another transaction is busy with it: then that is left to the maintenance job.
func (s *Store) removeIfFree(tx *Tx, e endpoint) bool {
	if s.fault == FaultClosedStays {
		return false
	}
	if !tx.tryLock(guardLock(e.Handle)) || !tx.tryLock(guardLock(e.FarHandle)) {
		return false
	}
	if peer, ok := s.endpoints.get(tx, e.FarHandle); ok && !tx.tryGroup(peer.Group) {
		return false
	}
	s.removeConversation(tx, e)
	return true
}

// removeConversation removes both sides; their groups are left to the sweep.
// The guards are held.
func (s *Store) removeConversation(tx *Tx, e endpoint) {
	if peer, ok := s.endpoints.get(tx, e.FarHandle); ok {
		s.forget(tx, peer)
	}
	s.forget(tx, e)
	for _, side := range []backend.ID{e.Handle, e.FarHandle} {
		s.clearMessages(tx, side)
		s.removeStream(tx, side)
		s.closings.delete(tx, side)
	}
}

// Notice implements [backend.Tx].
func (tx *Tx) Notice(ctx context.Context, n backend.Notice) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	e, ok := s.endpoints.get(tx, n.To)
	if !ok {
		return backend.ErrNoConversation
	}
	if s.closings.has(tx, n.To) {
		return nil
	}
	m := message{ID: backend.NewID(), Kind: n.Kind}
	if n.Kind == backend.KindError {
		m.Body = n.Error.Body()
		s.inError(tx, n.To, *n.Error)
	}
	s.notify(tx, e, m)
	return nil
}

// inError puts an endpoint in error. The first error counts.
func (s *Store) inError(tx *Tx, handle backend.ID, err backend.DialogError) {
	if !s.troubles.has(tx, handle) {
		s.serial++
		s.troubles.put(tx, handle, trouble{err, s.serial})
	}
}

// notify gives an endpoint a message in a separate stream.
func (s *Store) notify(tx *Tx, to endpoint, m message) {
	id := backend.NewID()
	m.Type = m.Kind.Type()
	s.streams.put(tx, id, stream{reader: to.Handle, accepted: true, queue: to.Queue, priority: to.Priority, single: true})
	s.notices.put(tx, pair{to.Handle, id}, struct{}{})
	s.append(tx, id, m)
}

// SetTimer implements [backend.Tx].
func (tx *Tx) SetTimer(ctx context.Context, handle backend.ID, after time.Duration) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	s := tx.store
	if !s.endpoints.has(tx, handle) {
		return backend.ErrNoConversation
	}
	if s.closings.has(tx, handle) {
		return backend.ErrEnded
	}
	if after <= 0 {
		s.timers.delete(tx, handle)
		return nil
	}
	if s.fault == FaultTimerSurvivesRollback {
		tx = tx.handle.begin()
		defer tx.commit()
	}
	if s.fault == FaultTimerDiesWithProcess {
		tx.handle.timers = append(tx.handle.timers, handle)
	}
	s.timers.put(tx, handle, s.now().Add(after))
	return nil
}
