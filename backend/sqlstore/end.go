package sqlstore

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
)

// messageKey names a message in its stream.
type messageKey struct {
	stream backend.ID
	seq    int64
}

// waitsBehind is the status of what is withheld because of earlier messages.
const waitsBehind = "earlier messages of the conversation wait"

// EndDialog implements backend.Tx.
func (t *Tx) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	var done backend.Ended
	if err := t.ready(ctx); err != nil {
		return done, err
	}
	// The guard comes first: a sender that waits for it sees the stream closed, and
	// what we read now is not older than what the last sender wrote.
	if _, err := t.TryLock(ctx, t.s.q.GuardLock, end.Handle); err != nil {
		return done, err
	}
	e, st, err := t.endpointAndState(ctx, end.Handle)
	if err != nil {
		return done, err
	}
	if e == nil {
		return done, backend.ErrNoConversation
	}
	if st.ended {
		return done, backend.ErrEnded
	}
	s, err := t.stream(ctx, end.Handle)
	if err != nil {
		return done, err
	}
	if s == nil {
		return done, backend.ErrNoConversation
	}

	// What waits for the target goes on waiting only if we end as friends.
	if s.Held && (end.Kind != backend.EndPlain || e.Error != nil || st.peerEnded || e.FarCleaned) {
		if err := t.release(ctx, s.ID); err != nil {
			return done, err
		}
		s.Held = false
	}
	done.FarGone = st.peerEnded || e.FarCleaned || s.Queue == 0 && !s.Held
	done.FarEnded = st.peerEnded || e.FarCleaned
	if !done.FarGone {
		if done.Queue, err = t.tellPeer(ctx, e, s, end); err != nil {
			return done, err
		}
	}
	if done.Dropped, err = t.dropUnread(ctx, e); err != nil {
		return done, err
	}
	for _, q := range []*Stmt{t.s.q.TimersDelete, t.s.q.RetainedDelete, t.s.q.StreamClose, t.s.q.EndpointClose} {
		if _, err := t.Exec(ctx, q, e.Handle); err != nil {
			return done, err
		}
	}
	switch {
	case done.FarGone && end.Keep <= 0:
		removed, err := t.removeConversation(ctx, e.Handle, e.FarHandle, false)
		if err != nil || removed {
			return done, err
		}
		done.Remains = true
		_, err = t.Exec(ctx, t.s.q.EndpointFinish, 0, e.Handle)
		return done, err
	case done.FarGone:
		// As long as it is kept the other side shows that we have ended as well.
		_, err = t.Exec(ctx, t.s.q.ClosingInsert, e.FarHandle, end.MessageID, closingEnd, true, nil, nil)
		if err == nil {
			_, err = t.Exec(ctx, t.s.q.EndpointFinish, end.Keep, e.Handle)
		}
	case end.Kind == backend.EndCleanup:
		for _, q := range []*Stmt{t.s.q.EndpointDelete, t.s.q.ClosingDelete} {
			if _, err := t.Exec(ctx, q, e.Handle); err != nil {
				return done, err
			}
		}
	}
	return done, err
}

// tellPeer leaves word for the other side, by rows of its own, so that it waits
// for nothing there, and returns the queue in which a message went.
func (t *Tx) tellPeer(ctx context.Context, e *backend.Endpoint, s *Stream, end backend.End) (queue int64, err error) {
	kind, code, text := closingEnd, any(nil), any(nil)
	switch end.Kind {
	case backend.EndError:
		kind, code, text = closingError, end.Error.Code, end.Error.Text
	case backend.EndCleanup:
		kind = closingCleanup
	}
	peer, err := t.endpoint(ctx, e.FarHandle)
	if err != nil {
		return 0, err
	}
	_, err = t.Exec(ctx, t.s.q.ClosingInsert, e.FarHandle, end.MessageID, kind, true, code, text)
	// A side that is in error has been told all it needs to know.
	if err != nil || end.Kind == backend.EndCleanup || peer != nil && peer.State == backend.Errored {
		return 0, err
	}
	m := backend.Outgoing{ID: end.MessageID, From: s.ID, Kind: backend.KindEnd, Type: backend.TypeEndDialog}
	if end.Kind == backend.EndError {
		m.Kind, m.Type, m.Body = backend.KindError, backend.TypeError, end.Error.Body()
	}
	switch {
	case s.Held || s.Queue == 0:
		return 0, t.withhold(ctx, s, m, waitsBehind)
	case !s.Enabled:
		return 0, t.withhold(ctx, s, m, "the target's queue is disabled")
	case m.Kind == backend.KindError:
		return s.Queue, t.putNote(ctx, *s, note{id: m.ID, kind: m.Kind, body: m.Body})
	}
	if _, err := t.Exec(ctx, t.s.q.MessageInsert, s.ID, s.Next, m.ID, m.Kind, m.Type, nil, nil, nil); err != nil {
		return 0, err
	}
	if _, err := t.Exec(ctx, t.s.q.StreamAdvance, s.Next+1, s.ID); err != nil {
		return 0, err
	}
	return s.Queue, t.mark(ctx, *s)
}

// dropUnread removes the messages for an endpoint that we can see, and the
// streams that were made for one message. It returns how many of them no
// receiver had in hand.
func (t *Tx) dropUnread(ctx context.Context, e *backend.Endpoint) (unread int, err error) {
	read := t.inHand(e.Handle)
	streams, err := t.streamsOf(ctx, e.Group, e.Handle)
	if err != nil {
		return 0, err
	}
	for _, s := range streams {
		keys, err := t.dropMessages(ctx, s.ID)
		if err != nil {
			return 0, err
		}
		for _, k := range keys {
			if !read[k] && s.Kind != streamTimer {
				unread++
			}
			t.noteDropped(k)
		}
		if s.Kind != streamDialog {
			if err := t.dropNote(ctx, e.Group, s.ID); err != nil {
				return 0, err
			}
		} else if len(keys) > 0 {
			t.touch(s.ID)
		}
	}
	return unread, nil
}

// streamsOf lists the streams that an endpoint receives.
func (t *Tx) streamsOf(ctx context.Context, group, handle backend.ID) (streams []Stream, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var s Stream
		err := rows.Scan(ID(&s.ID), &s.Kind)
		streams = append(streams, s)
		return err
	}, t.s.q.StreamsOfEndpoint, group, handle)
	return streams, err
}

// dropMessages removes the messages of a stream that we can see, each by its
// key: a range would wait for the next one's sender on some engines.
func (t *Tx) dropMessages(ctx context.Context, id backend.ID) (keys []messageKey, err error) {
	var ids []backend.ID
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		k := messageKey{stream: id}
		var m backend.ID
		err := rows.Scan(&k.seq, ID(&m))
		keys, ids = append(keys, k), append(ids, m)
		return err
	}, t.s.q.MessageKeys, id)
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		if _, err := t.Exec(ctx, t.s.q.MessageDelete, k.stream, k.seq); err != nil {
			return nil, err
		}
		if _, err := t.Exec(ctx, t.s.q.FailureDelete, ids[i]); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// dropNote removes a stream that was made for one message, and its marker.
// No other verb locks its guard.
func (t *Tx) dropNote(ctx context.Context, group, id backend.ID) error {
	if _, err := t.Exec(ctx, t.s.q.MarkerDelete, group, id); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.StreamDelete, id)
	return err
}

// inHand returns the messages for an endpoint that this transaction delivered.
func (t *Tx) inHand(handle backend.ID) map[messageKey]bool {
	keys := make(map[messageKey]bool)
	for _, h := range t.holds {
		for _, m := range h.Messages {
			if m.Handle == handle {
				keys[messageKey{m.Stream, m.Seq}] = true
			}
		}
	}
	return keys
}

// noteDropped remembers a message that END removed, so that a settle in this
// transaction does not miss it.
func (t *Tx) noteDropped(k messageKey) {
	if t.dropped == nil {
		t.dropped = make(map[messageKey]bool)
	}
	t.dropped[k] = true
}

// removeConversation removes both sides of a conversation of which no side
// expects anything any more. It returns false, having changed nothing, when
// something stands in the way: a guard that is locked, or messages that the
// other side's receiver may have in hand. With force the caller holds the
// groups of both sides, and messages are removed as well.
func (t *Tx) removeConversation(ctx context.Context, a, b backend.ID, force bool) (bool, error) {
	sides := [2]*Stream{}
	for i, id := range SortIDs([]backend.ID{a, b}) {
		s, err := t.guard(ctx, id)
		if err == backend.ErrStreamBusy {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		sides[i] = s
	}
	var rest []Stream // streams of this conversation besides the two
	for _, s := range sides {
		if s == nil || s.Queue == 0 {
			continue
		}
		more, err := t.streamsOf(ctx, s.Group, s.Endpoint)
		if err != nil {
			return false, err
		}
		for _, m := range more {
			m.Queue, m.Group = s.Queue, s.Group
			rest = append(rest, m)
		}
	}
	if !force {
		for _, s := range rest {
			var seq, since int64
			found, err := t.Row(ctx, []any{&seq, &since}, t.s.q.MessageFirst, s.ID)
			if err != nil || found {
				return false, err
			}
		}
	}
	for _, s := range rest {
		if _, err := t.dropMessages(ctx, s.ID); err != nil {
			return false, err
		}
		if err := t.dropNote(ctx, s.Group, s.ID); err != nil {
			return false, err
		}
	}
	for _, id := range [...]backend.ID{a, b} {
		for _, q := range []*Stmt{
			t.s.q.HeldDelete, t.s.q.TimersDelete, t.s.q.RetainedDelete, t.s.q.ClosingDelete,
			t.s.q.StreamDelete, t.s.q.EndpointDelete,
		} {
			if _, err := t.Exec(ctx, q, id); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}
