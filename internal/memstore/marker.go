package memstore

import (
	"cmp"
	"iter"

	"github.com/parleymq/parley/backend"
)

// A marker says that a stream has messages. Claims walk the markers of a queue
// in rank order and look at nothing else, so a message without a marker is
// stranded.
//
// A sender that finds the marker there leaves it alone. A sender that has not committed may rely on
// a marker. Therefore no transaction may remove a marker, or decide that it is not needed, without
// holding the guard (rule R-B).
type marker struct {
	queue    int64
	priority int
	since    int64 // arrival of the oldest message, or when its group's deferral was over
}

// rank is the place of a stream in the ready order.
type rank struct {
	queue    int64
	priority int // descending
	since    int64
	stream   backend.ID
}

func compareRanks(a, b rank) int {
	return cmp.Or(
		cmp.Compare(a.queue, b.queue),
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(a.since, b.since),
		compareIDs(a.stream, b.stream),
	)
}

// mark puts a stream into the ready order unless it is there. The guard is held.
func (s *Store) mark(tx *Tx, id backend.ID) {
	if !s.markers.has(tx, id) {
		s.remark(tx, id)
	}
}

// standing is where a stream belongs in the ready order: under its oldest message, but not before its
// group came back from a deferral.
func (s *Store) standing(tx *Tx, id backend.ID, oldest message) int64 {
	home, _ := s.home(tx, id)
	g, _ := s.groups.get(tx, home)
	since := max(oldest.arrival, g.returned)
	if s.fault == FaultReturnsFirst {
		since = oldest.arrival
	}
	if s.fault == FaultNewestFirst {
		since = -since
	}
	return since
}

// remark puts a stream where it belongs in the ready order, or nowhere if it has no message. The
// guard is held.
func (s *Store) remark(tx *Tx, id backend.ID) {
	s.unmark(tx, id)
	oldest, ok := s.oldest(tx, id)
	if !ok {
		return
	}
	st, _ := s.streams.get(tx, id)
	m := marker{queue: st.queue, priority: st.priority, since: s.standing(tx, id, oldest)}
	if p, ok := s.posts.get(tx, oldest.ID); ok && s.fault == FaultRankOfHead {
		m.priority = p.Rank
	}
	if s.fault == FaultPriorityIgnored {
		m.priority = 0
	}
	if s.fault == FaultSilentRaise {
		m.priority = s.highest(tx, id)
	}
	s.markers.put(tx, id, m)
	s.order.put(tx, rank{m.queue, m.priority, m.since, id}, struct{}{})
}

// unmark takes a stream out of the ready order. The guard is held.
func (s *Store) unmark(tx *Tx, id backend.ID) {
	if m, ok := s.markers.get(tx, id); ok {
		s.order.delete(tx, rank{m.queue, m.priority, m.since, id})
		s.markers.delete(tx, id)
	}
}

// ready ranges over the streams of a queue in the ready order.
func (s *Store) ready(tx *Tx, queue int64) iter.Seq[backend.ID] {
	return func(yield func(backend.ID) bool) {
		for r := range s.order.from(tx, rank{queue: queue, priority: 1 << 30}) {
			if r.queue != queue || !yield(r.stream) {
				return
			}
		}
	}
}

// oldest returns the first message of a stream that tx sees.
func (s *Store) oldest(tx *Tx, id backend.ID) (message, bool) {
	for _, m := range rowsOf(&s.messages, tx, id) {
		return m, true
	}
	return message{}, false
}

// home returns the group in which a stream is received. A conversation's is
// that of the endpoint that receives, so a Move takes the stream along.
func (s *Store) home(tx *Tx, id backend.ID) (backend.ID, bool) {
	st, ok := s.streams.get(tx, id)
	if !ok {
		return backend.ID{}, false
	}
	if st.reader.IsZero() {
		return id, true
	}
	e, ok := s.endpoints.get(tx, st.reader)
	return e.Group, ok
}

// readBy returns the streams that an endpoint receives.
func (s *Store) readBy(tx *Tx, e endpoint) []backend.ID {
	return append([]backend.ID{e.FarHandle}, second(&s.notices, tx, e.Handle)...)
}

// homed returns the streams that are received in a group.
func (s *Store) homed(tx *Tx, id backend.ID) []backend.ID {
	var streams []backend.ID
	for _, handle := range second(&s.members, tx, id) {
		if e, ok := s.endpoints.get(tx, handle); ok {
			streams = append(streams, s.readBy(tx, e)...)
		}
	}
	if st, ok := s.streams.get(tx, id); ok && st.reader.IsZero() { // posts
		streams = append(streams, id)
	}
	return streams
}

// removeStream removes a stream that no sender will write to any more.
func (s *Store) removeStream(tx *Tx, id backend.ID) {
	s.unmark(tx, id)
	s.streams.delete(tx, id)
}

// collect reads a range to its end, for a caller that is going to change the
// table.
func collect[K, V any](seq iter.Seq2[K, V]) iter.Seq2[K, V] {
	var keys []K
	var values []V
	for k, v := range seq {
		keys, values = append(keys, k), append(values, v)
	}
	return func(yield func(K, V) bool) {
		for i := range keys {
			if !yield(keys[i], values[i]) {
				return
			}
		}
	}
}
