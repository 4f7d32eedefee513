package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Queues implements backend.Reader.
func (s *Store) Queues(ctx context.Context, queue int64) (list []backend.QueueStatus, err error) {
	first, last := queue, queue
	if queue == 0 {
		first, last = 0, math.MaxInt64
	}
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var q backend.QueueStatus
			var enabled bool
			var group, post struct{ priority, since sql.NullInt64 }
			var now int64
			err := rows.Scan(&q.ID, &q.Name, Bool(&enabled), &q.Depth, &q.Delayed, &q.Leased, &q.Deferred, &q.Parked, &q.Withheld,
				&group.priority, &group.since, &post.priority, &post.since, &now)
			if err != nil {
				return err
			}
			q.Disabled = !enabled
			for _, n := range []*int{&q.Depth, &q.Delayed, &q.Leased, &q.Deferred, &q.Parked, &q.Withheld} {
				*n = min(*n, backend.CountLimit)
			}
			head := place{int(group.priority.Int64), group.since.Int64}
			if p := (place{int(post.priority.Int64), post.since.Int64}); p.before(head) {
				head = p
			}
			if head != (place{}) {
				q.Oldest = span(head.since, now)
			}
			list = append(list, q)
			return nil
		}, s.q.QueueStatus, first, last)
	})
	return list, err
}

// ranked is a group or post with its place in an order.
type ranked struct {
	id   backend.ID
	post bool
	place
}

func (r run) ranked(ctx context.Context, q *Stmt, args ...any) (list []ranked, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var x ranked
		err := rows.Scan(ID(&x.id), &x.priority, &x.since)
		list = append(list, x)
		return err
	}, q, args...)
	return list, err
}

// Groups implements backend.Reader.
func (s *Store) Groups(ctx context.Context, q backend.GroupQuery) (list []backend.GroupStatus, err error) {
	err = s.reading(ctx, func(r run) error {
		page, err := r.groupPage(ctx, q)
		for _, x := range page {
			if err != nil {
				return err
			}
			var g *backend.GroupStatus
			if g, err = r.groupStatus(ctx, x); g != nil {
				list = append(list, *g)
			}
		}
		return err
	})
	return list, err
}

// groupPage lists the groups of a page. Every list is read from its index up to
// the end of the page, so a page costs as much as those before it.
func (r run) groupPage(ctx context.Context, q backend.GroupQuery) (page []ranked, err error) {
	end := q.Offset + max(q.Limit, 1)
	seen := make(map[backend.ID]bool)
	add := func(list []ranked, post bool) {
		for _, x := range list {
			if !seen[x.id] {
				seen[x.id] = true
				x.post = x.post || post
				page = append(page, x)
			}
		}
	}
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var x ranked
		var level int
		var sticky bool
		err := rows.Scan(ID(&x.id), &level, Bool(&sticky), Bool(&x.post))
		add([]ranked{x}, false)
		return err
	}, r.s.q.ListPromoted, q.Queue, q.WaitingOnly, q.WaitingOnly, end)
	if err != nil {
		return nil, err
	}
	if len(page) < end {
		ready, err := r.readyGroups(ctx, q, end+len(page))
		if err != nil {
			return nil, err
		}
		posts, err := r.ranked(ctx, r.s.q.ListPosts, q.Queue, q.WaitingOnly, end+len(page))
		if err != nil {
			return nil, err
		}
		for i := range posts {
			posts[i].post = true
		}
		both := append(ready, posts...)
		slices.SortStableFunc(both, func(a, b ranked) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since))
		})
		add(both, false)
	}
	if len(page) < end && !q.WaitingOnly {
		for _, x := range []struct {
			q    *Stmt
			post bool
		}{{r.s.q.ListBlocked, false}, {r.s.q.ListBlockedPosts, true}} {
			var blocked []ranked
			err := r.Rows(ctx, func(rows *sql.Rows) error {
				var g ranked
				err := rows.Scan(ID(&g.id), &g.since)
				blocked = append(blocked, g)
				return err
			}, x.q, q.Queue, end)
			if err != nil {
				return nil, err
			}
			add(blocked, x.post)
		}
	}
	return page[min(q.Offset, len(page)):min(end, len(page))], nil
}

// readyGroups lists at least n groups in ready order, if there are as many, by
// their best markers.
func (r run) readyGroups(ctx context.Context, q backend.GroupQuery, n int) (groups []ranked, err error) {
	for limit := 2 * n; ; limit *= 4 {
		markers, err := r.ranked(ctx, r.s.q.ListReady, q.Queue, q.WaitingOnly, limit)
		if err != nil {
			return nil, err
		}
		seen := make(map[backend.ID]bool)
		groups = groups[:0]
		for _, m := range markers {
			if !seen[m.id] {
				seen[m.id] = true
				groups = append(groups, m)
			}
		}
		if len(groups) >= n || len(markers) < limit {
			return groups, nil
		}
	}
}

// groupStatus describes a group or post, nil if it has vanished.
func (r run) groupStatus(ctx context.Context, x ranked) (*backend.GroupStatus, error) {
	g := backend.GroupStatus{Group: x.id, Post: x.post}
	var level sql.NullInt64
	var lease, held, since, until, now, oldest int64
	var blocked int
	state := []any{&lease, &held, Text(&g.Owner), &blocked, &since, &until, Text(&g.Reason), &now, &level, Bool(&g.Sticky), Int(&g.Priority)}
	var found bool
	var err error
	if x.post {
		found, err = r.Row(ctx, append(state, &oldest), r.s.q.PostDetail, x.id)
		g.Messages = 1
	} else {
		found, err = r.Row(ctx, append([]any{&g.Service, &g.Key}, state...), r.s.q.GroupDetail, x.id)
		if err == nil && found {
			_, err = r.Row(ctx, []any{&g.Messages, Int(&oldest)}, r.s.q.GroupCount, x.id)
		}
	}
	if err != nil || !found {
		return nil, err
	}
	g.Promoted, g.Level = level.Valid, int(level.Int64)
	if oldest > 0 {
		g.Oldest = span(oldest, now)
	}
	switch {
	case blocked == parked:
		g.State, g.Since = "parked", span(since, now)
	case blocked == deferred:
		g.State, g.Since, g.Until = "deferred", span(since, now), span(now, until)
	case lease > now:
		g.State, g.Since, g.Until = "held", span(held, now), span(now, lease)
	default:
		g.State, g.Owner = "ready", ""
	}
	return &g, nil
}

// Conversations implements backend.Reader.
func (s *Store) Conversations(ctx context.Context, q backend.ConversationQuery) (list []backend.ConversationStatus, err error) {
	limit := max(q.Limit, 1)
	stmt, args := s.q.ListConversations, []any{q.After, 2 * limit}
	switch {
	case !q.Handle.IsZero():
		stmt, args = s.q.ListConversation, []any{q.Handle, q.After, 2 * limit}
	case !q.Group.IsZero():
		stmt, args = s.q.ListConversationsOfGroup, []any{q.Group, q.After, 2 * limit}
	}
	err = s.reading(ctx, func(r run) error {
		var handles []backend.ID
		var last backend.ID
		conversations := 0
		err := r.Rows(ctx, func(rows *sql.Rows) error {
			var handle, conversation backend.ID
			if err := rows.Scan(ID(&handle), ID(&conversation)); err != nil {
				return err
			}
			if conversation != last || conversations == 0 {
				conversations++
				last = conversation
			}
			if conversations > limit {
				return errEnough
			}
			handles = append(handles, handle)
			return nil
		}, stmt, args...)
		if err != nil {
			return err
		}
		for _, h := range handles {
			c, err := r.conversation(ctx, h)
			if err != nil {
				return err
			}
			if c != nil && (q.Group.IsZero() || c.Group == q.Group) {
				list = append(list, *c)
			}
		}
		return nil
	})
	return list, err
}

// conversation describes one side, nil if it has vanished.
func (r run) conversation(ctx context.Context, handle backend.ID) (*backend.ConversationStatus, error) {
	e, err := r.endpoint(ctx, handle)
	if err != nil || e == nil {
		return nil, err
	}
	c := backend.ConversationStatus{Endpoint: *e}
	var begun, now int64
	var due sql.NullInt64
	found, err := r.Row(ctx, []any{&begun, &now, &due, &c.Waiting, &c.Withheld, Text(&c.Status)}, r.s.q.ConversationCounts, handle)
	if err != nil || !found {
		return nil, err
	}
	c.Age = span(begun, now)
	if due.Valid {
		c.Timer = max(span(now, due.Int64), time.Microsecond)
	}
	return &c, nil
}

// Withheld implements backend.Reader.
func (s *Store) Withheld(ctx context.Context, limit int) (list []backend.WithheldStream, err error) {
	err = s.reading(ctx, func(r run) error {
		err := r.Rows(ctx, func(rows *sql.Rows) error {
			var w backend.WithheldStream
			var since sql.NullInt64
			var now int64
			err := rows.Scan(ID(&w.From.Handle), &w.Count, Text(&w.Status), &since, &now)
			if since.Valid {
				w.Waiting = span(since.Int64, now)
			}
			list = append(list, w)
			return err
		}, s.q.ListWithheld, max(limit, 1))
		if err != nil {
			return err
		}
		for i, w := range list {
			e, err := r.endpoint(ctx, w.From.Handle)
			if err != nil {
				return err
			}
			if e != nil {
				list[i].From = *e
			}
		}
		return nil
	})
	return list, err
}

// Retained implements backend.Reader.
func (s *Store) Retained(ctx context.Context, handle backend.ID) (list []backend.RetainedMessage, err error) {
	err = s.reading(ctx, func(r run) error {
		e, err := r.endpoint(ctx, handle)
		if err != nil || e == nil {
			return err
		}
		return r.Rows(ctx, func(rows *sql.Rows) error {
			m := backend.RetainedMessage{Message: backend.Message{
				Group: e.Group, Handle: handle, Conversation: e.Conversation, Initiator: e.Initiator,
				Service: e.Service, FarService: e.FarService, Contract: e.Contract, Priority: e.Priority,
			}}
			var since int64
			err := rows.Scan(ID(&m.Message.Stream), &m.Message.Seq, Bool(&m.Sent), ID(&m.Message.ID),
				&m.Message.Kind, &m.Message.Type, Body(&m.Message.Body), Text(&m.Message.Headers), &since)
			m.Message.Enqueued = time.UnixMicro(since)
			list = append(list, m)
			return err
		}, s.q.ListRetained, handle)
	})
	return list, err
}

// DeadLetters implements backend.Reader.
func (s *Store) DeadLetters(ctx context.Context, queue int64, limit int) (list []backend.DeadStatus, err error) {
	stmt, args := s.q.ListDead, []any{max(limit, 1)}
	if queue != 0 {
		stmt, args = s.q.ListDeadOf, []any{queue, max(limit, 1)}
	}
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var d backend.DeadStatus
			m := &d.Message
			var since, died, now int64
			err := rows.Scan(&d.Queue, ID(&m.ID), ID(&m.Stream), &m.Seq, ID(&m.Group), &m.Kind, &m.Type, Body(&m.Body),
				Text(&m.Headers), &since, Text(&m.Key), ID(&m.Handle), ID(&m.Conversation), Bool(&m.Initiator), Text(&m.Service),
				Text(&m.FarService), Text(&m.Contract), &m.Priority, &m.Attempts, &m.Deaths, Text(&m.LastError),
				&d.Reason, &died, &now)
			m.Enqueued = time.UnixMicro(since)
			d.Age = span(died, now)
			list = append(list, d)
			return err
		}, stmt, args...)
	})
	return list, err
}

// PostStatus implements backend.Reader.
func (s *Store) PostStatus(ctx context.Context, queue int64, id backend.ID) (p *backend.PostStatus, err error) {
	err = s.reading(ctx, func(r run) error {
		// In the order in which a post goes on, so that none is missed.
		st := backend.PostStatus{ID: id}
		d, err := r.delayed(ctx, id)
		if err != nil {
			return err
		}
		if d != nil && d.Queue == queue {
			st.Key, st.Type, st.Body, st.Headers, st.State, st.Due = d.Key, d.Type, d.Body, d.Headers, "delayed", d.Delay
			p = &st
			return nil
		}
		for _, look := range []struct {
			stmt  *Stmt
			dest  []any
			state string
		}{
			{s.q.PostStatusPost, []any{&st.Type, Body(&st.Body), Text(&st.Headers)}, "pending"},
			{s.q.PostStatusKeyed, []any{&st.Key, &st.Type, Body(&st.Body), Text(&st.Headers)}, "pending"},
			{s.q.PostStatusProcessed, []any{&st.Key, &st.Type, Body(&st.Body), Text(&st.Headers)}, "processed"},
		} {
			found, err := r.Row(ctx, look.dest, look.stmt, id, queue)
			if err != nil {
				return err
			}
			if found {
				st.State = look.state
				p = &st
				return nil
			}
		}
		return backend.ErrNotPending
	})
	return p, err
}

// Promotions implements backend.Reader.
func (s *Store) Promotions(ctx context.Context, limit int) (list []backend.PromotionStatus, err error) {
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var p backend.PromotionStatus
			err := rows.Scan(ID(&p.Group), &p.Queue, &p.Level, Bool(&p.Sticky), Bool(&p.Ended))
			list = append(list, p)
			return err
		}, s.q.ListPromotions, max(limit, 1))
	})
	return list, err
}

// Overdue implements backend.Reader.
func (s *Store) Overdue(ctx context.Context) (map[backend.Job]time.Duration, error) {
	overdue := make(map[backend.Job]time.Duration)
	err := s.reading(ctx, func(r run) error {
		late := func(job backend.Job, in time.Duration) { overdue[job] = max(overdue[job], -in) }
		for _, f := range []falling{
			s.delayed(), s.timers(backend.JobTimers, timerDialog), s.timers(backend.JobLifetimes, timerLifetime), s.posts(),
		} {
			err := r.firsts(ctx, f.firsts, f.kind, func(_ int64, in time.Duration) { late(f.job, in) })
			if err != nil {
				return err
			}
		}
		for job, q := range map[backend.Job]*Stmt{
			backend.JobDeferred:  s.q.NextGroup,
			backend.JobClosed:    s.q.NextFinished,
			backend.JobProcessed: s.q.NextProcessed,
		} {
			var us int64
			found, err := r.Row(ctx, []any{&us}, q)
			if err != nil {
				return err
			}
			if found {
				late(job, time.Duration(us)*time.Microsecond)
			}
		}
		maps.DeleteFunc(overdue, func(_ backend.Job, by time.Duration) bool { return by <= 0 })
		return nil
	})
	return overdue, err
}

// Find implements backend.Reader.
func (s *Store) Find(ctx context.Context, message backend.ID) (place backend.ID, err error) {
	err = s.reading(ctx, func(r run) error {
		found, err := r.Row(ctx, []any{ID(&place)}, s.q.FindMessage, message, message, message)
		if err == nil && !found {
			err = backend.ErrNotPending
		}
		return err
	})
	return place, err
}
