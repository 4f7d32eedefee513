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
	far, hears := t.hears(end.Handle)
	if end.Kind == backend.EndPlain && t.s.d.EndFirst != nil && !hears {
		queue, unread, err := t.s.d.EndFirst(ctx, t, end)
		if err != nil || queue != 0 {
			return backend.Ended{Queue: queue, Dropped: t.noteUnread(end.Handle, unread)}, err
		}
	}
	// The guard comes first: a sender that waits for it sees the stream closed, and
	// what we read now is not older than what the last sender wrote.
	farLocked, err := t.endGuards(ctx, end.Handle, far)
	if err != nil {
		return done, err
	}
	e, err := t.side(ctx, end.Handle)
	if err != nil {
		return done, err
	}
	switch {
	case e == nil:
		return done, backend.ErrNoConversation
	case e.ended:
		return done, backend.ErrEnded
	}
	return t.endSide(ctx, e, end, farLocked)
}

// endSide ends a side whose guard is ours. farLocked says that the other one's is, too.
func (t *Tx) endSide(ctx context.Context, e *side, end backend.End, farLocked bool) (done backend.Ended, err error) {
	done.FarEnded = e.farEnded || e.farCleaned
	// What waits for the target goes on waiting only if we end as friends.
	if e.stream.Held && (end.Kind != backend.EndPlain || e.errored || done.FarEnded) {
		if err := t.release(ctx, e.handle); err != nil {
			return done, err
		}
		e.stream.Held = false
	}
	done.FarGone = done.FarEnded || e.stream.Queue == 0 && !e.stream.Held
	remove := done.FarGone && end.Keep <= 0
	if remove && !farLocked {
		// With both guards nothing more arrives, except what is a stream of its own.
		if remove, err = t.lockFar(ctx, e); err != nil {
			return done, err
		}
	}
	if !done.FarGone {
		if done.Queue, err = t.tellPeer(ctx, e, end); err != nil {
			return done, err
		}
	}
	mine, dropped, err := t.dropUnread(ctx, e)
	if err != nil {
		return done, err
	}
	done.Dropped = dropped
	if remove {
		removed, err := t.removeSides(ctx, e, mine)
		if err != nil || removed {
			return done, err
		}
	}
	done.Remains = done.FarGone && end.Keep <= 0
	return done, t.closeSide(ctx, e, end, done.FarGone)
}

// side is what the end of a side of a conversation depends on.
type side struct {
	handle, far, group backend.ID
	stream             *Stream // on which it sends; its guard is ours

	ended                bool
	farEnded, farCleaned bool // by END, with or without an error; by a cleanup
	errored              bool
	farErrored           bool // the other side has been told of an error
	timers, copies, held int  // whether there are such, of both sides
}

// side reads a side of a conversation, nil if there is none.
func (t *Tx) side(ctx context.Context, handle backend.ID) (*side, error) {
	var e *side
	err := t.Rows(ctx, func(rows *sql.Rows) error {
		x := &side{handle: handle, stream: &Stream{ID: handle, Kind: streamDialog}}
		s := x.stream
		var closed, queue, kind sql.NullInt64
		var byPeer bool
		var errors int
		err := rows.Scan(ID(&x.far), ID(&x.group), &closed, ID(&s.Group), &queue, ID(&s.Endpoint), &s.Priority, &s.Next,
			Bool(&s.Held), Bool(&s.Enabled), Witness(&errors), Witness(&x.timers), Witness(&x.copies), Witness(&x.held),
			&kind, Bool(&byPeer))
		if err != nil {
			return err
		}
		if e == nil {
			e = x
			e.ended, s.Queue, e.farErrored = closed.Valid, queue.Int64, errors > 0
		}
		if kind.Valid {
			e.farEnded = e.farEnded || kind.Int64 == closingEnd || kind.Int64 == closingError && byPeer
			e.errored = e.errored || kind.Int64 == closingError
			e.farCleaned = e.farCleaned || kind.Int64 == closingCleanup
		}
		return nil
	}, t.s.q.EndRead, handle)
	return e, err
}

// lockFar takes the guard of the other side's stream without waiting.
func (t *Tx) lockFar(ctx context.Context, e *side) (bool, error) {
	locked, err := t.TryLock(ctx, t.s.q.GuardTry, e.far)
	if err != nil || locked {
		return locked, err
	}
	s, err := t.stream(ctx, e.far)
	return s == nil, err
}

// tellPeer leaves word for the other side, by rows of its own, so that it waits
// for nothing there, and returns the queue in which a message went.
func (t *Tx) tellPeer(ctx context.Context, e *side, end backend.End) (queue int64, err error) {
	kind, code, text := closingEnd, any(nil), any(nil)
	switch end.Kind {
	case backend.EndError:
		kind, code, text = closingError, end.Error.Code, end.Error.Text
	case backend.EndCleanup:
		kind = closingCleanup
	}
	_, err = t.Exec(ctx, t.s.q.ClosingInsert, e.far, end.MessageID, kind, true, code, text)
	// A side that is in error has been told all it needs to know.
	if err != nil || end.Kind == backend.EndCleanup || e.farErrored {
		return 0, err
	}
	s := e.stream
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
	s.Next++ // closeSide writes it
	return s.Queue, t.mark(ctx, *s)
}

// closeSide ends a side that stays, as long as the other one has not ended or for a time.
func (t *Tx) closeSide(ctx context.Context, e *side, end backend.End, farGone bool) error {
	if e.timers > 0 {
		if _, err := t.Exec(ctx, t.s.q.TimersDelete, e.handle); err != nil {
			return err
		}
	}
	if e.copies > 0 {
		if _, err := t.Exec(ctx, t.s.q.RetainedDelete, e.handle); err != nil {
			return err
		}
	}
	if _, err := t.Exec(ctx, t.s.q.StreamClose, e.stream.Next, e.handle); err != nil {
		return err
	}
	if end.Kind == backend.EndCleanup && !farGone {
		for _, q := range []*Stmt{t.s.q.EndpointDelete, t.s.q.ClosingDelete} {
			if _, err := t.Exec(ctx, q, e.handle); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := t.Exec(ctx, t.s.q.EndpointClose, e.handle); err != nil || !farGone {
		return err
	}
	if end.Keep > 0 {
		// As long as it is kept the other side shows that we have ended as well.
		if _, err := t.Exec(ctx, t.s.q.ClosingInsert, e.far, end.MessageID, closingEnd, true, nil, nil); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, t.s.q.EndpointFinish, max(end.Keep, 0), e.handle)
	return err
}

// hears reports whether the transaction has in hand what tells a side that the other one has
// ended, or of an error, and returns the stream of an end.
func (t *Tx) hears(handle backend.ID) (far backend.ID, hears bool) {
	for _, h := range t.holds {
		for _, m := range h.Messages {
			if m.Handle != handle || m.Kind != backend.KindEnd && m.Kind != backend.KindError {
				continue
			}
			if hears = true; m.Kind == backend.KindEnd {
				far = m.Stream
			}
		}
	}
	return far, hears
}

// endGuards takes the guard of a side, for which it waits, and without waiting that of the other
// side, if it is known to have ended: then no sender needs it.
func (t *Tx) endGuards(ctx context.Context, handle, far backend.ID) (farLocked bool, err error) {
	if far.IsZero() || t.s.d.EndGuards == nil {
		_, err = t.TryLock(ctx, t.s.q.GuardLock, handle)
		return false, err
	}
	return t.s.d.EndGuards(ctx, t, handle, far)
}

// Unread is a message that was removed with its receiver's side.
type Unread struct {
	Stream backend.ID
	Kind   int64 // of the stream
	Seq    int64
}

// dropUnread removes the messages for an endpoint that we can see, and the
// streams that were made for one message. It returns the other streams, if they are wanted row by
// row, and how many of the messages no receiver had in hand.
func (t *Tx) dropUnread(ctx context.Context, e *side) (streams []Stream, unread int, err error) {
	if t.s.d.DropUnread != nil {
		list, err := t.s.d.DropUnread(ctx, t, e.group, e.handle)
		return nil, t.noteUnread(e.handle, list), err
	}
	all, messages, err := t.unread(ctx, e.group, e.handle)
	if err != nil {
		return nil, 0, err
	}
	if err := t.drop(ctx, messages); err != nil {
		return nil, 0, err
	}
	kinds := make(map[backend.ID]int64, len(all))
	for _, s := range all {
		kinds[s.ID] = s.Kind
		if s.Kind == streamDialog {
			streams = append(streams, s)
		} else if err := t.dropNote(ctx, e.group, s.ID); err != nil {
			return nil, 0, err
		}
	}
	list := make([]Unread, len(messages))
	for i, m := range messages {
		list[i] = Unread{m.stream, kinds[m.stream], m.seq}
	}
	return streams, t.noteUnread(e.handle, list), nil
}

// noteUnread takes note of messages that were removed with a side, and returns how many of
// them no receiver had in hand.
func (t *Tx) noteUnread(handle backend.ID, list []Unread) (unread int) {
	read := t.inHand(handle)
	for _, u := range list {
		k := messageKey{u.Stream, u.Seq}
		if !read[k] && u.Kind != streamTimer {
			unread++
		}
		if u.Kind == streamDialog {
			t.touch(u.Stream)
		}
		t.noteDropped(k)
	}
	return unread
}

// unreadMessage is a message that is removed with its receiver's side.
type unreadMessage struct {
	messageKey
	id     backend.ID
	failed bool
}

// unread lists the streams that an endpoint receives, and the messages in them that we can
// see.
func (t *Tx) unread(ctx context.Context, group, handle backend.ID) (streams []Stream, messages []unreadMessage, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		s := Stream{Group: group}
		var m unreadMessage
		var seq sql.NullInt64
		var failed backend.ID
		if err := rows.Scan(ID(&s.ID), &s.Kind, &seq, ID(&m.id), ID(&failed)); err != nil {
			return err
		}
		if n := len(streams); n == 0 || streams[n-1].ID != s.ID {
			streams = append(streams, s)
		}
		if seq.Valid {
			m.messageKey, m.failed = messageKey{s.ID, seq.Int64}, !failed.IsZero()
			messages = append(messages, m)
		}
		return nil
	}, t.s.q.MessagesOfEndpoint, group, handle)
	return streams, messages, err
}

// drop removes messages, each by its key: a range would wait for the next one's sender on
// some engines.
func (t *Tx) drop(ctx context.Context, messages []unreadMessage) error {
	if t.s.d.Drop != nil && len(messages) > 0 {
		var streams []backend.ID
		var seqs []int64
		for _, m := range messages {
			streams, seqs = append(streams, m.stream), append(seqs, m.seq)
		}
		if err := t.s.d.Drop(ctx, t, streams, seqs); err != nil {
			return err
		}
	}
	for _, m := range messages {
		if t.s.d.Drop == nil {
			if _, err := t.Exec(ctx, t.s.q.MessageDelete, m.stream, m.seq); err != nil {
				return err
			}
		}
		if m.failed {
			if _, err := t.Exec(ctx, t.s.q.FailureDelete, m.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeSides removes both sides of a conversation, with the streams that the one has that
// ends. The guards of both are ours. It returns false, having changed nothing, if there are
// messages that the other side's receiver may have in hand.
func (t *Tx) removeSides(ctx context.Context, e *side, streams []Stream) (bool, error) {
	if t.s.d.RemoveSides != nil {
		removed, err := t.s.d.RemoveSides(ctx, t, e.handle, e.far)
		if removed {
			t.vanish(e.handle, e.far)
		}
		return removed, err
	}
	if e.stream.Queue != 0 {
		theirs, messages, err := t.unread(ctx, e.stream.Group, e.stream.Endpoint)
		if err != nil || len(messages) > 0 {
			return false, err
		}
		streams = append(streams, theirs...)
	}
	for _, s := range streams {
		_, err := t.Exec(ctx, t.s.q.MarkerDelete, s.Group, s.ID)
		if err == nil && s.Kind != streamDialog {
			_, err = t.Exec(ctx, t.s.q.StreamDelete, s.ID)
		}
		if err != nil {
			return false, err
		}
	}
	for _, x := range []struct {
		q    *Stmt
		some bool
	}{
		{t.s.q.HeldDelete, e.held > 0}, {t.s.q.TimersDelete, e.timers > 0}, {t.s.q.RetainedDelete, e.copies > 0},
	} {
		if !x.some {
			continue
		}
		for _, id := range [...]backend.ID{e.handle, e.far} {
			if _, err := t.Exec(ctx, x.q, id); err != nil {
				return false, err
			}
		}
	}
	for _, q := range []*Stmt{t.s.q.ClosingsDelete, t.s.q.StreamsDelete, t.s.q.EndpointsDelete} {
		if _, err := t.Exec(ctx, q, e.handle, e.far); err != nil {
			return false, err
		}
	}
	t.vanish(e.handle, e.far)
	return true, nil
}

// vanish notes streams that the transaction has removed: they have no place in the order.
func (t *Tx) vanish(streams ...backend.ID) { t.vanished = append(t.vanished, streams...) }

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
// expects anything any more, with the messages that are left. The caller holds the groups
// of both sides. It returns false, having changed nothing, when a guard is locked.
func (t *Tx) removeConversation(ctx context.Context, a, b backend.ID) (bool, error) {
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
