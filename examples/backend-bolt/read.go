package bolt

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// limited returns the limit of a page; none given means the bound of counting.
func limited(limit int) int {
	if limit < 1 {
		return backend.CountLimit
	}
	return limit
}

// age is how long ago something was, never zero; in is how long it is until something.
func (l *look) age(at time.Time) time.Duration { return max(l.now().Sub(at), 1) }
func (l *look) in(at time.Time) time.Duration  { return max(at.Sub(l.now()), 0) }

// Queues implements [backend.Backend].
func (h *Handle) Queues(ctx context.Context, queue int64) (all []backend.QueueStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		places := make(map[int64]int)
		for _, q := range l.defined().Queues {
			if queue == 0 || queue == q.ID {
				places[q.ID] = len(all)
				all = append(all, backend.QueueStatus{ID: q.ID, Name: q.Name, Disabled: q.Disabled})
			}
		}
		of := func(queue int64) *backend.QueueStatus {
			if i, ok := places[queue]; ok {
				return &all[i]
			}
			return nil
		}
		for k, g := range scan(l, groups, nil) {
			if s := of(g.Queue); s != nil {
				l.countGroup(s, idAt(k, 0), g)
			}
		}
		for _, p := range scan(l, posts, nil) {
			if s := of(p.Queue); s != nil && p.State == "delayed" {
				s.Delayed = min(s.Delayed+1, backend.CountLimit)
			}
		}
		for k := range scan(l, withheld, nil) {
			if st := l.stream(idAt(k, 0)); st.Accepted && of(st.Queue) != nil {
				s := of(st.Queue)
				s.Withheld = min(s.Withheld+1, backend.CountLimit)
			}
		}
		slices.SortFunc(all, func(a, b backend.QueueStatus) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	})
	return all, err
}

func (l *look) countGroup(s *backend.QueueStatus, id backend.ID, g group) {
	switch {
	case g.Parked:
		s.Parked++
		return
	case g.hidden():
		s.Deferred++
		return
	case l.alive(g.Lease):
		s.Leased++
	}
	for _, stream := range l.homed(id) {
		s.Depth = min(s.Depth+count(l, messages, key(stream)), backend.CountLimit)
		if _, m, ok := first(l, messages, key(stream)); ok {
			s.Oldest = max(s.Oldest, l.age(m.Enqueued))
		}
	}
}

// Groups implements [backend.Backend].
func (h *Handle) Groups(ctx context.Context, q backend.GroupQuery) (page []backend.GroupStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		for k, g := range scan(l, groups, nil) {
			id := idAt(k, 0)
			if one := !q.Group.IsZero(); one && id != q.Group || !one && g.Queue != q.Queue || !l.waits(id) {
				continue
			}
			s := l.groupStatus(id, g)
			if s.Place.Compare(q.After) > 0 && (q.State == "" || q.State == s.State) {
				page = append(page, s)
			}
		}
		slices.SortFunc(page, func(a, b backend.GroupStatus) int { return a.Place.Compare(b.Place) })
		page = page[:min(limited(q.Limit), len(page))]
		return nil
	})
	return page, err
}

func (l *look) groupStatus(id backend.ID, g group) backend.GroupStatus {
	s := backend.GroupStatus{Group: id, Queue: g.Queue, Service: g.Service, Key: g.Key, Post: g.Post, State: "ready"}
	if p, ok := get(l, promotions, key(id)); ok {
		s.Promoted, s.Level, s.Sticky, s.UntilEmpty = true, p.Level, p.Sticky, p.Empty
	}
	for _, stream := range l.homed(id) {
		if _, m, ok := first(l, messages, key(stream)); ok {
			s.Oldest = max(s.Oldest, l.age(m.Enqueued))
			s.Priority = max(s.Priority, l.stream(stream).Priority)
			s.Messages = min(s.Messages+count(l, messages, key(stream)), backend.CountLimit)
		}
	}
	switch {
	case g.Parked:
		s.State, s.Reason, s.Since = "parked", g.Reason, l.age(g.Since)
	case g.hidden():
		s.State, s.Reason, s.Since, s.Until = "deferred", g.Reason, l.age(g.Since), l.in(g.Deferred)
	case l.alive(g.Lease):
		s.State, s.Owner, s.Since, s.Until = "held", g.Lease.Owner, l.age(g.Lease.Since), l.in(l.f.end(g.Lease))
	}
	s.Place = l.listed(id, g, s.State)
	return s
}

// listed is where a group stands in the list of its queue's groups.
func (l *look) listed(id backend.ID, g group, state string) backend.Place {
	p, promoted := get(l, promotions, key(id))
	place := backend.Place{Part: backend.PartOf(state, promoted), ID: id}
	switch place.Part {
	case backend.PartPromoted:
		place.Rank, place.Since = p.Level, p.Since
	case backend.PartReady:
		var best []byte // the key of its stream that stands first in the ready order
		for _, stream := range l.homed(id) {
			st := l.stream(stream)
			if k := st.place(stream); count(l, messages, key(stream)) > 0 && (best == nil || bytes.Compare(k, best) < 0) {
				best, place.Rank = k, st.Priority
			}
		}
		place.Since = numberAt(best, 9)
	case backend.PartDeferred:
		place.Since = g.Deferred.UnixMicro()
	case backend.PartParked:
		place.Since = g.Since.UnixMicro()
	}
	return place
}

// Conversations implements [backend.Backend].
func (h *Handle) Conversations(
	ctx context.Context, q backend.ConversationQuery,
) (page []backend.ConversationStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		var only backend.ID
		if !q.Handle.IsZero() {
			e, ok := l.endpoint(q.Handle)
			if !ok {
				return nil
			}
			only = e.Conversation
		}
		var sides []endpoint
		for _, e := range scan(l, endpoints, nil) {
			if (only.IsZero() || e.Conversation == only) && (q.Group.IsZero() || e.Group == q.Group) &&
				bytes.Compare(e.Conversation[:], q.After[:]) > 0 {
				sides = append(sides, e)
			}
		}
		slices.SortFunc(sides, func(a, b endpoint) int {
			return cmp.Or(bytes.Compare(a.Conversation[:], b.Conversation[:]), bytes.Compare(a.Handle[:], b.Handle[:]))
		})
		slices.SortStableFunc(sides, func(a, b endpoint) int {
			if a.Conversation == b.Conversation && a.Initiator != b.Initiator {
				return map[bool]int{true: -1, false: 1}[a.Initiator]
			}
			return bytes.Compare(a.Conversation[:], b.Conversation[:])
		})
		n := 0
		for i, e := range sides {
			if i == 0 || e.Conversation != sides[i-1].Conversation {
				n++
			}
			if n > limited(q.Limit) {
				break
			}
			page = append(page, l.conversationStatus(e))
		}
		return nil
	})
	return page, err
}

func (l *look) conversationStatus(e endpoint) backend.ConversationStatus {
	s := backend.ConversationStatus{Endpoint: l.shown(e), Withheld: count(l, withheld, key(e.Handle)), Age: l.age(e.Began)}
	if s.Withheld > 0 {
		s.Status = l.stream(e.Handle).Status
	}
	for _, stream := range l.readBy(e) {
		s.Waiting = min(s.Waiting+count(l, messages, key(stream)), backend.CountLimit)
	}
	if !e.Timer.IsZero() {
		s.Timer = max(l.in(e.Timer), 1)
	}
	return s
}

// Withheld implements [backend.Backend].
func (h *Handle) Withheld(ctx context.Context, after backend.ID, limit int) (page []backend.WithheldStream, err error) {
	err = h.view(ctx, func(l *look) error {
		var last backend.ID
		for k := range scan(l, withheld, nil) {
			id := idAt(k, 0)
			e, ok := l.endpoint(id)
			if id == last || !ok || bytes.Compare(id[:], after[:]) <= 0 {
				continue
			}
			if last = id; len(page) == limited(limit) {
				break
			}
			s := l.stream(id)
			page = append(page, backend.WithheldStream{
				From: l.shown(e), Count: count(l, withheld, key(id)), Status: s.Status, Waiting: l.age(s.Since),
			})
		}
		return nil
	})
	return page, err
}

// Retained implements [backend.Backend].
func (h *Handle) Retained(ctx context.Context, handle backend.ID) (all []backend.RetainedMessage, err error) {
	err = h.view(ctx, func(l *look) error {
		for _, m := range scan(l, retained, key(handle)) {
			all = append(all, m)
		}
		return nil
	})
	return all, err
}

// DeadLetters implements [backend.Backend].
func (h *Handle) DeadLetters(ctx context.Context, q backend.DeadQuery) (page []backend.DeadStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		for k, d := range scan(l, dead, nil) {
			place := backend.Place{Since: -numberAt(k, 0), ID: d.Message.ID} // the newest first
			if (q.Queue == 0 || d.Queue == q.Queue) && (q.After == backend.Place{} || place.Compare(q.After) > 0) {
				x := backend.DeadStatus{
					Queue: d.Queue, Message: d.Message, Bytes: len(d.Message.Body), Reason: d.Reason, Age: l.age(d.At), Place: place,
				}
				if !q.Bodies {
					x.Message.Body = nil
				}
				page = append(page, x)
			}
		}
		slices.Reverse(page)
		page = page[:min(limited(q.Limit), len(page))]
		return nil
	})
	return page, err
}

// PostStatus implements [backend.Backend].
func (h *Handle) PostStatus(ctx context.Context, queue int64, id backend.ID) (s *backend.PostStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		p, ok := get(l, posts, key(id))
		if !ok || p.Queue != queue {
			return backend.ErrNotPending
		}
		s = &backend.PostStatus{ID: id, Key: p.Key, Type: p.Type, Body: l.text(p), Headers: p.Headers, State: p.State}
		if p.State == "delayed" {
			s.Due = l.in(p.Until)
		}
		return nil
	})
	return s, err
}

// The parts of the list of waiting messages. A message moves from the first two to the last, so none is missed that does
// while the list is read.
const (
	partDelayed = 1 + iota
	partWithheld
	partWaiting
)

// Waiting implements [backend.Backend].
func (h *Handle) Waiting(ctx context.Context, after backend.Place, limit int) (page []backend.WaitingMessage, err error) {
	err = h.view(ctx, func(l *look) error {
		add := func(part int, id backend.ID, seq int64, m backend.WaitingMessage) bool {
			if m.Place = (backend.Place{Part: part, ID: id, Seq: seq}); m.Place.Compare(after) > 0 {
				page = append(page, m)
			}
			return len(page) < limited(limit)
		}
		start := func(part int) []byte { // where a part goes on, or begins
			if part == after.Part {
				return key(after.ID, after.Seq)
			}
			return nil
		}
		if after.Part <= partDelayed {
			for k, p := range from(l, posts, start(partDelayed)) {
				m := backend.WaitingMessage{ID: idAt(k, 0), Queue: p.Queue, Type: p.Type, Headers: p.Headers, State: "delayed"}
				if p.State == "delayed" && !add(partDelayed, m.ID, 0, m) {
					return nil
				}
			}
		}
		if after.Part <= partWithheld {
			for k, x := range from(l, withheld, start(partWithheld)) {
				m := backend.WaitingMessage{ID: x.ID, Stream: idAt(k, 0), Type: x.Type, Headers: x.Headers, State: "withheld"}
				if !add(partWithheld, m.Stream, numberAt(k, 16), m) {
					return nil
				}
			}
		}
		for k, x := range from(l, messages, start(partWaiting)) {
			m := backend.WaitingMessage{ID: x.ID, Stream: idAt(k, 0), Type: x.Type, Headers: x.Headers, State: "waiting"}
			m.Queue = l.stream(m.Stream).Queue
			m.Group, _ = l.home(m.Stream)
			if !add(partWaiting, m.Stream, numberAt(k, 16), m) {
				return nil
			}
		}
		return nil
	})
	return page, err
}

// Find implements [backend.Backend].
func (h *Handle) Find(ctx context.Context, id backend.ID) (place backend.ID, err error) {
	err = h.view(ctx, func(l *look) error {
		for k, m := range scan(l, messages, nil) {
			if home, ok := l.home(idAt(k, 0)); ok && m.ID == id {
				place = home
				return nil
			}
		}
		for k, m := range scan(l, withheld, nil) {
			if m.ID == id {
				place = idAt(k, 0)
				return nil
			}
		}
		return backend.ErrNotPending
	})
	return place, err
}

// Promotions implements [backend.Backend].
func (h *Handle) Promotions(ctx context.Context, after backend.ID, limit int) (page []backend.PromotionStatus, err error) {
	err = h.view(ctx, func(l *look) error {
		for k, p := range scan(l, promotions, nil) {
			if id := idAt(k, 0); bytes.Compare(id[:], after[:]) > 0 {
				page = append(page, backend.PromotionStatus{
					Group: id, Queue: p.Queue, Level: p.Level, Sticky: p.Sticky || p.Empty, Ended: l.deserted(id),
				})
			}
		}
		page = page[:min(limited(limit), len(page))]
		return nil
	})
	return page, err
}

// Astray implements [backend.Backend]. There is no ready order that a message could be missing from.
func (h *Handle) Astray(ctx context.Context, _ backend.ID, _ int) (list []backend.Astray, last backend.ID, err error) {
	return list, last, h.view(ctx, func(*look) error { return nil })
}

// deserted reports whether nothing can arrive in a group any more.
func (l *look) deserted(id backend.ID) bool {
	g, ok := get(l, groups, key(id))
	if ok && g.Service == "" {
		return false
	}
	return !slices.ContainsFunc(l.members(id), func(e endpoint) bool { return e.Closed == nil })
}
