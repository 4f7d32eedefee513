package sqlstore

import (
	"context"
	"database/sql"
	"slices"

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
	if err := t.readyFor(ctx, end.Handle); err != nil {
		return backend.Ended{}, err
	}
	done, later := t.endUndecided(end)
	var err error
	if !later {
		done, err = t.endNow(ctx, end)
	}
	if err == nil {
		if t.closed == nil {
			t.closed = make(map[backend.ID]bool)
		}
		t.closed[end.Handle] = true
	}
	return done, err
}

// endNow decides an end.
func (t *Tx) endNow(ctx context.Context, end backend.End) (done backend.Ended, err error) {
	far, hears := t.hears(end.Handle)
	if end.Kind == backend.EndPlain && t.s.d.EndFirst != nil && !hears {
		queue, unread, err := t.s.d.EndFirst(ctx, t, end)
		if err != nil || queue != 0 {
			return backend.Ended{Queue: queue, Dropped: t.noteUnread(end.Handle, unread)}, err
		}
	}
	// The guard comes first. A sender that waits for it will see the stream closed, and what we
	// read now includes what the last sender wrote.
	farLocked, err := t.endGuards(ctx, end.Handle, far)
	if err != nil {
		return done, err
	}
	e, err := t.side(ctx, end.Handle, farLocked)
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
		// With both guards nothing more arrives, except messages that are streams by themselves.
		if remove, err = t.lockFar(ctx, e); err != nil {
			return done, err
		}
	}
	if !done.FarGone {
		if t.endLater(e, end) {
			return backend.Ended{Queue: e.stream.Queue}, nil
		}
		if done.Queue, err = t.tellPeer(ctx, e, end); err != nil {
			return done, err
		}
	}
	if remove && t.quiet(e) {
		done.Dropped, err = t.removeQuiet(ctx, []*side{e})
		return done, err
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

	receives *received // nil if it has not been read
	farQuiet bool      // the other side receives one stream, in which nothing waits
}

// sideRow is a side with one thing that it has been told of the other side, or nothing, and one of what waits for it.
type sideRow struct {
	x            side
	stream       Stream
	closed, kind sql.NullInt64
	queue        sql.NullInt64
	byPeer       bool
	errors       int
	handle       backend.ID
	far          int
	received     receivedRow
}

func (r *sideRow) columns() []any {
	x, s := &r.x, &r.stream
	return []any{ID(&x.far), ID(&x.group), &r.closed, ID(&s.Group), &r.queue, ID(&s.Endpoint), &s.Priority, &s.Next,
		Bool(&s.Held), Bool(&s.Enabled), Witness(&r.errors), Witness(&x.timers), Witness(&x.copies), Witness(&x.held),
		&r.kind, Bool(&r.byPeer)}
}

// more are the further columns of EndUnread.
func (r *sideRow) more() []any {
	return append([]any{Witness(&r.far), ID(&r.handle)}, r.received.columns()...)
}

// side is the side of the first of its rows.
func (r *sideRow) side(handle backend.ID) *side {
	e := &r.x
	e.handle, e.ended, e.farErrored = handle, r.closed.Valid, r.errors > 0
	e.stream = &r.stream
	e.stream.ID, e.stream.Kind, e.stream.Queue = handle, streamDialog, r.queue.Int64
	return e
}

// told adds what a row says that the side has been told.
func (e *side) told(r *sideRow) {
	if r.kind.Valid {
		e.farEnded = e.farEnded || r.kind.Int64 == ClosingEnd || r.kind.Int64 == closingError && r.byPeer
		e.errored = e.errored || r.kind.Int64 == closingError
		e.farCleaned = e.farCleaned || r.kind.Int64 == closingCleanup
	}
}

// side reads a side of a conversation, nil if there is none. With farLocked its end may
// be the second one.
func (t *Tx) side(ctx context.Context, handle backend.ID, farLocked bool) (e *side, err error) {
	if !t.s.q.EndUnread.Empty() {
		sides, err := t.sides(ctx, []backend.ID{handle}, farLocked)
		return sides[handle], err
	}
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		r := new(sideRow)
		err := rows.Scan(r.columns()...)
		if e == nil {
			e = r.side(handle)
		}
		e.told(r)
		return err
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

// tellPeer tells the other side by separate rows, so that it waits for nothing there. It returns
// the queue of the message.
func (t *Tx) tellPeer(ctx context.Context, e *side, end backend.End) (queue int64, err error) {
	kind, code, text := ClosingEnd, any(nil), any(nil)
	switch end.Kind {
	case backend.EndError:
		kind, code, text = closingError, end.Error.Code, end.Error.Text
	case backend.EndCleanup:
		kind = closingCleanup
	}
	_, err = t.Exec(ctx, t.s.q.ClosingInsert, e.far, end.MessageID, kind, true, code, text)
	// A side that is in error already knows all it needs.
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
	if _, stands := t.sent[s.ID]; stands {
		return s.Queue, nil
	}
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
		if _, err := t.Exec(ctx, t.s.q.ClosingInsert, e.far, end.MessageID, ClosingEnd, true, nil, nil); err != nil {
			return err
		}
	}
	_, err := t.Exec(ctx, t.s.q.EndpointFinish, max(end.Keep, 0), e.handle)
	return err
}

// hears reports whether the transaction holds the message that tells a side of the other side's end
// or error. It returns the stream of an end.
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

// endGuards takes the guard of a side, and waits for it. If the other side is known to have ended,
// no sender needs its guard, and endGuards takes that without waiting.
func (t *Tx) endGuards(ctx context.Context, handle, far backend.ID) (farLocked bool, err error) {
	if far.IsZero() || t.s.d.EndGuards == nil {
		if _, ours := t.sent[handle]; ours {
			return false, nil
		}
		_, err = t.TryLock(ctx, t.s.q.GuardLock, handle)
		return false, err
	}
	return t.s.d.EndGuards(ctx, t, handle, far)
}

// Remainder is what there is left of conversations that both sides have ended.
type Remainder struct {
	Messages []Unread
	Markers  [][2]backend.ID // groups and streams
	Streams  []backend.ID
	Handles  []backend.ID // of both sides
}

// quiet reports whether a conversation that both sides have ended is an ordinary one, given that the guards of both
// are ours.
func (t *Tx) quiet(e *side) bool {
	return t.s.d.RemoveQuiet != nil && !t.Joined() && e.farQuiet && e.timers+e.copies+e.held == 0 &&
		!slices.ContainsFunc(e.receives.messages, func(m unreadMessage) bool { return m.failed })
}

// removeQuiet removes both sides of such conversations, and what waits for the ending sides. It returns how many of the
// messages no receiver had in hand.
func (t *Tx) removeQuiet(ctx context.Context, list []*side) (unread int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	r := new(Remainder)
	for _, e := range list {
		r.Messages = append(r.Messages, e.receives.unread()...)
		r.Markers = append(r.Markers, [2]backend.ID{e.stream.Group, e.handle})
		r.Streams, r.Handles = append(r.Streams, e.handle, e.far), append(r.Handles, e.handle, e.far)
		for _, s := range e.receives.streams {
			if r.Markers = append(r.Markers, [2]backend.ID{s.Group, s.ID}); s.Kind != streamDialog {
				r.Streams = append(r.Streams, s.ID)
			}
		}
	}
	if err := t.s.d.RemoveQuiet(ctx, t, r); err != nil {
		return 0, err
	}
	for _, e := range list {
		unread += t.noteUnread(e.handle, e.receives.unread())
	}
	t.vanish(r.Handles...)
	return unread, nil
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
		theirs, err := t.received(ctx, e.stream.Group, e.stream.Endpoint)
		if err != nil || len(theirs.messages) > 0 {
			return false, err
		}
		streams = append(streams, theirs.streams...)
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

// dropMessages removes the visible messages of a stream, each by its key. On some engines a range
// would wait for the sender of the next message.
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
// No other verb locks its guard but the sweep, which waits for no marker then.
func (t *Tx) dropNote(ctx context.Context, group, id backend.ID) error {
	if _, err := t.Exec(ctx, t.s.q.MarkerDelete, group, id); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.StreamDelete, id)
	return err
}

// removeConversation removes both sides of a conversation, and its remaining messages, when neither
// side expects anything any more. The caller holds the groups of both sides. It returns false,
// having changed nothing, when a guard is locked.
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
