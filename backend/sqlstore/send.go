package sqlstore

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
)

// Send implements backend.Tx.
func (t *Tx) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return nil, nil
	}
	sent, err := t.send(ctx, version, messages)
	if err == nil {
		err = t.seal(ctx, messages)
	}
	return sent, err
}

// seal notes that the streams of last messages have had them. Their guards are
// ours.
func (t *Tx) seal(ctx context.Context, messages []backend.Outgoing) error {
	for _, m := range messages {
		if !m.Last {
			continue
		}
		if _, err := t.Exec(ctx, t.s.q.StreamSeal, m.From); err != nil {
			return err
		}
	}
	return nil
}

// send sends one message in as few trips as the engine can, and several together.
func (t *Tx) send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if one := t.s.d.SendOne; one != nil && len(messages) == 1 {
		sent, done, err := one(ctx, t, version, messages[0])
		if err != nil || done {
			return []backend.Sent{sent}, err
		}
		// It was refused, and what follows says why. If the reason has vanished
		// meanwhile, it is sent.
	}
	streams, err := t.guardsOfBatch(ctx, messages)
	if err != nil {
		return nil, err
	}
	if err := refuse(version, messages, streams); err != nil {
		return nil, err
	}
	var b Batch
	sent := make([]backend.Sent, len(messages))
	for i, m := range messages {
		s := streams[m.From]
		sent[i] = backend.Sent{Seq: s.Next, Queue: s.Queue}
		b.add(s, m.ID, int64(m.Kind), m.Type, m.Body)
	}
	if err := t.append(ctx, &b); err != nil {
		return nil, err
	}
	for i, m := range messages {
		if m.Retain {
			if err := t.RetainSent(ctx, m, sent[i].Seq); err != nil {
				return nil, err
			}
		}
	}
	return sent, nil
}

// guardsOfBatch is guards in as few trips as the engine can.
func (t *Tx) guardsOfBatch(ctx context.Context, messages []backend.Outgoing) (map[backend.ID]*Stream, error) {
	if t.s.d.Guards == nil {
		return t.guards(ctx, messages)
	}
	return t.s.d.Guards(ctx, t, senders(messages))
}

// senders returns the streams of messages, each once and in the order in which
// all senders take their guards.
func senders(messages []backend.Outgoing) []backend.ID {
	ids := make([]backend.ID, len(messages))
	for i, m := range messages {
		ids[i] = m.From
	}
	return SortIDs(ids)
}

// guards locks the streams of messages, in one order for all senders, and reads
// them. Streams that do not exist are left out.
func (t *Tx) guards(ctx context.Context, messages []backend.Outgoing) (map[backend.ID]*Stream, error) {
	streams := make(map[backend.ID]*Stream, 1)
	for _, id := range senders(messages) {
		if _, err := t.TryLock(ctx, t.s.q.GuardLock, id); err != nil {
			return nil, err
		}
		s, err := t.stream(ctx, id)
		if err != nil {
			return nil, err
		}
		if s != nil {
			streams[id] = s
		}
	}
	return streams, nil
}

// refuse returns a *backend.Refused if any of the messages cannot be sent.
func refuse(version int64, messages []backend.Outgoing, streams map[backend.ID]*Stream) error {
	refusals := make(map[int]backend.Refusal)
	for i, m := range messages {
		if r := refusal(version, streams[m.From]); r != 0 {
			refusals[i] = r
		}
	}
	return refused(messages, refusals)
}

// refused adds to the refusals the messages that follow a last one in the same
// call, and returns a *backend.Refused if there are any.
func refused(messages []backend.Outgoing, refusals map[int]backend.Refusal) error {
	for i, last := range messages {
		if !last.Last {
			continue
		}
		for j := i + 1; j < len(messages); j++ {
			if messages[j].From == last.From && refusals[j] == 0 {
				refusals[j] = backend.RefusedSealed
			}
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	return &backend.Refused{Refusals: refusals}
}

// refusal says why nothing can be sent on a stream, 0 if it can. What is wrong
// with the conversation comes before what is wrong with its target, and what is
// already withheld before the reasons to withhold more.
func refusal(version int64, s *Stream) backend.Refusal {
	switch {
	case s == nil || s.Kind != streamDialog:
		return backend.RefusedUnknown
	case s.Version != version:
		return backend.RefusedStale
	case s.Closed:
		return backend.RefusedEnded
	case s.Sealed:
		return backend.RefusedSealed
	case s.Closings > 0:
		return backend.RefusedPeer
	case s.Held:
		return backend.RefusedHeld
	case s.Queue == 0:
		return backend.RefusedNoTarget
	case !s.Enabled:
		return backend.RefusedDisabled
	}
	return 0
}

// RetainSent keeps a sender's copy.
func (t *Tx) RetainSent(ctx context.Context, m backend.Outgoing, seq int64) error {
	_, err := t.Exec(ctx, t.s.q.RetainedInsert, m.From, m.From, seq, true, m.ID, m.Kind, m.Type, m.Body, nil)
	return err
}

// Withhold implements backend.Tx.
func (t *Tx) Withhold(ctx context.Context, messages []backend.Outgoing, status string) ([]backend.Sent, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	streams, err := t.guards(ctx, messages)
	if err != nil {
		return nil, err
	}
	refusals := make(map[int]backend.Refusal)
	for i, m := range messages {
		s := streams[m.From]
		if s == nil {
			refusals[i] = backend.RefusedUnknown
			continue
		}
		switch r := refusal(s.Version, s); r {
		case backend.RefusedUnknown, backend.RefusedEnded, backend.RefusedSealed, backend.RefusedPeer:
			refusals[i] = r
		}
	}
	if err := refused(messages, refusals); err != nil {
		return nil, err
	}
	sent := make([]backend.Sent, len(messages))
	for i, m := range messages {
		s := streams[m.From]
		sent[i].Seq = s.Next
		if err := t.withhold(ctx, s, m, status); err != nil {
			return nil, err
		}
		if m.Retain {
			if err := t.RetainSent(ctx, m, sent[i].Seq); err != nil {
				return nil, err
			}
		}
	}
	return sent, t.seal(ctx, messages)
}

// withhold appends one message to those of a stream that wait.
func (t *Tx) withhold(ctx context.Context, s *Stream, m backend.Outgoing, status string) error {
	_, err := t.Exec(ctx, t.s.q.HeldInsert, s.ID, s.Next, m.ID, m.Kind, m.Type, m.Body, status)
	if err != nil {
		return err
	}
	s.Next++
	_, err = t.Exec(ctx, t.s.q.StreamHold, s.Next, s.ID)
	return err
}

// heldMessage is a row of the table held.
type heldMessage struct {
	seq   int64
	id    backend.ID
	kind  backend.Kind
	typ   string
	body  []byte
	since int64
}

func (t *Tx) heldMessages(ctx context.Context, id backend.ID) (held []heldMessage, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var m heldMessage
		err := rows.Scan(&m.seq, ID(&m.id), &m.kind, &m.typ, Body(&m.body), &m.since)
		held = append(held, m)
		return err
	}, t.s.q.HeldRead, id)
	return held, err
}

// release takes what is withheld out of a stream whose guard is ours.
func (t *Tx) release(ctx context.Context, id backend.ID) error {
	if _, err := t.Exec(ctx, t.s.q.HeldDelete, id); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.StreamUnhold, id)
	return err
}

// Deliver implements backend.Tx.
func (t *Tx) Deliver(ctx context.Context, from backend.ID) (int, error) {
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	s, err := t.guard(ctx, from)
	switch {
	case err != nil:
		return 0, err
	case s == nil:
		return 0, backend.ErrNoConversation
	case !s.Held || s.Queue == 0: // nothing to move, or nowhere to move it to
		return 0, nil
	case !s.Enabled:
		return 0, backend.ErrQueueDisabled
	}
	held, err := t.heldMessages(ctx, from)
	if err != nil {
		return 0, err
	}
	ordered := false
	for _, m := range held {
		if m.kind == backend.KindError {
			err = t.putNote(ctx, *s, note{id: m.id, kind: m.kind, body: m.body})
		} else {
			ordered = true
			_, err = t.Exec(ctx, t.s.q.MessageInsert, from, m.seq, m.id, m.kind, m.typ, m.body, nil)
		}
		if err != nil {
			return 0, err
		}
	}
	if ordered {
		if err := t.mark(ctx, *s); err != nil {
			return 0, err
		}
	}
	return len(held), t.release(ctx, from)
}

// Discard implements backend.Tx.
func (t *Tx) Discard(ctx context.Context, from backend.ID, reason string) (int, error) {
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	s, err := t.guard(ctx, from)
	switch {
	case err != nil:
		return 0, err
	case s == nil:
		return 0, backend.ErrNoConversation
	case !s.Held:
		return 0, nil
	}
	e, err := t.endpoint(ctx, from)
	if err != nil {
		return 0, err
	}
	if e == nil {
		e = new(backend.Endpoint)
	}
	held, err := t.heldMessages(ctx, from)
	if err != nil {
		return 0, err
	}
	for _, m := range held {
		// Seen from the target: the service that should have received it.
		err := t.bury(ctx, s.Queue, &backend.Message{
			ID: m.id, Stream: from, Seq: m.seq, Kind: m.kind, Type: m.typ, Body: m.body,
			Group: s.Group, Handle: e.Peer, Conversation: e.Conversation, Initiator: !e.Initiator,
			Service: e.Far, Far: e.Service, Contract: e.Contract, Priority: s.Priority,
		}, m.since, reason)
		if err != nil {
			return 0, err
		}
	}
	return len(held), t.release(ctx, from)
}

// Resend implements backend.Tx.
func (t *Tx) Resend(ctx context.Context, from, to backend.ID, status string) (int, error) {
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	streams, err := t.guards(ctx, []backend.Outgoing{{From: from}, {From: to}})
	if err != nil {
		return 0, err
	}
	a, b := streams[from], streams[to]
	if a == nil || b == nil {
		return 0, backend.ErrNoConversation
	}
	held, err := t.heldMessages(ctx, from)
	if err != nil || len(held) == 0 {
		return 0, err
	}
	// What is withheld of a stream is all it has since the first of it, so the
	// numbers have no gaps, and EndOfStream, if it is there, is the last.
	moved, err := t.Exec(ctx, t.s.q.HeldMove, to, b.Next-held[0].seq, status, from, backend.TypeEndOfStream)
	if err != nil || moved == 0 {
		return 0, err
	}
	if _, err := t.Exec(ctx, t.s.q.StreamHold, b.Next+moved, to); err != nil {
		return 0, err
	}
	return int(moved), t.release(ctx, from)
}

// bury records a dead letter.
func (t *Tx) bury(ctx context.Context, queue int64, m *backend.Message, since int64, reason string) error {
	_, err := t.Exec(ctx, t.s.q.DeadInsert, m.ID, queue, m.Stream, m.Seq, m.Group, m.Kind, m.Type, m.Body, since,
		m.Key, Null(m.Handle), Null(m.Conversation), m.Initiator, m.Service, m.Far, m.Contract,
		m.Priority, m.Attempts, m.Suspicion, m.LastError, reason)
	return err
}
