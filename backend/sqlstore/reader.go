package sqlstore

import (
	"bytes"
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
			var group, post sql.NullInt64 // since when the oldest waits
			var now int64
			err := rows.Scan(&q.ID, &q.Name, Bool(&enabled), &q.Depth, &q.Delayed, &q.Leased, &q.Deferred, &q.Parked, &q.Withheld,
				&group, &post, &now)
			if err != nil {
				return err
			}
			q.Disabled = !enabled
			for _, n := range []*int{&q.Depth, &q.Delayed, &q.Leased, &q.Deferred, &q.Parked, &q.Withheld} {
				*n = min(*n, backend.CountLimit)
			}
			for _, since := range []sql.NullInt64{group, post} {
				if since.Valid {
					q.Oldest = max(q.Oldest, span(since.Int64, now))
				}
			}
			list = append(list, q)
			return nil
		}, s.q.QueueStatus, first, last)
	})
	return list, err
}

// Groups implements backend.Reader.
func (s *Store) Groups(ctx context.Context, q backend.GroupQuery) (list []backend.GroupStatus, err error) {
	q.Limit = max(q.Limit, 1)
	err = s.reading(ctx, func(r run) error {
		if !q.Group.IsZero() {
			g, err := r.groupAlone(ctx, q.Group)
			if g != nil && g.Messages > 0 {
				list = append(list, *g)
			}
			return err
		}
		for len(list) == 0 { // all of a page may be gone
			page, err := r.groupPage(ctx, q)
			if err != nil || len(page) == 0 {
				return err
			}
			told := func(x listed) bool { return x.blocked != nil && q.Brief }
			details, err := r.details(ctx, slices.DeleteFunc(slices.Clone(page), told))
			if err != nil {
				return err
			}
			for _, x := range page {
				g := details[x.ID]
				if told(x) {
					g = x.blocked
				}
				if g != nil && g.Queue == q.Queue && (q.State == "" || q.State == g.State) {
					g.Place = x.Place
					list = append(list, *g)
				}
			}
			q.After = page[len(page)-1].Place
		}
		return nil
	})
	return list, err
}

// block tells how a group is blocked, since when and until when.
func block(g *backend.GroupStatus, how int, since, until, now int64) {
	g.State, g.Since = "parked", span(since, now)
	if how == deferred {
		g.State, g.Until = "deferred", span(now, until)
	}
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
func (s *Store) Withheld(ctx context.Context, after backend.ID, limit int) (list []backend.WithheldStream, err error) {
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
		}, s.q.ListWithheld, after, max(limit, 1))
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
func (s *Store) DeadLetters(ctx context.Context, q backend.DeadQuery) (list []backend.DeadStatus, err error) {
	died, id := int64(math.MaxInt64), backend.ID(bytes.Repeat([]byte{0xff}, len(backend.ID{})))
	if q.After != (backend.Place{}) {
		died, id = -q.After.Since, q.After.ID
	}
	stmt, args := s.q.ListDead, []any{q.Bodies, died, died, id, max(q.Limit, 1)}
	if q.Queue != 0 {
		stmt, args = s.q.ListDeadOf, slices.Insert(args, 1, any(q.Queue))
	}
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var d backend.DeadStatus
			m := &d.Message
			var since, died, now int64
			err := rows.Scan(&d.Queue, ID(&m.ID), ID(&m.Stream), &m.Seq, ID(&m.Group), &m.Kind, &m.Type, Body(&m.Body), &d.Bytes,
				Text(&m.Headers), &since, Text(&m.Key), ID(&m.Handle), ID(&m.Conversation), Bool(&m.Initiator), Text(&m.Service),
				Text(&m.FarService), Text(&m.Contract), &m.Priority, &m.Attempts, &m.Deaths, Text(&m.LastError),
				Attempts(&m.Errors), &d.Reason, &died, &now)
			m.Enqueued = time.UnixMicro(since)
			d.Age = span(died, now)
			d.Place = backend.Place{Since: -died, ID: m.ID} // the newest first
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
func (s *Store) Promotions(ctx context.Context, after backend.ID, limit int) (list []backend.PromotionStatus, err error) {
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var p backend.PromotionStatus
			err := rows.Scan(ID(&p.Group), &p.Queue, &p.Level, Bool(&p.Sticky), Bool(&p.Ended))
			list = append(list, p)
			return err
		}, s.q.ListPromotions, after, max(limit, 1))
	})
	return list, err
}

// Astray implements backend.Reader.
func (s *Store) Astray(ctx context.Context, after backend.ID, limit int) (list []backend.Astray, last backend.ID, err error) {
	n := 0
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var there backend.ID
			var a backend.Astray
			var unmarked bool
			err := rows.Scan(ID(&a.Stream), ID(&there), ID(&a.Group), Bool(&unmarked))
			if (there.IsZero() || unmarked) && a.Stream != last {
				list = append(list, a)
			}
			n, last = n+1, a.Stream
			return err
		}, s.q.ListAstray, after, max(limit, 1))
	})
	if n < limit {
		last = backend.ID{}
	}
	return list, last, err
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
