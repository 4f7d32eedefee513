package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func (m *model) promote() {
	g := pick(m.rng, m.inUse(), func(g *modelGroup) bool { return !g.id.IsZero() && !m.inFlight(g) })
	if g == nil {
		return
	}
	p := &modelPromotion{level: m.rng.IntN(3), sticky: m.rng.IntN(5) == 0, serial: m.serial + 1}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	if m.rng.IntN(4) == 0 {
		m.must(tx.Demote(ctx, g.id), "demote")
		p = nil
	} else {
		m.must(tx.Promote(ctx, backend.Promotion{Group: g.id, Level: p.level, Sticky: p.sticky}), "promote")
		p.at = time.Now()
	}
	m.serial++
	commit := m.rng.IntN(6) > 0
	if commit {
		m.must(tx.Commit(ctx), "commit of a promotion")
		g.promo = p
	} else {
		m.must(tx.Rollback(m.Ctx), "rollback of a promotion")
	}
	if p == nil {
		m.logf("demote %s: commit %t", m.name(g), commit)
	} else {
		m.logf("promote %s to %d, sticky %t: commit %t", m.name(g), p.level, p.sticky, commit)
	}
}

func (m *model) unpark() {
	if g := pick(m.rng, m.inUse(), func(g *modelGroup) bool { return g.hidden }); g != nil {
		m.unparkGroup(g)
	}
}

func (m *model) unparkGroup(g *modelGroup) {
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	m.must(tx.Unpark(ctx, g.id), "unpark")
	m.must(tx.Commit(ctx), "commit of an unpark")
	g.hidden = false
	g.unsure = m.written(g)
	for _, s := range m.streams {
		if s.group == g {
			s.late = s.writer != nil
		}
	}
	m.logf("unpark %s", m.name(g))
}

func (m *model) move() {
	s := pick(m.rng, m.streams, func(s *modelStream) bool { return s.conv != nil && !s.conv.ended[s.how.peer] })
	if s == nil {
		return
	}
	from := s.group
	to := pick(m.rng, m.inUse(), func(g *modelGroup) bool {
		return g != from && slices.ContainsFunc(m.streams, func(o *modelStream) bool { return o.group == g && o.conv != nil && o.queue == s.queue })
	})
	fresh := to == nil || m.rng.IntN(3) == 0
	if fresh {
		to = &modelGroup{id: backend.NewID()}
	}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	what := fmt.Sprintf("move %s from %s to %s", s.name, m.name(from), m.name(to))
	for _, g := range []*modelGroup{from, to} {
		if g == to && fresh {
			continue
		}
		err := tx.LockGroup(ctx, g.id)
		if g.hand != nil {
			if !invBusy(m.env, err) {
				m.failf("%s: LockGroup of a held group returns %v", what, err)
			}
			m.rollback(tx)
			m.logf("%s: the group is held", what)
			return
		}
		m.must(err, what+": LockGroup")
	}
	err := tx.Move(ctx, s.how.peer, to.id, fresh)
	if s.writer != nil {
		if !errors.Is(err, backend.ErrStreamBusy) {
			m.failf("%s: a sender is writing, and Move returns %v", what, err)
		}
		m.rollback(tx)
		m.logf("%s: a sender is writing", what)
		return
	}
	m.must(err, what)
	if m.rng.IntN(6) == 0 {
		m.rollback(tx)
		m.logf("%s and rollback", what)
		return
	}
	m.must(tx.Commit(ctx), "commit of a move")
	m.logf("%s", what)
	s.group, s.late = to, false
	if fresh {
		m.groups[to.id] = to
	}
}

func (m *model) endConv() {
	s := pick(m.rng, m.streams, func(s *modelStream) bool {
		return s.conv != nil && s.conv.out.writer == nil && s.conv.in.writer == nil && !s.conv.ended[s.how.peer]
	})
	if s == nil {
		return
	}
	handle, c := s.how.peer, s.conv // the side that receives s ends
	back := c.out
	if back == s {
		back = c.in
	}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	tx := m.begin()
	what := "end of the side that receives " + s.name
	err := tx.LockGroup(ctx, s.group.id)
	if s.group.hand != nil {
		if !invBusy(m.env, err) {
			m.failf("%s: LockGroup of a held group returns %v", what, err)
		}
		m.rollback(tx)
		return
	}
	m.must(err, what)
	ended, err := tx.EndDialog(ctx, backend.End{Handle: handle, MessageID: backend.NewID()})
	m.must(err, what)
	if ended.Dropped != len(s.messages) {
		m.failf("%s removed %d messages, want %d", what, ended.Dropped, len(s.messages))
	}
	if m.rng.IntN(6) == 0 {
		m.rollback(tx)
		m.logf("%s and rollback", what)
		return
	}
	from := time.Now()
	m.must(tx.Commit(ctx), "commit of an end")
	m.logf("%s", what)
	s.messages = nil
	c.ended[handle] = true
	if len(c.ended) == 2 {
		m.drop(c.out)
		m.drop(c.in)
		m.bodies++
		m.beginConv(m.bodies)
		return
	}
	back.messages = append(back.messages, modelMessage{body: parley.EndDialog, from: from.Add(-invPatience), to: time.Now()})
}

func (m *model) maintainStep() {
	jobs := []backend.Job{backend.JobMarkers, backend.JobMarkers, backend.JobDeferred, backend.JobDeferred, backend.JobDelayed, backend.JobClosed}
	m.job(jobs[m.rng.IntN(len(jobs))])
}

func (m *model) job(job backend.Job) {
	m.maintain(job)
	m.logf("job %s", job)
	if job == backend.JobDeferred {
		for _, g := range m.inUse() {
			// What a receiver holds the job passes over, and a sender may write again before it returns.
			g.unsure = g.unsure && (m.written(g) || g.hand != nil)
		}
	}
}
