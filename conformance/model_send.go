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

// beginConv begins a conversation: two streams.
func (m *model) beginConv(n int) {
	st := m.dialog()
	back := &invStream{kind: "conversation", handle: st.peer, peer: st.handle}
	version, typ := m.version, m.Any
	back.send = func(ctx context.Context, tx backend.Tx, body string) error {
		_, err := tx.Send(ctx, version, []backend.Outgoing{{ID: backend.NewID(), From: back.handle, Type: typ, Kind: backend.KindUser, Body: []byte(body)}})
		return err
	}
	c := &modelConv{ended: map[parley.ID]bool{}}
	c.out = &modelStream{name: fmt.Sprintf("conv %d", n), queue: m.sq, level: 5, how: st, conv: c, group: m.group(st.peer)}
	c.in = &modelStream{name: fmt.Sprintf("conv %d back", n), queue: m.cq, level: 5, how: back, conv: c, group: m.group(st.handle)}
	m.streams = append(m.streams, c.out, c.in)
}

// poster returns what sends posts: each with an id of its own, or all with one.
func (m *model) poster(key string, id func() parley.ID, level int) func(context.Context, backend.Tx, string) error {
	version, queue, typ := m.version, m.sq, m.Any
	return func(ctx context.Context, tx backend.Tx, body string) error {
		_, err := tx.Post(ctx, version, []backend.Posting{{ID: id(), Queue: queue, Key: key, Rank: level, Type: typ, Body: []byte(body)}})
		return err
	}
}

func (m *model) send() {
	sender := &modelSender{s: m.invBelow, from: time.Now(), sent: map[*modelStream][]string{}}
	if m.HoldsInTransaction() && m.rng.IntN(3) == 0 { // add to an open one
		if s := pick(m.rng, m.senders, func(*modelSender) bool { return true }); s != nil {
			sender = s
		}
	}
	opened := sender.tx == nil
	if opened {
		sender.tx = m.begin()
	}
	for range 1 + m.rng.IntN(3) {
		if m.rng.IntN(8) == 0 && opened {
			s := m.newPost()
			m.sendOn(sender, s)
			continue
		}
		s := pick(m.rng, m.streams, func(s *modelStream) bool {
			return sendable(s) || s.writer == sender && s.post.IsZero() && (s.conv == nil || len(s.conv.ended) == 0)
		})
		if s != nil {
			m.sendOn(sender, s)
		}
	}
	if !opened {
		return
	}
	m.senders = append(m.senders, sender)
	if !m.HoldsInTransaction() || m.rng.IntN(2) == 0 {
		m.close(sender)
	}
}

func (m *model) newPost() *modelStream {
	id := backend.NewID()
	level := []int{3, 5, 8}[m.rng.IntN(3)]
	m.bodies++
	s := &modelStream{name: fmt.Sprint("post ", m.bodies), queue: m.sq, level: level, post: id, group: m.group(id)}
	s.how = &invStream{kind: "post", send: m.poster("", func() parley.ID { return id }, level)}
	m.streams = append(m.streams, s)
	return s
}

func (m *model) sendOn(sender *modelSender, s *modelStream) {
	m.bodies++
	body := fmt.Sprint("m", m.bodies)
	ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
	defer cancel()
	if err := s.how.send(ctx, sender.tx, body); err != nil {
		m.failf("send %s on %s: %v", body, s.name, err)
	}
	s.writer = sender
	sender.sent[s] = append(sender.sent[s], body)
	m.logf("send %s on %s", body, s.name)
}

func (m *model) endSender() {
	if s := pick(m.rng, m.senders, func(*modelSender) bool { return true }); s != nil {
		m.close(s)
	}
}

// close commits or rolls back.
func (m *model) close(s *modelSender) {
	commit := m.rng.IntN(6) > 0
	if commit {
		ctx, cancel := context.WithTimeout(m.Ctx, invPatience)
		defer cancel()
		m.must(s.tx.Commit(ctx), "commit of a sender")
	} else {
		m.must(s.tx.Rollback(m.Ctx), "rollback of a sender")
	}
	m.gone(s, commit)
}

// gone is what the end of a sender means.
func (m *model) gone(s *modelSender, commit bool) {
	now := time.Now()
	m.senders = slices.DeleteFunc(m.senders, func(o *modelSender) bool { return o == s })
	var names []string
	for _, st := range slices.Clone(m.streams) {
		if st.writer != s {
			continue
		}
		st.writer = nil
		if commit {
			for _, body := range s.sent[st] {
				st.messages = append(st.messages, modelMessage{body: body, from: s.from, to: now})
			}
		} else if !st.post.IsZero() {
			m.drop(st)
		}
		names = append(names, fmt.Sprint(st.name, " ", s.sent[st]))
	}
	m.logf("the sender of %s ends: commit %t", strings.Join(names, ", "), commit)
}
