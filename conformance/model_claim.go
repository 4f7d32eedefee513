package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// read checks a delivery of a group. Each stream comes in one piece and from its beginning, after
// the skip messages that were delivered before.
func (m *model) read(h *backend.Hold, messages []*backend.Message, limit int, only parley.ID, skip map[*modelStream]int) *modelGroup {
	if len(messages) == 0 {
		m.failf("delivered nothing of group %s", h.Group)
	}
	g := m.streamOf(messages[0], h.Group).group
	if g == nil {
		m.failf("delivered %q, which was not committed", bodyOf(messages[0]))
	}
	if g.id.IsZero() {
		g.id = h.Group
		m.groups[g.id] = g
	}
	if g.id != h.Group {
		m.failf("delivered %q in group %s, want %s", bodyOf(messages[0]), h.Group, g.id)
	}
	total := 0
	for _, s := range m.in(g) {
		if only.IsZero() || s.how.peer == only {
			total += len(s.messages) - skip[s]
		}
	}
	var seen []*modelStream
	got := map[*modelStream]int{}
	for _, msg := range messages {
		s := m.streamOf(msg, h.Group)
		if s.group != g || !only.IsZero() && s.how.peer != only {
			m.failf("delivered %q of %s in group %s", bodyOf(msg), s.name, m.name(g))
		}
		if len(seen) == 0 || seen[len(seen)-1] != s {
			if slices.Contains(seen, s) {
				m.failf("the messages of %s are not delivered in one piece", s.name)
			}
			seen = append(seen, s)
		}
		at := skip[s] + got[s]
		if at >= len(s.messages) || s.messages[at].body != bodyOf(msg) {
			m.failf("delivered %q of %s as its number %d; committed and not acknowledged: %v", bodyOf(msg), s.name, at, s.texts())
		}
		if msg.Attempts != s.messages[at].attempts {
			m.failf("%q of %s says that it failed %d times, want %d", bodyOf(msg), s.name, msg.Attempts, s.messages[at].attempts)
		}
		got[s]++
	}
	if want := min(limit, total); len(messages) > want || len(messages) < want && !g.unsure {
		m.failf("delivered %d messages of %s, want %d", len(messages), m.name(g), want)
	}
	return g
}

func (m *model) claimStep() {
	if len(m.hands) >= 4 {
		return
	}
	hold := m.Holds()[m.rng.IntN(len(m.Holds()))]
	r := backend.ClaimRequest{Queue: m.sq, MaxMessages: 1 + m.rng.IntN(5), MaxGroups: 1 + m.rng.IntN(2), Lease: time.Hour}
	if hold == parley.HoldTransaction {
		r.Lease = 0
	}
	if m.rng.IntN(4) == 0 {
		r.Queue = m.cq
	}
	ready := m.ready(r.Queue)
	if m.rng.IntN(6) == 0 { // one group, held and hidden ones included
		s := pick(m.rng, m.streams, func(s *modelStream) bool { return s.queue == r.Queue && s.group != nil && !s.group.id.IsZero() })
		if s == nil {
			return
		}
		r.Group, r.MaxGroups = s.group.id, 1
		of := s.group
		if s.conv != nil && m.rng.IntN(2) == 0 && !s.conv.ended[s.how.peer] {
			r.Group, r.Handle = parley.ID{}, s.how.peer
		}
		ready = slices.DeleteFunc(ready, func(g *modelGroup) bool { return g != of })
		if !r.Handle.IsZero() && len(s.messages) == 0 {
			ready = nil
		}
	}
	m.take(hold, r, ready)
}

// take claims and compares with the groups that may come.
func (m *model) take(hold parley.Hold, r backend.ClaimRequest, ready []*modelGroup) *modelHand {
	sure := slices.DeleteFunc(slices.Clone(ready), func(g *modelGroup) bool { return g.unsure })
	tx := m.begin()
	var c backend.Claim
	for range 50 { // as a receiver does when there is something in the way
		ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
		var err error
		c, err = tx.Claim(ctx, m.request(r))
		cancel()
		m.must(err, "claim")
		if len(c.Holds) > 0 || !c.Contended || len(sure) == 0 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if len(c.Holds) == 0 && len(sure) > 0 {
		var names []string
		for _, g := range sure {
			names = append(names, m.name(g))
		}
		m.failf("a claim finds nothing; stranded: %s", strings.Join(names, " "))
	}
	if len(c.Holds) > r.MaxGroups {
		m.failf("a claim of %d groups brings %d", r.MaxGroups, len(c.Holds))
	}
	hand := &modelHand{s: m.invBelow, tx: tx, holds: c.Holds, narrow: !r.Handle.IsZero()}
	var names []string
	for k, h := range c.Holds {
		g := m.read(h, h.Messages, r.MaxMessages, r.Handle, nil)
		i := slices.Index(ready, g)
		if i < 0 {
			m.failf("claimed %s, %s", m.name(g), g.unexpected())
		}
		if k == 0 { // further ones may pass some
			for _, other := range sure {
				if other != g && m.before(other, g) {
					m.failf("claimed %s before %s", m.rank(g), m.rank(other))
				}
			}
		}
		if h.Promoted != (g.promo != nil) || h.Promoted && h.Level != g.promo.level {
			m.failf("claimed %s, promoted %t to %d", m.rank(g), h.Promoted, h.Level)
		}
		ready = slices.Delete(slices.Clone(ready), i, i+1)
		serial := 0
		if g.promo != nil {
			serial = g.promo.serial
		}
		hand.groups, hand.promo = append(hand.groups, g), append(hand.promo, serial)
		names = append(names, fmt.Sprint(m.name(g), " ", (&invHeld{Hold: h}).bodies()))
	}
	how := "in a transaction"
	if hold == parley.HoldLease || len(c.Holds) == 0 {
		how = "by lease"
		m.must(tx.Commit(m.Ctx), "commit of a claim")
		hand.tx = nil
	}
	m.logf("claim of %d groups of %d messages, %s: %s", r.MaxGroups, r.MaxMessages, how, strings.Join(names, ", "))
	if len(c.Holds) == 0 {
		return nil
	}
	for _, g := range hand.groups {
		g.hand = hand
	}
	m.hands = append(m.hands, hand)
	return hand
}

// free is the end of a hand.
func (m *model) free(h *modelHand) {
	for _, g := range h.groups {
		g.hand = nil
	}
	m.hands = slices.DeleteFunc(m.hands, func(o *modelHand) bool { return o == h })
}

func (m *model) more() {
	h := pick(m.rng, m.hands, func(h *modelHand) bool { return h.tx != nil && !h.narrow })
	if h == nil {
		return
	}
	i := m.rng.IntN(len(h.holds))
	hold, n := h.holds[i], 1+m.rng.IntN(3)
	skip := map[*modelStream]int{}
	for _, msg := range hold.Messages {
		skip[m.streamOf(msg, hold.Group)]++
	}
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	more, err := h.tx.More(ctx, hold, n, 1<<20)
	m.must(err, "more")
	left := 0
	for _, s := range m.in(h.groups[i]) {
		left += len(s.messages) - skip[s]
	}
	m.logf("more of %s: %d", m.name(h.groups[i]), len(more))
	if len(more) > 0 {
		m.read(hold, more, n, parley.ID{}, skip)
	} else if left > 0 && !h.groups[i].unsure {
		m.failf("More delivers nothing of %s, which has %d more", m.name(h.groups[i]), left)
	}
}

func (m *model) settleStep() {
	h := pick(m.rng, m.hands, func(*modelHand) bool { return true })
	if h == nil {
		return
	}
	if h.tx != nil && m.rng.IntN(6) == 0 {
		m.must(h.tx.Rollback(m.Ctx), "rollback of a receiver")
		m.logf("rollback of the receiver of %s", m.names(h))
		m.free(h)
		return
	}
	m.settle(h)
}

// settle settles in one of many ways.
func (m *model) settle(h *modelHand) {
	tx := h.tx
	ctx, cancel := context.WithTimeout(m.Ctx, 2*invPatience)
	defer cancel()
	if tx == nil {
		tx = m.begin()
		m.must(tx.Reclaim(ctx, h.holds), "reclaim")
	}
	var outcomes []backend.Outcome
	var texts []string
	for i, hold := range h.holds {
		o := backend.Outcome{Hold: hold}
		text := "given back"
		switch n := len(hold.Messages); m.rng.IntN(14) {
		case 0:
		case 12, 13: // failed, and tried again at once or later
			first := hold.Messages[0]
			o.Failure, text = &backend.Failure{Message: first, Attempts: first.Attempts + 1, Error: "a check"}, "failed"
			if m.rng.IntN(3) == 0 {
				o.Defer, text = time.Hour, "failed and deferred"
			}
		case 1:
			o.Park, text = "a check", "parked"
		case 2:
			o.Defer, text = time.Hour, "deferred"
		case 3: // some of it and then parked
			o.Park, o.Done, text = "a check", hold.Messages[:n/2], fmt.Sprintf("%d acknowledged and parked", n/2)
		case 4:
			o.Dead, o.Done = []backend.DeadLetter{{Message: hold.Messages[0], Reason: "a check"}}, hold.Messages[1:]
			text = "all acknowledged, the first dead"
		case 5, 6, 7:
			o.Done, text = hold.Messages[:(n+1)/2], fmt.Sprintf("%d acknowledged", (n+1)/2)
		default:
			o.Done, text = hold.Messages, "all acknowledged"
		}
		outcomes = append(outcomes, o)
		texts = append(texts, m.name(h.groups[i])+" "+text)
	}
	_, err := tx.Settle(ctx, outcomes)
	m.must(err, "settle "+strings.Join(texts, ", "))
	if m.rng.IntN(10) == 0 { // after all
		m.must(tx.Rollback(m.Ctx), "rollback after a settle")
		m.logf("settle and rollback: %s", strings.Join(texts, ", "))
		if h.tx != nil {
			m.free(h)
		}
		return
	}
	m.must(tx.Commit(ctx), "commit of a settle")
	m.logf("settle: %s", strings.Join(texts, ", "))
	m.free(h)
	for i, o := range outcomes {
		g := h.groups[i]
		gone := slices.Clone(o.Done)
		for _, d := range o.Dead {
			gone = append(gone, d.Message)
		}
		for _, msg := range o.Hold.Messages {
			s := m.streamOf(msg, o.Hold.Group)
			if slices.Contains(gone, msg) {
				s.messages, s.blurred, s.late = s.messages[1:], s.writer != nil, s.late && s.writer != nil
			}
			if o.Failure != nil && o.Failure.Message == msg {
				s.messages[0].attempts++
			}
		}
		for _, s := range slices.Clone(m.streams) {
			if s.group == g && !s.post.IsZero() && len(s.messages) == 0 {
				m.drop(s)
			}
		}
		if len(gone) > 0 && g.promo != nil && !g.promo.sticky && g.promo.serial == h.promo[i] {
			g.promo = nil
		}
		if o.Park != "" || o.Defer > 0 {
			g.hidden = true
		}
	}
}
