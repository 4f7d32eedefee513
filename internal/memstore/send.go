package memstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// stream is the guard row of a stream. A transaction that writes to the stream
// holds its lock until the end and takes the next number from here. So no other
// transaction can write a later message that is committed earlier.
//
// The id of a stream is the handle of the sending side of a conversation, or the id of a key's
// group. A post without key and a notice have a separate id.
type stream struct {
	next     int64      // the number of the next message
	reader   backend.ID // the endpoint that receives; zero: posts
	accepted bool       // the endpoint that receives has come into being
	queue    int64      // where it leads
	priority int
	single   bool // one message and never another: a notice, a post without key
	sealed   bool // its last message has been sent

	status    string    // why its messages are withheld
	heldSince time.Time // since when
}

// message is a message that waits.
type message struct {
	ID       backend.ID
	Kind     backend.Kind
	Type     string
	Body     []byte
	Headers  string
	Enqueued time.Time
	arrival  int64 // orders messages of different streams by age
}

// Send implements [backend.Tx].
func (tx *Tx) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	if s.fault == FaultSenderWaits {
		if err := tx.waitForReceivers(ctx, messages); err != nil {
			return nil, err
		}
	}
	if s.fault != FaultSendUnguarded {
		if err := tx.lockGuards(ctx, messages); err != nil {
			return nil, err
		}
	}

	if s.fault == FaultSenderTakesGroup {
		for _, m := range messages {
			if e, ok := s.endpoints.get(tx, m.From); ok {
				if err := tx.lock(ctx, groupLock(e.Group)); err != nil {
					return nil, err
				}
			}
		}
	}

	// Only now, with the guards held, is what we see what we may rely on.
	refusals := make(map[int]backend.Refusal)
	for i, m := range messages {
		if r := s.refusal(tx, version, m.From); r != 0 {
			refusals[i] = r
		}
	}
	refuseAfterLast(messages, refusals)
	if len(refusals) > 0 && s.fault != FaultSendsPart {
		return nil, &backend.Refused{Refusals: refusals}
	}

	var sent []backend.Sent
	for i, m := range messages {
		if refusals[i] != 0 {
			continue
		}
		if tx.noWait && i > 0 && i == len(messages)-1 && s.fault == FaultTogetherLoses {
			sent = append(sent, backend.Sent{})
			continue
		}
		n := s.append(tx, m.From, outgoing(m))
		s.keepCopy(tx, m, n)
		out, _ := s.streams.get(tx, m.From)
		sent = append(sent, backend.Sent{Seq: n, Queue: out.queue})
		s.seal(tx, m)
	}
	if len(refusals) > 0 {
		return nil, &backend.Refused{Refusals: refusals}
	}
	return sent, nil
}

// refuseAfterLast refuses what stands behind the last message of its stream.
func refuseAfterLast(messages []backend.Outgoing, refusals map[int]backend.Refusal) {
	last := make(map[backend.ID]bool)
	for i, m := range messages {
		if last[m.From] && refusals[i] == 0 {
			refusals[i] = backend.RefusedSealed
		}
		last[m.From] = last[m.From] || m.Last
	}
}

// seal notes on a stream, whose guard is held, that it has had its last message.
func (s *Store) seal(tx *Tx, m backend.Outgoing) {
	if m.Last && s.fault != FaultNeverSealed {
		out, _ := s.streams.get(tx, m.From)
		out.sealed = true
		s.streams.put(tx, m.From, out)
	}
}

// lockGuards locks the guards of all streams of a call, in one order for all callers, so that no
// two callers wait for each other.
func (tx *Tx) lockGuards(ctx context.Context, messages []backend.Outgoing) error {
	var streams []backend.ID
	for _, m := range messages {
		streams = append(streams, m.From)
	}
	slices.SortFunc(streams, compareIDs)
	for _, id := range slices.Compact(streams) {
		if err := tx.lock(ctx, guardLock(id)); err != nil {
			return err
		}
	}
	return nil
}

// refusal says why a side cannot send to its target's queue; zero: it can.
func (s *Store) refusal(tx *Tx, version int64, from backend.ID) backend.Refusal {
	if r := s.unfit(tx, version, from); r != 0 {
		return r
	}
	out, _ := s.streams.get(tx, from)
	switch {
	case !out.accepted:
		return backend.RefusedNoTarget
	case s.holdsBack(tx, from) && s.fault != FaultHeldOvertaken:
		return backend.RefusedWithheld
	case s.disabled(tx, out.queue):
		return backend.RefusedDisabled
	default:
		return 0
	}
}

// unfit says why a side cannot send at all; zero: it can.
func (s *Store) unfit(tx *Tx, version int64, from backend.ID) backend.Refusal {
	e, ok := s.endpoints.get(tx, from)
	if s.stale(tx, version) {
		return backend.RefusedStale
	}
	if !ok {
		return backend.RefusedUnknown
	}
	out, _ := s.streams.get(tx, from)
	switch state, _ := s.state(tx, e); {
	case state == backend.DisconnectedOutbound || state == backend.Closed:
		return backend.RefusedEnded
	case out.sealed:
		return backend.RefusedSealed
	case s.fault == FaultErrorSends && state == backend.Errored:
		return 0
	case state == backend.DisconnectedInbound || state == backend.Errored:
		return backend.RefusedFar
	case s.peerCleaned(tx, e):
		return backend.RefusedFar
	default:
		return 0
	}
}

func outgoing(m backend.Outgoing) message {
	return message{ID: m.ID, Kind: m.Kind, Type: m.Type, Body: bytes.Clone(m.Body), Headers: m.Headers}
}

// append adds a message to the end of a stream whose guard is held. It puts the stream into the
// ready order if it is not there yet.
func (s *Store) append(tx *Tx, id backend.ID, m message) int64 {
	out, _ := s.streams.get(tx, id)
	n := s.takeNumber(tx, id, &out)
	s.place(tx, id, n, m)
	return n
}

// takeNumber takes the next number of a stream. It comes from a row of the
// transaction, never from a counter, so that a rollback leaves no gap.
func (s *Store) takeNumber(tx *Tx, id backend.ID, out *stream) int64 {
	n := out.next
	if s.fault == FaultNumbersLost {
		n = max(n, s.spent[id])
		s.spent[id] = n + 1
	}
	out.next = n + 1
	s.streams.put(tx, id, *out)
	return n
}

// place makes a message that has its number receivable.
func (s *Store) place(tx *Tx, id backend.ID, n int64, m message) {
	if s.fault == FaultNoneIsEmpty && m.Body == nil {
		m.Body = []byte{}
	}
	if s.fault == FaultTrimsBodies {
		m.Body = bytes.TrimRight(m.Body, "\x00")
	}
	if s.fault == FaultHeadersStick && m.Headers == "" {
		before, _ := s.messages.get(tx, numbered{id, n - 1})
		m.Headers = before.Headers
	}
	if s.fault == FaultHeadersCut && len(m.Headers) > backend.MaxHeaderBytes {
		m.Headers = ""
	}
	s.arrivals++
	m.arrival, m.Enqueued = s.arrivals, s.now()
	s.messages.put(tx, numbered{id, n}, m)
	if s.fault == FaultMarksFirstOnly && n > 0 {
		return
	}
	s.mark(tx, id)
}

func (s *Store) next(tx *Tx, id backend.ID) int64 {
	out, _ := s.streams.get(tx, id)
	return out.next
}

// keepCopy keeps a copy for a sender whose queue has retention.
func (s *Store) keepCopy(tx *Tx, m backend.Outgoing, n int64) {
	if !m.Retain && s.fault != FaultRetainsAlways {
		return
	}
	e, _ := s.endpoints.get(tx, m.From)
	s.serial++
	s.retained.put(tx, numbered{m.From, s.serial}, backend.RetainedMessage{Sent: true, Message: backend.Message{
		ID: m.ID, Stream: m.From, Seq: n, Kind: m.Kind, Type: m.Type, Body: bytes.Clone(m.Body), Headers: m.Headers, Enqueued: s.now(),
		Group: e.Group, Handle: m.From, Conversation: e.Conversation, Initiator: e.Initiator,
		Service: e.Service, FarService: e.FarService, Contract: e.Contract, Priority: e.Priority,
	}})
}

// TryStream implements [backend.Tx].
func (tx *Tx) TryStream(ctx context.Context, handle backend.ID) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	switch {
	case !tx.store.endpoints.has(tx, handle):
		return backend.ErrNoConversation
	case !tx.tryLock(guardLock(handle)):
		return backend.ErrStreamBusy
	}
	return nil
}

// Withhold implements [backend.Tx].
func (tx *Tx) Withhold(ctx context.Context, messages []backend.Outgoing, status string) ([]backend.Sent, error) {
	if err := tx.enter(ctx); err != nil {
		return nil, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.lockGuards(ctx, messages); err != nil {
		return nil, err
	}
	refusals := make(map[int]backend.Refusal)
	for i, m := range messages {
		if r := s.unfit(tx, s.defined(tx).Version, m.From); r != 0 {
			refusals[i] = r
		}
	}
	refuseAfterLast(messages, refusals)
	if len(refusals) > 0 {
		return nil, &backend.Refused{Refusals: refusals}
	}
	var sent []backend.Sent
	for _, m := range messages {
		n := s.keepBack(tx, m.From, outgoing(m), status)
		s.keepCopy(tx, m, n)
		s.seal(tx, m)
		sent = append(sent, backend.Sent{Seq: n})
	}
	return sent, nil
}

// keepBack appends a message to those of a stream that wait for their target.
func (s *Store) keepBack(tx *Tx, id backend.ID, m message, status string) int64 {
	out, _ := s.streams.get(tx, id)
	if !s.holdsBack(tx, id) {
		out.heldSince = s.now()
	}
	out.status = status
	n := s.takeNumber(tx, id, &out)
	m.Enqueued = s.now()
	s.withheld.put(tx, numbered{id, n}, m)
	return n
}

// holdsBack reports whether messages of a stream wait for their target. Later
// ones then have to wait behind them.
func (s *Store) holdsBack(tx *Tx, id backend.ID) bool {
	for range rowsOf(&s.withheld, tx, id) {
		return true
	}
	return false
}

// Deliver implements [backend.Tx].
func (tx *Tx) Deliver(ctx context.Context, from backend.ID) (int, error) {
	if err := tx.enter(ctx); err != nil {
		return 0, err
	}
	defer tx.leave()
	s := tx.store
	e, ok := s.endpoints.get(tx, from)
	if !ok {
		return 0, backend.ErrNoConversation
	}
	if !tx.tryLock(guardLock(from)) {
		return 0, backend.ErrStreamBusy
	}
	out, _ := s.streams.get(tx, from)
	if !out.accepted {
		return 0, nil
	}
	if s.disabled(tx, out.queue) {
		return 0, backend.ErrQueueDisabled
	}
	target, ok := s.endpoints.get(tx, e.FarHandle)
	if !ok || s.closings.has(tx, e.FarHandle) { // no receiver will get them any more
		clearRows(&s.withheld, tx, from)
		return 0, nil
	}

	moved := 0
	for key, m := range collect(rowsOf(&s.withheld, tx, from)) {
		s.withheld.delete(tx, key)
		if m.Kind == backend.KindError {
			s.notify(tx, target, m)
		} else {
			if s.fault == FaultHeadersLostWithheld {
				m.Headers = ""
			}
			s.place(tx, from, key.n, m)
		}
		moved++
	}
	return moved, nil
}

// Discard implements [backend.Tx].
func (tx *Tx) Discard(ctx context.Context, from backend.ID, reason string) (int, error) {
	if err := tx.enter(ctx); err != nil {
		return 0, err
	}
	defer tx.leave()
	s := tx.store
	e, ok := s.endpoints.get(tx, from)
	if !ok {
		return 0, backend.ErrNoConversation
	}
	if !tx.tryLock(guardLock(from)) {
		return 0, backend.ErrStreamBusy
	}
	dropped := 0
	out, _ := s.streams.get(tx, from)
	for key, m := range collect(rowsOf(&s.withheld, tx, from)) {
		s.withheld.delete(tx, key)
		s.bury(tx, out.queue, backend.Message{
			ID: m.ID, Stream: from, Seq: key.n, Kind: m.Kind, Type: m.Type, Body: m.Body, Headers: m.Headers, Enqueued: m.Enqueued,
			Conversation: e.Conversation, Initiator: !e.Initiator, Service: e.FarService, FarService: e.Service, Contract: e.Contract,
		}, reason)
		dropped++
	}
	return dropped, nil
}

// Resend implements [backend.Tx].
func (tx *Tx) Resend(ctx context.Context, from, to backend.ID, status string) (int, error) {
	if err := tx.enter(ctx); err != nil {
		return 0, err
	}
	defer tx.leave()
	s := tx.store
	if err := tx.lockGuards(ctx, []backend.Outgoing{{From: from}, {From: to}}); err != nil {
		return 0, err
	}
	if !s.endpoints.has(tx, from) || !s.endpoints.has(tx, to) {
		return 0, backend.ErrNoConversation
	}
	if s.fault == FaultResendLost {
		return 0, nil
	}
	waiting := collect(rowsOf(&s.withheld, tx, from))
	moved := 0
	for key, m := range waiting {
		s.withheld.delete(tx, key)
		if m.Type == backend.TypeEndOfStream && s.fault != FaultEndOfStreamResent {
			continue
		}
		s.keepBack(tx, to, m, status)
		moved++
	}
	return moved, nil
}
