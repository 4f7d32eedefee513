package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

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
	l := e.receives
	if l == nil {
		if l, err = t.received(ctx, e.group, e.handle); err != nil {
			return nil, 0, err
		}
	}
	if err := t.drop(ctx, l.messages); err != nil {
		return nil, 0, err
	}
	for _, s := range l.streams {
		if s.Kind == streamDialog {
			streams = append(streams, s)
		} else if err := t.dropNote(ctx, e.group, s.ID); err != nil {
			return nil, 0, err
		}
	}
	return streams, t.noteUnread(e.handle, l.unread()), nil
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
	kind   int64 // of the stream
	id     backend.ID
	failed bool
}

// received are the streams that an endpoint receives, and the messages in them that we can see.
type received struct {
	group    backend.ID
	streams  []Stream
	messages []unreadMessage
	seen     map[messageKey]bool
}

// receivedRow is a stream, or none, and a message of it, or none. A row may come several times.
type receivedRow struct {
	stream  Stream
	seq     sql.NullInt64
	message backend.ID
	failure backend.ID // the message's
}

func (r *receivedRow) columns() []any {
	return []any{ID(&r.stream.ID), Int(&r.stream.Kind), &r.seq, ID(&r.message), ID(&r.failure)}
}

func (l *received) add(r *receivedRow) {
	if r.stream.ID.IsZero() {
		return
	}
	if !slices.ContainsFunc(l.streams, func(s Stream) bool { return s.ID == r.stream.ID }) {
		r.stream.Group = l.group
		l.streams = append(l.streams, r.stream)
	}
	k := messageKey{r.stream.ID, r.seq.Int64}
	if !r.seq.Valid || l.seen[k] {
		return
	}
	if l.seen == nil {
		l.seen = make(map[messageKey]bool)
	}
	l.seen[k] = true
	l.messages = append(l.messages, unreadMessage{k, r.stream.Kind, r.message, !r.failure.IsZero()})
}

// unread are the messages as they are removed.
func (l *received) unread() []Unread {
	list := make([]Unread, len(l.messages))
	for i, m := range l.messages {
		list[i] = Unread{m.stream, m.kind, m.seq}
	}
	return list
}

// received reads what an endpoint receives.
func (t *Tx) received(ctx context.Context, group, handle backend.ID) (*received, error) {
	l := &received{group: group}
	err := t.Rows(ctx, func(rows *sql.Rows) error {
		var r receivedRow
		err := rows.Scan(r.columns()...)
		l.add(&r)
		return err
	}, t.s.q.MessagesOfEndpoint, group, handle)
	return l, err
}

// remove removes messages, each by its key: a range would wait for the next one's sender on
// some engines. It returns how many there were.
func (t *Tx) remove(ctx context.Context, keys []messageKey) (removed int64, err error) {
	if t.s.d.Drop != nil && len(keys) > 1 {
		streams, seqs := make([]backend.ID, len(keys)), make([]int64, len(keys))
		for i, k := range keys {
			streams[i], seqs[i] = k.stream, k.seq
		}
		return t.s.d.Drop(ctx, t, streams, seqs)
	}
	for _, k := range keys {
		n, err := t.Exec(ctx, t.s.q.MessageDelete, k.stream, k.seq)
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

// drop removes messages, and what is kept of their failures.
func (t *Tx) drop(ctx context.Context, messages []unreadMessage) error {
	keys := make([]messageKey, len(messages))
	for i, m := range messages {
		keys[i] = m.messageKey
	}
	if _, err := t.remove(ctx, keys); err != nil {
		return err
	}
	for _, m := range messages {
		if m.failed {
			if _, err := t.Exec(ctx, t.s.q.FailureDelete, m.id); err != nil {
				return err
			}
		}
	}
	return nil
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
