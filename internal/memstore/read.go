package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// What operators see is what is committed: every look is that of an onlooker,
// a nil transaction.

// limited returns a limit for a page: none given means the bound of counting.
func limited(limit int) int {
	if limit < 1 {
		return backend.CountLimit
	}
	return limit
}

// age is how long ago something was; never zero, which means nothing.
func (s *Store) age(at time.Time) time.Duration { return max(s.now().Sub(at), 1) }

// in is how long it is until something; zero for what is over or was never set.
func (s *Store) in(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(s.now()), 0)
}

// count counts the numbered rows of an id, up to the bound.
func count[V any](t *table[numbered, V], id backend.ID) int {
	n := 0
	for range rowsOf(t, nil, id) {
		if n++; n == backend.CountLimit {
			break
		}
	}
	return n
}

// Queues implements [backend.Reader].
func (h *Handle) Queues(ctx context.Context, queue int64) ([]backend.QueueStatus, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	var list []*backend.QueueStatus
	of := make(map[int64]*backend.QueueStatus)
	byName := func(a, b backend.Queue) int { return cmp.Compare(a.Name, b.Name) }
	for _, q := range slices.SortedFunc(slices.Values(s.defined(nil).Queues), byName) {
		if queue != 0 && queue != q.ID {
			continue
		}
		status := &backend.QueueStatus{ID: q.ID, Name: q.Name, Disabled: q.Disabled}
		for stream := range s.ready(nil, q.ID) {
			if m, ok := s.oldest(nil, stream); ok {
				status.Oldest = max(status.Oldest, s.age(m.Enqueued))
			}
			if s.fault == FaultAgeOfFirst {
				break
			}
		}
		of[q.ID] = status
		list = append(list, status)
	}
	for id, g := range s.groups.from(nil, backend.ID{}) {
		status := of[g.queue]
		if status == nil {
			continue
		}
		switch {
		case g.parked:
			status.Parked++
			continue
		case g.deferred.After(s.now()):
			status.Deferred++
			continue
		case g.lease != nil && s.alive(g.lease):
			status.Leased++
		}
		for _, stream := range s.homed(nil, id) {
			status.Depth = min(status.Depth+count(&s.messages, stream), backend.CountLimit)
		}
	}
	for _, p := range s.posts.from(nil, backend.ID{}) {
		if status := of[p.Queue]; status != nil && p.state == "delayed" {
			status.Delayed = min(status.Delayed+1, backend.CountLimit)
		}
	}
	for id, st := range s.streams.from(nil, backend.ID{}) {
		if status := of[st.queue]; status != nil && st.accepted {
			status.Withheld = min(status.Withheld+count(&s.withheld, id), backend.CountLimit)
		}
	}
	found := make([]backend.QueueStatus, len(list))
	for i, status := range list {
		found[i] = *status
	}
	return found, nil
}

// Groups implements [backend.Reader].
func (h *Handle) Groups(ctx context.Context, q backend.GroupQuery) ([]backend.GroupStatus, error) {
	if h.store.fault == FaultSecondConnection {
		if err := h.connect(ctx); err != nil {
			return nil, err
		}
		defer h.putBack()
		time.Sleep(time.Millisecond) // a server is farther away
	}
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store

	if !q.Group.IsZero() {
		g, ok := s.groups.get(nil, q.Group)
		if !ok || !s.waiting(nil, q.Group) {
			return nil, nil
		}
		status := s.groupStatus(q.Group, g)
		status.Place = backend.Place{}
		return []backend.GroupStatus{status}, nil
	}
	var list []backend.GroupStatus
	for id, g := range s.groups.from(nil, backend.ID{}) {
		if g.queue != q.Queue || !s.waiting(nil, id) {
			continue
		}
		status := s.groupStatus(id, g)
		state := status.State
		if state == "held" && (g.lease == nil || !s.alive(g.lease)) {
			state = "ready" // for a transaction
		}
		if status.Place.Compare(q.After) > 0 && (q.State == "" || q.State == status.State || q.State == state) {
			list = append(list, status)
		}
	}
	slices.SortStableFunc(list, func(a, b backend.GroupStatus) int { return a.Place.Compare(b.Place) })
	return list[:min(limited(q.Limit), len(list))], nil
}

func (s *Store) groupStatus(id backend.ID, g group) (status backend.GroupStatus) {
	status = backend.GroupStatus{Group: id, Queue: g.queue, Service: g.service, Key: g.key, Post: g.post, State: "ready"}
	if p, ok := s.promotions.get(nil, id); ok {
		status.Promoted, status.Level, status.Sticky, status.UntilEmpty = true, p.level, p.sticky, p.empty
	}
	var first time.Time
	for _, stream := range s.homed(nil, id) {
		oldest, ok := s.oldest(nil, stream)
		if !ok {
			continue
		}
		st, _ := s.streams.get(nil, stream)
		status.Priority = max(status.Priority, st.priority)
		status.Messages = min(status.Messages+count(&s.messages, stream), backend.CountLimit)
		if !g.parked && g.deferred.IsZero() && !s.markers.has(nil, stream) {
			status.Stranded = min(status.Stranded+count(&s.messages, stream), backend.CountLimit)
		}
		if first.IsZero() || oldest.Enqueued.Before(first) || s.fault == FaultAgeOfBest && st.priority == status.Priority {
			first = oldest.Enqueued
		}
	}
	status.Oldest = s.age(first)
	defer func() { status.Place = s.listed(id, g, status.State) }()

	holder := s.locks[groupLock(id)]
	switch {
	case g.parked:
		status.State, status.Reason, status.Since = "parked", g.reason, s.age(g.since)
	case g.deferred.After(s.now()):
		status.State, status.Reason, status.Since, status.Until = "deferred", g.reason, s.age(g.since), s.in(g.deferred)
	case g.lease != nil && s.alive(g.lease):
		status.State, status.Owner, status.Since, status.Until = "held", g.lease.owner, s.age(g.lease.since), s.in(g.lease.until)
	case holder != nil && holder.holds[id] != nil:
		status.State, status.Owner = "held", holder.owner
	}
	return status
}

// listed is where a group stands in the list of its queue's groups: where its best stream does.
func (s *Store) listed(id backend.ID, g group, state string) backend.Place {
	p, promoted := s.promotions.get(nil, id)
	place := backend.Place{Part: backend.PartOf(state, promoted), ID: id}
	switch place.Part {
	case backend.PartPromoted:
		place.Rank, place.Since = p.level, p.since
	case backend.PartReady:
		found := false
		for _, stream := range s.homed(nil, id) {
			oldest, ok := s.oldest(nil, stream)
			if !ok {
				continue
			}
			m, ok := s.markers.get(nil, stream)
			if !ok {
				st, _ := s.streams.get(nil, stream)
				m = marker{priority: st.priority, since: oldest.arrival}
			}
			if !found || m.priority > place.Rank || m.priority == place.Rank && m.since < place.Since {
				place.Rank, place.Since, found = m.priority, m.since, true
			}
		}
	case backend.PartDeferred:
		place.Since = g.deferred.UnixMicro()
	case backend.PartParked:
		place.Since = g.since.UnixMicro()
	}
	return place
}

// Conversations implements [backend.Reader]. The limit is one of
// conversations: both sides of each are listed.
func (h *Handle) Conversations(ctx context.Context, q backend.ConversationQuery) ([]backend.ConversationStatus, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	only := backend.ID{}
	if !q.Handle.IsZero() {
		e, ok := s.endpoints.get(nil, q.Handle)
		if !ok {
			return nil, nil
		}
		only = e.Conversation
	}
	var list []backend.ConversationStatus
	for _, e := range s.endpoints.from(nil, backend.ID{}) {
		switch {
		case !only.IsZero() && e.Conversation != only:
		case !q.Group.IsZero() && e.Group != q.Group:
		case compareIDs(e.Conversation, q.After) <= 0:
		default:
			list = append(list, s.conversationStatus(e))
		}
	}
	slices.SortFunc(list, func(a, b backend.ConversationStatus) int {
		if c := compareIDs(a.Conversation, b.Conversation); c != 0 {
			return c
		}
		if a.Initiator {
			return -1
		}
		return 1
	})
	conversations := 0
	for i := range list {
		if i > 0 && list[i].Conversation == list[i-1].Conversation {
			continue
		}
		if conversations++; conversations > limited(q.Limit) {
			return list[:i], nil
		}
	}
	return list, nil
}

func (s *Store) conversationStatus(e endpoint) backend.ConversationStatus {
	out, _ := s.streams.get(nil, e.Handle)
	status := backend.ConversationStatus{
		Endpoint: s.view(nil, e),
		Withheld: count(&s.withheld, e.Handle),
		Age:      s.age(e.began),
	}
	if status.Withheld > 0 {
		status.Status = out.status
	}
	for _, stream := range s.readBy(nil, e) {
		status.Waiting = min(status.Waiting+count(&s.messages, stream), backend.CountLimit)
	}
	if at, ok := s.timers.get(nil, e.Handle); ok {
		status.Timer = max(s.in(at), 1)
	}
	return status
}

// Withheld implements [backend.Reader].
func (h *Handle) Withheld(ctx context.Context, after backend.ID, limit int) ([]backend.WithheldStream, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	var list []backend.WithheldStream
	for id, st := range s.streams.from(nil, after) {
		e, ok := s.endpoints.get(nil, id)
		if !ok || id == after || !s.holdsBack(nil, id) || len(list) == limited(limit) {
			continue
		}
		list = append(list, backend.WithheldStream{
			From: s.view(nil, e), Count: count(&s.withheld, id), Status: st.status, Waiting: s.age(st.heldSince),
		})
	}
	return list, nil
}

// Retained implements [backend.Reader].
func (h *Handle) Retained(ctx context.Context, handle backend.ID) ([]backend.RetainedMessage, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	var list []backend.RetainedMessage
	for _, m := range rowsOf(&h.store.retained, nil, handle) {
		list = append(list, m)
	}
	return list, nil
}

// DeadLetters implements [backend.Reader].
func (h *Handle) DeadLetters(ctx context.Context, q backend.DeadQuery) ([]backend.DeadStatus, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	var list []backend.DeadStatus
	for n, d := range s.dead.from(nil, 0) {
		place := backend.Place{Since: -n, ID: d.message.ID} // the newest first
		if (q.Queue == 0 || d.queue == q.Queue) && (q.After == backend.Place{} || place.Compare(q.After) > 0) {
			x := backend.DeadStatus{Queue: d.queue, Message: d.message, Bytes: len(d.message.Body), Reason: d.reason, Age: s.age(d.at), Place: place}
			if !q.Bodies {
				x.Message.Body = nil
			}
			list = append(list, x)
		}
	}
	slices.Reverse(list)
	return list[:min(limited(q.Limit), len(list))], nil
}

// PostStatus implements [backend.Reader].
func (h *Handle) PostStatus(ctx context.Context, queue int64, id backend.ID) (*backend.PostStatus, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	p, ok := s.posts.get(nil, id)
	if !ok || p.Queue != queue {
		return nil, backend.ErrNotPending
	}
	status := &backend.PostStatus{ID: p.ID, Key: p.Key, Type: p.Type, Body: slices.Clone(p.Body), Headers: p.Headers, State: p.state}
	if p.state == "delayed" {
		status.Due = s.in(p.until)
	}
	return status, nil
}

// Promotions implements [backend.Reader].
func (h *Handle) Promotions(ctx context.Context, after backend.ID, limit int) ([]backend.PromotionStatus, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	var list []backend.PromotionStatus
	for id, p := range s.promotions.from(nil, after) {
		if id != after {
			list = append(list, backend.PromotionStatus{Group: id, Queue: p.queue, Level: p.level, Sticky: p.sticky || p.empty, Ended: s.deserted(id)})
		}
	}
	return list[:min(limited(limit), len(list))], nil
}

// Astray implements [backend.Reader]. The store has no place for a message but its stream.
func (h *Handle) Astray(ctx context.Context, _ backend.ID, _ int) ([]backend.Astray, backend.ID, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, backend.ID{}, err
	}
	defer h.leave()
	return nil, backend.ID{}, nil
}

// deserted reports whether nothing can arrive in a group any more.
func (s *Store) deserted(id backend.ID) bool {
	g, ok := s.groups.get(nil, id)
	if !ok {
		return true
	}
	if g.post || g.key != "" {
		return false
	}
	for handle, e := range s.endpoints.from(nil, backend.ID{}) {
		if e.Group == id && !s.closings.has(nil, handle) {
			return false
		}
	}
	return true
}

// Overdue implements [backend.Reader].
func (h *Handle) Overdue(ctx context.Context) (map[backend.Job]time.Duration, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s, now := h.store, h.store.now()
	overdue := make(map[backend.Job]time.Duration)
	due := func(job backend.Job, queue int64, at time.Time) {
		if late := now.Sub(at); !at.IsZero() && late > overdue[job] && (queue == 0 || !s.disabled(nil, queue)) {
			overdue[job] = late
		}
	}
	for _, p := range s.posts.from(nil, backend.ID{}) {
		switch p.state {
		case "delayed":
			due(backend.JobDelayed, p.Queue, p.until)
		case "processed":
			due(backend.JobProcessed, 0, p.until)
		}
	}
	for _, at := range s.timers.from(nil, backend.ID{}) {
		due(backend.JobTimers, 0, at)
	}
	for _, e := range s.endpoints.from(nil, backend.ID{}) {
		switch state, _ := s.state(nil, e); state {
		case backend.StartedOutbound, backend.Conversing:
			due(backend.JobLifetimes, 0, e.deadline)
		case backend.Closed:
			mine, _ := s.closings.get(nil, e.Handle)
			theirs, _ := s.closings.get(nil, e.FarHandle)
			if !theirs.keep.After(mine.keep) {
				due(backend.JobClosed, 0, mine.keep)
			}
		}
	}
	for _, g := range s.groups.from(nil, backend.ID{}) {
		if !g.parked {
			due(backend.JobDeferred, 0, g.deferred)
		}
	}
	return overdue, nil
}

// Find implements [backend.Reader].
func (h *Handle) Find(ctx context.Context, id backend.ID) (backend.ID, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return backend.ID{}, err
	}
	defer h.leave()
	s := h.store
	for key, m := range s.messages.from(nil, numbered{}) {
		if home, ok := s.home(nil, key.of); ok && m.ID == id {
			return home, nil
		}
	}
	for key, m := range s.withheld.from(nil, numbered{}) {
		if m.ID == id {
			return key.of, nil
		}
	}
	return backend.ID{}, backend.ErrNotPending
}
