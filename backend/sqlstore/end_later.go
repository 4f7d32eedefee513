package sqlstore

import (
	"context"
	"errors"
	"slices"

	"github.com/parleymq/parley/backend"
)

// An end in one of our transactions is decided at once, under the side's guard. In the ordinary
// case it is written later: when the transaction settles, or before the next verb that could miss
// it. So the ends of a worker's batch are written together. A savepoint remembers the ends that are
// not yet written, and a rollback to it restores them.

// SideEnd is the end of a side, whose guard is ours, that is to be written.
type SideEnd struct {
	Handle, Far backend.ID
	Message     backend.ID // tells the other side
	Seq         int64      // of the message
	Queue       int64      // where it goes
	Group       backend.ID
	Priority    int
	Stands      bool // the marker of its stream is there
	inHand      []Unread
}

// endLater postpones writing the end of a side, if it is an ordinary one. Then the other side
// exists and hears of the end by a message, and the transaction holds all messages that are
// removed.
func (t *Tx) endLater(e *side, end backend.End) bool {
	s, l := e.stream, e.receives
	if t.s.d.EndSides == nil || l == nil || t.unseen() || end.Kind != backend.EndPlain ||
		s.Held || s.Queue == 0 || !s.Enabled || e.farErrored || e.timers+e.copies > 0 {
		return false
	}
	read := t.inHand(e.handle)
	if slices.ContainsFunc(l.messages, func(m unreadMessage) bool { return m.failed || m.kind != streamDialog || !read[m.messageKey] }) ||
		slices.ContainsFunc(l.streams, func(x Stream) bool { return x.Kind != streamDialog }) {
		return false
	}
	_, stands := t.sent[s.ID]
	x := SideEnd{Handle: e.handle, Far: e.far, Message: end.MessageID, Seq: s.Next,
		Queue: s.Queue, Group: s.Group, Priority: s.Priority, Stands: stands, inHand: l.unread()}
	t.ends = append(t.ends, x)
	return true
}

// endsOf reports whether an end of a conversation is to be decided or written, by the handle of one of its sides.
func (t *Tx) endsOf(handle backend.ID) bool {
	return slices.ContainsFunc(t.undecided, func(x LateEnd) bool { return x.Handle == handle || x.Far == handle }) ||
		slices.ContainsFunc(t.ends, func(x SideEnd) bool { return x.Handle == handle || x.Far == handle })
}

// leaves are the messages that are removed with the ends that are to be written.
func (t *Tx) leaves() map[messageKey]bool {
	if len(t.ends) == 0 {
		return nil
	}
	keys := make(map[messageKey]bool)
	for _, x := range t.ends {
		for _, u := range x.inHand {
			keys[messageKey{u.Stream, u.Seq}] = true
		}
	}
	return keys
}

// writeEnds writes the ends that have not been, and removes their messages but for those that are about
// to be settled.
func (t *Tx) writeEnds(ctx context.Context, settled map[messageKey]bool) error {
	if len(t.ends) == 0 {
		return nil
	}
	var keys []messageKey
	for k := range t.leaves() {
		t.touch(k.stream) // again, if a savepoint took back what was done before
		if !settled[k] {
			keys = append(keys, k)
			t.noteDropped(k)
		}
	}
	err := t.s.d.EndSides(ctx, t, t.ends)
	if err == nil {
		_, err = t.remove(ctx, keys)
	}
	if err != nil {
		return t.half(err)
	}
	t.ends, t.verb.wrote = nil, false
	return nil
}

// half is for an error after which some of the ends may be written.
func (t *Tx) half(err error) error {
	t.verb.torn = Classified(backend.ErrTxDone, errors.Join(errHalf, err))
	return err
}

var errHalf = errors.New("the ends of conversations were not written")
