package parley

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/parleymq/parley/internal/consumer"
)

// Reply sends on the message's conversation, in the transaction in which the message is acknowledged. A worker may
// send it after the handler has returned, together with the replies of other handlers. If it cannot be sent then,
// the handler is called again, and Reply returns the error.
func (m *Message) Reply(ctx context.Context, typ string, body []byte) error {
	return m.reply(ctx, Payload{Type: typ, Body: body})
}

// End ends this side of the message's conversation, in the transaction in which the message is acknowledged: what
// EndDialog and Error messages ask for. As with Reply, a worker may do so after the handler has returned.
func (m *Message) End(ctx context.Context) error {
	if in, ok := m.of.(*inHand); ok && ctx.Err() == nil && in.answer(m, nil) {
		return nil
	}
	c, err := m.On(ctx)
	if err != nil {
		return err
	}
	return c.End(ctx)
}

func (m *Message) reply(ctx context.Context, p Payload) error {
	in, ok := m.of.(*inHand)
	if !ok || m.Conversation.IsZero() {
		c, err := m.On(ctx)
		if err != nil {
			return err
		}
		return c.SendPayload(ctx, p)
	}
	if in.b.opt.Outgoing != nil {
		if err := in.b.outgoing(ctx, Outgoing{Service: m.Service, FarService: m.FarService}, &p); err != nil {
			return fail("send", objConv(m.Conversation), err)
		}
	}
	if ctx.Err() == nil && in.takes(m, p) && in.answer(m, &Payload{p.Type, bytes.Clone(p.Body), maps.Clone(p.Headers)}) {
		return nil
	}
	c, err := m.On(ctx)
	if err == nil {
		err = fail("send", objConv(c.handle), c.tx.send(ctx, []Sending{{c, p}}))
	}
	return err
}

// said is an answer to a message: a reply, or the end of its conversation.
type said struct {
	m     *Message
	reply *Payload
}

func (a said) on(tx *Tx) *Conversation {
	return &Conversation{tx: tx, handle: a.m.Conversation, group: a.m.Group, info: a.m.info()}
}

// answer has the worker give an answer later, if it can.
func (in *inHand) answer(m *Message, reply *Payload) bool {
	if m.Conversation.IsZero() {
		return false
	}
	a := consumer.Answer{Handle: m.Conversation, Ends: reply == nil, Says: said{m, reply}}
	if reply != nil {
		a.Size = len(reply.Body)
	}
	return in.later(a)
}

// takes reports whether a reply is as it has to be.
func (in *inHand) takes(m *Message, p Payload) bool {
	v := in.b.catalog.Load()
	if v == nil {
		return false
	}
	_, err := in.b.formed(v, p, func(typ string) error { return m.info().allows(v, typ) })
	return err == nil
}

// Answer sends all replies together, and then ends what is to end. If a reply is refused, it finds by halves whose.
func (k work) Answer(ctx context.Context, groups [][]consumer.Answer) (refused map[int]error, err error) {
	replies, ends := make([][]Sending, len(groups)), make([][]*Conversation, len(groups))
	for i, answers := range groups {
		for _, a := range answers {
			s := a.Says.(said)
			if a.Ends {
				ends[i] = append(ends[i], s.on(k.tx))
			} else {
				replies[i] = append(replies[i], Sending{s.on(k.tx), *s.reply})
			}
		}
	}
	refused = make(map[int]error)
	if err := k.reply(ctx, replies, 0, refused); err != nil {
		return nil, err
	}
	for i, list := range ends {
		for _, c := range list {
			if refused[i] != nil {
				continue
			}
			if err := c.End(ctx); err != nil {
				return nil, err
			}
		}
	}
	return refused, nil
}

// reply sends the replies of groups, the first of which has a number.
func (k work) reply(ctx context.Context, groups [][]Sending, first int, refused map[int]error) error {
	batch := slices.Concat(groups...)
	if len(batch) == 0 {
		return nil
	}
	err := k.tx.send(ctx, batch)
	switch {
	case err == nil || !dead(err):
		return err
	case len(groups) == 1:
		refused[first] = fail("send", objConv(batch[0].To.handle), err)
		return nil
	}
	half := len(groups) / 2
	if err := k.reply(ctx, groups[:half], first, refused); err != nil {
		return err
	}
	return k.reply(ctx, groups[half:], first+half, refused)
}
