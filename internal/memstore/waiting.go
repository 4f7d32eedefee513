package memstore

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/parleymq/parley/backend"
)

// The parts of the list of waiting messages. A message moves from the first two to the last, so none is missed that does
// while the list is read.
const (
	partDelayed = 1 + iota
	partWithheld
	partWaiting
)

// Waiting implements [backend.Reader].
func (h *Handle) Waiting(ctx context.Context, after backend.Place, limit int) (list []backend.WaitingMessage, err error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	for h.store.fault == FaultWaitingLocks && len(h.store.locks) > 0 {
		if err := h.store.sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	if h.store.fault == FaultWaitingStreams && after.Part == partWaiting {
		after.Seq = math.MaxInt64
	}
	for m := range h.store.unsettled(after) {
		if m.Place.Compare(after) <= 0 {
			continue
		}
		if list = append(list, m); len(list) == limited(limit) {
			break
		}
	}
	return list, nil
}

// unsettled ranges over messages, from a place on or a little before.
func (s *Store) unsettled(after backend.Place) iter.Seq[backend.WaitingMessage] {
	start := func(part int) numbered { // in a part at which or before which the list begins
		if after.Part == part {
			return numbered{after.ID, after.Seq}
		}
		return numbered{}
	}
	place := func(part int, key numbered) backend.Place { return backend.Place{Part: part, ID: key.of, Seq: key.n} }
	inStream := func(t *table[numbered, message], part int, state string, yield func(backend.WaitingMessage) bool) bool {
		for key, m := range t.from(nil, start(part)) {
			st, _ := s.streams.get(nil, key.of)
			w := backend.WaitingMessage{ID: m.ID, Stream: key.of, Queue: st.queue, Type: m.Type, Headers: m.Headers, State: state, Place: place(part, key)}
			if part == partWaiting {
				w.Group, _ = s.home(nil, key.of)
			}
			if !yield(w) {
				return false
			}
		}
		return true
	}
	return func(yield func(backend.WaitingMessage) bool) {
		for id, p := range s.posts.from(nil, start(partDelayed).of) {
			if after.Part > partDelayed {
				break
			}
			w := backend.WaitingMessage{ID: id, Queue: p.Queue, Type: p.Type, Headers: p.Headers, State: "delayed", Place: place(partDelayed, numbered{of: id})}
			if p.state == "delayed" && !yield(w) {
				return
			}
		}
		if after.Part > partWithheld || inStream(&s.withheld, partWithheld, "withheld", yield) {
			inStream(&s.messages, partWaiting, "waiting", yield)
		}
	}
}
