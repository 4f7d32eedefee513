package bolt

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// Send implements [backend.Tx].
func (tx *Tx) Send(ctx context.Context, version int64, out []backend.Outgoing) (sent []backend.Sent, err error) {
	err = tx.write(ctx, func(l *look) error {
		return l.send(out, func(m backend.Outgoing) backend.Refusal {
			if l.stale(version) {
				return backend.RefusedStale
			}
			return l.undeliverable(m.From)
		}, func(m backend.Outgoing) {
			n := l.append(m.From, outgoing(m), m.Body)
			l.keepCopy(m, n)
			sent = append(sent, backend.Sent{Seq: n, Queue: l.stream(m.From).Queue})
		})
	})
	return sent, err
}

// Withhold implements [backend.Tx].
func (tx *Tx) Withhold(ctx context.Context, out []backend.Outgoing, status string) (sent []backend.Sent, err error) {
	err = tx.write(ctx, func(l *look) error {
		refuse := func(m backend.Outgoing) backend.Refusal { return l.unsendable(m.From) }
		return l.send(out, refuse, func(m backend.Outgoing) {
			n := l.withhold(m.From, outgoing(m), m.Body, status)
			l.keepCopy(m, n)
			sent = append(sent, backend.Sent{Seq: n})
		})
	})
	return sent, err
}

// send sends all messages, or none if any of them is refused.
func (l *look) send(
	out []backend.Outgoing, refuse func(backend.Outgoing) backend.Refusal, send func(backend.Outgoing),
) error {
	refusals := make(map[int]backend.Refusal)
	last := make(map[backend.ID]bool)
	for i, m := range out {
		r := refuse(m)
		if r == 0 && last[m.From] {
			r = backend.RefusedSealed
		}
		if r != 0 {
			refusals[i] = r
		}
		last[m.From] = last[m.From] || m.Last
	}
	if len(refusals) > 0 {
		return &backend.Refused{Refusals: refusals}
	}
	for _, m := range out {
		send(m)
		if m.Last {
			s := l.stream(m.From)
			s.Sealed = true
			l.putStream(m.From, s)
		}
	}
	return nil
}

// undeliverable says why a message cannot go to the target's queue; zero: it can.
func (l *look) undeliverable(from backend.ID) backend.Refusal {
	if r := l.unsendable(from); r != 0 {
		return r
	}
	switch s := l.stream(from); {
	case !s.Accepted:
		return backend.RefusedNoTarget
	case l.withholds(from):
		return backend.RefusedWithheld
	case l.disabled(s.Queue):
		return backend.RefusedDisabled
	}
	return 0
}

// unsendable says why a side cannot send at all; zero: it can.
func (l *look) unsendable(from backend.ID) backend.Refusal {
	e, ok := l.endpoint(from)
	if !ok {
		return backend.RefusedUnknown
	}
	state, _ := l.state(e)
	switch {
	case e.Closed != nil:
		return backend.RefusedEnded
	case l.stream(from).Sealed:
		return backend.RefusedSealed
	case state == backend.DisconnectedInbound, state == backend.Errored, l.farCleaned(e):
		return backend.RefusedFar
	}
	return 0
}

func outgoing(m backend.Outgoing) message {
	return message{ID: m.ID, Kind: m.Kind, Type: m.Type, Headers: m.Headers}
}

// keepCopy keeps a copy for a sender whose queue has retention.
func (l *look) keepCopy(m backend.Outgoing, n int64) {
	if !m.Retain {
		return
	}
	e, _ := l.endpoint(m.From)
	l.retain(m.From, backend.RetainedMessage{Sent: true, Message: backend.Message{
		ID: m.ID, Stream: m.From, Seq: n, Kind: m.Kind, Type: m.Type, Body: m.Body, Headers: m.Headers, Enqueued: l.now(),
		Group: e.Group, Handle: m.From, Conversation: e.Conversation, Initiator: e.Initiator,
		Service: e.Service, FarService: e.FarService, Contract: e.Contract, Priority: e.Priority,
	}})
}

func (l *look) retain(handle backend.ID, m backend.RetainedMessage) {
	put(l, retained, key(handle, l.next("serial")), m)
}

// withhold adds a message to those of a stream that wait for their target.
func (l *look) withhold(id backend.ID, m message, body []byte, status string) (n int64) {
	s := l.stream(id)
	if !l.withholds(id) {
		s.Since = l.now()
	}
	n = s.Next
	s.Next++
	s.Status = status
	l.putStream(id, s)
	l.place(withheld, id, n, m, body)
	return n
}

func (l *look) withholds(id backend.ID) bool {
	_, _, ok := first(l, withheld, key(id))
	return ok
}

// kept returns what is withheld of a side's stream.
func (l *look) kept(from backend.ID) (e endpoint, rows []row[message], err error) {
	e, ok := l.endpoint(from)
	if !ok {
		return e, nil, backend.ErrNoConversation
	}
	return e, list(l, withheld, key(from)), nil
}

// Deliver implements [backend.Tx].
func (tx *Tx) Deliver(ctx context.Context, from backend.ID) (moved int, err error) {
	err = tx.write(ctx, func(l *look) error {
		e, rows, err := l.kept(from)
		out := l.stream(from)
		switch {
		case err != nil || !out.Accepted:
			return err
		case l.disabled(out.Queue):
			return backend.ErrQueueDisabled
		}
		target, ok := l.endpoint(e.FarHandle)
		if !ok || target.Closed != nil { // no receiver will get them any more
			l.takeAll(withheld, from)
			l.over(e)
			return nil
		}
		for _, r := range rows {
			body := l.body(r.key, r.V)
			l.take(withheld, r.key)
			if r.V.Kind == backend.KindError {
				l.notify(target, r.V, body)
			} else {
				l.place(messages, from, numberAt(r.key, 16), r.V, body)
			}
		}
		l.mark(from)
		moved = len(rows)
		return nil
	})
	return moved, err
}

// Discard implements [backend.Tx].
func (tx *Tx) Discard(ctx context.Context, from backend.ID, reason string) (dropped int, err error) {
	err = tx.write(ctx, func(l *look) error {
		e, rows, err := l.kept(from)
		if err != nil {
			return err
		}
		for _, r := range rows {
			l.bury(l.stream(from).Queue, backend.Message{
				ID: r.V.ID, Stream: from, Seq: numberAt(r.key, 16), Kind: r.V.Kind, Type: r.V.Type, Body: l.body(r.key, r.V),
				Headers: r.V.Headers, Enqueued: r.V.Enqueued, Handle: e.FarHandle, Conversation: e.Conversation, Initiator: !e.Initiator,
				Service: e.FarService, FarService: e.Service, Contract: e.Contract,
			}, reason)
			l.take(withheld, r.key)
		}
		l.over(e)
		dropped = len(rows)
		return nil
	})
	return dropped, err
}

// Resend implements [backend.Tx].
func (tx *Tx) Resend(ctx context.Context, from, to backend.ID, status string) (moved int, err error) {
	err = tx.write(ctx, func(l *look) error {
		e, rows, err := l.kept(from)
		if err != nil {
			return err
		}
		if !has(l, endpoints, key(to)) {
			return backend.ErrNoConversation
		}
		for _, r := range rows {
			body := l.body(r.key, r.V)
			l.take(withheld, r.key)
			if r.V.Type != backend.TypeEndOfStream {
				l.withhold(to, r.V, body, status)
				moved++
			}
		}
		l.over(e)
		return nil
	})
	return moved, err
}

// TryStream implements [backend.Tx]. No other transaction can have the stream.
func (tx *Tx) TryStream(ctx context.Context, handle backend.ID) error {
	return tx.write(ctx, func(l *look) error {
		if !has(l, endpoints, key(handle)) {
			return backend.ErrNoConversation
		}
		return nil
	})
}

// deadLetter is a message that was taken out of its stream.
type deadLetter struct {
	Queue   int64
	Message backend.Message
	Reason  string
	At      time.Time
}

func (l *look) bury(queue int64, m backend.Message, reason string) {
	m.Errors = backend.KeepAttempts(m.Errors, l.now())
	put(l, dead, key(l.next("serial")), deadLetter{queue, m, reason, l.now()})
}

// RemoveDead implements [backend.Tx].
func (tx *Tx) RemoveDead(ctx context.Context, id backend.ID) (was bool, err error) {
	err = tx.write(ctx, func(l *look) error {
		for _, d := range list(l, dead, nil) {
			if d.V.Message.ID == id {
				was = remove(l, dead, d.key)
			}
		}
		return nil
	})
	return was, err
}
