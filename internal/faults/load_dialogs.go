package main

import (
	"context"
	"time"

	"github.com/parleymq/parley"
)

// A dialog has a stream of requests and a stream of replies. If its initiator waits for a timer
// before the first request, it has a third one. Each request is sent in the transaction that
// handles the reply before it. The target ends with its last reply.
const (
	askQueue, answerQueue  = "faults ask", "faults answer"
	asker, answerer        = "Faults asker", "Faults answerer"
	requestType, replyType = "Faults request", "Faults reply"
	talk                   = "Faults talk"
)

func dialogStream(id parley.ID, what string) string { return "dialog/" + id.String() + "/" + what }

// dialogs begins one dialog or two of one group.
func (s *sender) dialogs(ctx context.Context) error {
	return s.send(ctx, func(tx *parley.Tx, log func(event)) error {
		var o parley.DialogOptions
		for range 1 + random.IntN(2) {
			o.Contract = talk
			c, err := tx.Begin(ctx, asker, answerer, &o)
			if err != nil {
				return err
			}
			o.RelatedConversation = c.Handle()
			id, err := c.ID(ctx)
			if err != nil {
				return err
			}
			if random.IntN(3) == 0 {
				err = setTimer(ctx, c, id, log)
			} else {
				e := event{Stream: dialogStream(id, "ask")}
				log(e)
				err = send(ctx, c.Send, requestType, body{Stream: e.Stream, Left: random.IntN(4)})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// setTimer sets the timer of a dialog, some of them twice: the second one counts.
func setTimer(ctx context.Context, c *parley.Conversation, id parley.ID, log func(event)) error {
	if random.IntN(2) == 0 {
		if err := c.SetTimer(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	delay := time.Duration(1+random.IntN(600)) * time.Millisecond
	log(event{Stream: dialogStream(id, "timer"), After: int64(delay)})
	return c.SetTimer(ctx, delay)
}

func send(ctx context.Context, f func(context.Context, string, []byte) error, typ string, b body) error {
	p := b.payload(typ)
	return f(ctx, p.Type, p.Body)
}

// timer handles the initiator's timer, which is the time for the first request.
func (h *handlers) timer(ctx context.Context, m *parley.Message) error {
	if m.FarService == diary {
		return h.quit(ctx, m)
	}
	return h.answer(ctx, m, body{Stream: dialogStream(m.ConversationID, "timer")}, func(a *attempt) error {
		return a.sends(ctx, m, requestType, body{Stream: dialogStream(m.ConversationID, "ask"), Left: random.IntN(4)})
	})
}

// sends sends on a message's conversation.
func (a *attempt) sends(ctx context.Context, m *parley.Message, typ string, b body) error {
	a.posts(b.Stream, b.Seq)
	return send(ctx, m.Reply, typ, b)
}

// request handles a request: it replies, and ends behind the last one. A quarter of the handlers do nothing else, and leave
// their effect to the handler of the reply.
func (h *handlers) request(ctx context.Context, m *parley.Message) error {
	b, err := bodyOf(m)
	if err != nil {
		return err
	}
	r := body{Stream: dialogStream(m.ConversationID, "answer"), Seq: b.Seq, Left: b.Left}
	say := func(a *attempt) error {
		if err := a.sends(ctx, m, replyType, r); err != nil || b.Left > 0 {
			return err
		}
		a.posts(r.Stream, r.Seq+1)
		return m.End(ctx)
	}
	if random.IntN(4) > 0 {
		return h.answer(ctx, m, b, say)
	}
	return h.try(ctx, m, b, func(a *attempt) error {
		r.Owed = &effect{b.Stream, b.Seq, a.name, leftToReply}
		return say(a)
	})
}

// reply handles a reply, and sends the next request.
func (h *handlers) reply(ctx context.Context, m *parley.Message) error {
	b, err := bodyOf(m)
	if err != nil {
		return err
	}
	return h.answer(ctx, m, b, func(a *attempt) error {
		if b.Left == 0 {
			return nil // the end follows
		}
		return a.sends(ctx, m, requestType, body{Stream: dialogStream(m.ConversationID, "ask"), Seq: b.Seq + 1, Left: b.Left - 1})
	})
}

// ended handles the end of the other side, whose place is behind its last reply.
func (h *handlers) ended(ctx context.Context, m *parley.Message) error {
	if m.Service != asker {
		return m.End(ctx)
	}
	b := body{Stream: dialogStream(m.ConversationID, "answer"), Seq: int(m.Seq)}
	return h.answer(ctx, m, b, func(*attempt) error { return m.End(ctx) })
}
