package bolt

import (
	"time"

	"github.com/parleymq/parley/backend"
)

// stream is the row of a stream: the next number, where it leads, and its place in the ready
// order. Its id is the handle of the side that sends, the group of a key, or an id of its own.
type stream struct {
	Next     int64
	Reader   backend.ID // the side that receives; zero: posts
	Accepted bool       // there is, or was, a side that receives
	Queue    int64
	Priority int
	Sealed   bool // its last message was sent

	Status string    // why its messages are withheld
	Since  time.Time // since when

	Marked  bool // it is in the ready order, under
	Arrival int64
}

// message is a message that waits. Its body is in a separate bucket, so that one can look for
// messages without reading what they carry.
type message struct {
	ID       backend.ID
	Kind     backend.Kind
	Type     string
	Headers  string
	Enqueued time.Time
	Arrival  int64 // orders messages of different streams by age
	Size     int
	Body     bool // it has one, if only an empty one
}

func (l *look) stream(id backend.ID) stream { s, _ := get(l, streams, key(id)); return s }

func (l *look) putStream(id backend.ID, s stream) { put(l, streams, key(id), s) }

// append adds a message to the end of a stream.
func (l *look) append(id backend.ID, m message, body []byte) (n int64) {
	s := l.stream(id)
	n = s.Next
	s.Next++
	l.putStream(id, s)
	l.place(messages, id, n, m, body)
	l.mark(id)
	return n
}

// place writes a message and its body.
func (l *look) place(t table[message], id backend.ID, n int64, m message, body []byte) {
	m.Arrival, m.Enqueued = l.next("arrivals"), l.now()
	m.Size, m.Body = len(body)+len(m.Headers), body != nil
	put(l, t, key(id, n), m)
	if body != nil {
		put(l, bodies, key(id, n), body)
	}
}

// body returns the body of a message.
func (l *look) body(k []byte, m message) []byte {
	if !m.Body {
		return nil
	}
	b, _ := get(l, bodies, k)
	if b == nil {
		b = []byte{}
	}
	return b
}

// take removes a message and its body, and reports whether it was there.
func (l *look) take(t table[message], k []byte) bool {
	remove(l, bodies, k)
	return remove(l, t, k)
}

// takeAll removes the messages of a stream and returns how many there were.
func (l *look) takeAll(t table[message], id backend.ID) (n int) {
	for _, r := range list(l, t, key(id)) {
		l.take(t, r.key)
		n++
	}
	return n
}

// mark puts a stream in its place in the ready order, that of its oldest message, but not before its
// group came back from a deferral. A stream without messages, or of a hidden group, has none. In a
// store with many writers this wants the guard of the stream; here a transaction that writes has all
// guards.
func (l *look) mark(id backend.ID) {
	s, ok := get(l, streams, key(id))
	if !ok {
		return
	}
	_, oldest, waits := first(l, messages, key(id))
	home, known := l.home(id)
	g, ok := get(l, groups, key(home))
	waits = waits && known && !(ok && g.hidden())
	at := max(oldest.Arrival, g.Returned)
	if s.Marked == waits && (!waits || s.Arrival == at) {
		return
	}
	l.unmark(id, &s)
	if waits {
		s.Marked, s.Arrival = true, at
		put(l, order, s.place(id), none{})
	}
	l.putStream(id, s)
}

func (l *look) unmark(id backend.ID, s *stream) {
	if s.Marked {
		remove(l, order, s.place(id))
	}
	s.Marked = false
}

// place is the key of a stream in the ready order.
func (s *stream) place(id backend.ID) []byte {
	return key(s.Queue, byte(255-s.Priority), s.Arrival, id)
}

// home returns the group in which a stream is received: that of the side that reads it.
func (l *look) home(id backend.ID) (backend.ID, bool) {
	s, ok := get(l, streams, key(id))
	if !ok {
		return backend.ID{}, false
	}
	if s.Reader.IsZero() {
		return id, true
	}
	e, ok := l.endpoint(s.Reader)
	return e.Group, ok
}

// readBy returns the streams that a side receives.
func (l *look) readBy(e endpoint) []backend.ID {
	ids := []backend.ID{e.FarHandle}
	for k := range scan(l, notices, key(e.Handle)) {
		ids = append(ids, idAt(k, 16))
	}
	return ids
}

// homed returns the streams that are received in a group.
func (l *look) homed(id backend.ID) (ids []backend.ID) {
	for _, e := range l.members(id) {
		ids = append(ids, l.readBy(e)...)
	}
	if s, ok := get(l, streams, key(id)); ok && s.Reader.IsZero() {
		ids = append(ids, id)
	}
	return ids
}

// waits reports whether a group has a message.
func (l *look) waits(id backend.ID) bool {
	for _, stream := range l.homed(id) {
		if _, _, ok := first(l, messages, key(stream)); ok {
			return true
		}
	}
	return false
}

// removeStream removes a stream on which nothing will be sent any more, with what it has.
func (l *look) removeStream(id backend.ID) {
	s := l.stream(id)
	l.unmark(id, &s)
	l.takeAll(messages, id)
	l.takeAll(withheld, id)
	remove(l, streams, key(id))
}
