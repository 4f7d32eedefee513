package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Withhold implements backend.Tx.
func (t *Tx) Withhold(ctx context.Context, messages []backend.Outgoing, status string) ([]backend.Sent, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if err := t.admitHeaders(ctx, slices.ContainsFunc(messages, headed)); err != nil {
		return nil, err
	}
	streams, err := t.guards(ctx, messages)
	if err != nil {
		return nil, err
	}
	refusals := make(map[int]backend.Refusal)
	for i, m := range messages {
		s := streams[m.From]
		if s == nil {
			refusals[i] = backend.RefusedUnknown
			continue
		}
		switch r := refusal(s.Version, s); r {
		case backend.RefusedUnknown, backend.RefusedEnded, backend.RefusedSealed, backend.RefusedFar:
			refusals[i] = r
		}
	}
	if err := refused(messages, refusals); err != nil {
		return nil, err
	}
	sent := make([]backend.Sent, len(messages))
	for i, m := range messages {
		s := streams[m.From]
		sent[i].Seq = s.Next
		if err := t.withhold(ctx, s, m, status); err != nil {
			return nil, err
		}
		if m.Retain {
			if err := t.RetainSent(ctx, m, sent[i].Seq); err != nil {
				return nil, err
			}
		}
	}
	return sent, t.seal(ctx, messages)
}

// withhold appends one message to those of a stream that wait.
func (t *Tx) withhold(ctx context.Context, s *Stream, m backend.Outgoing, status string) error {
	_, err := t.Exec(ctx, t.s.q.HeldInsert, s.ID, s.Next, m.ID, m.Kind, m.Type, m.Body, NullText(m.Headers), status)
	if err != nil {
		return err
	}
	s.Next++
	_, err = t.Exec(ctx, t.s.q.StreamHold, s.Next, s.ID)
	return err
}

// heldMessage is a row of the table held.
type heldMessage struct {
	seq     int64
	id      backend.ID
	kind    backend.Kind
	typ     string
	body    []byte
	headers string
	since   int64
}

func (t *Tx) heldMessages(ctx context.Context, id backend.ID) (held []heldMessage, err error) {
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var m heldMessage
		err := rows.Scan(&m.seq, ID(&m.id), &m.kind, &m.typ, Body(&m.body), Text(&m.headers), &m.since)
		held = append(held, m)
		return err
	}, t.s.q.HeldRead, id)
	return held, err
}

// release takes what is withheld out of a stream whose guard is ours.
func (t *Tx) release(ctx context.Context, id backend.ID) error {
	if _, err := t.Exec(ctx, t.s.q.HeldDelete, id); err != nil {
		return err
	}
	_, err := t.Exec(ctx, t.s.q.StreamUnhold, id)
	return err
}

// Deliver implements backend.Tx.
func (t *Tx) Deliver(ctx context.Context, from backend.ID) (int, error) {
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	s, err := t.guard(ctx, from)
	switch {
	case err != nil:
		return 0, err
	case s == nil:
		return 0, backend.ErrNoConversation
	case !s.Held || s.Queue == 0: // nothing to move, or nowhere to move it to
		return 0, nil
	case !s.Enabled:
		return 0, backend.ErrQueueDisabled
	}
	held, err := t.heldMessages(ctx, from)
	if err != nil {
		return 0, err
	}
	ordered := false
	for _, m := range held {
		if m.kind == backend.KindError {
			err = t.putNote(ctx, *s, note{id: m.id, kind: m.kind, body: m.body})
		} else {
			ordered = true
			_, err = t.Exec(ctx, t.s.q.MessageInsert, from, m.seq, m.id, m.kind, m.typ, m.body, NullText(m.headers), nil)
		}
		if err != nil {
			return 0, err
		}
	}
	if ordered {
		if err := t.mark(ctx, *s); err != nil {
			return 0, err
		}
	}
	return len(held), t.release(ctx, from)
}

// Discard implements backend.Tx.
func (t *Tx) Discard(ctx context.Context, from backend.ID, reason string) (int, error) {
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	s, err := t.guard(ctx, from)
	switch {
	case err != nil:
		return 0, err
	case s == nil:
		return 0, backend.ErrNoConversation
	case !s.Held:
		return 0, nil
	}
	e, err := t.endpoint(ctx, from)
	if err != nil {
		return 0, err
	}
	if e == nil {
		e = new(backend.Endpoint)
	}
	held, err := t.heldMessages(ctx, from)
	if err != nil {
		return 0, err
	}
	for _, m := range held {
		// Seen from the target: the service that should have received it.
		err := t.bury(ctx, s.Queue, &backend.Message{
			ID: m.id, Stream: from, Seq: m.seq, Kind: m.kind, Type: m.typ, Body: m.body, Headers: m.headers,
			Group: s.Group, Handle: e.FarHandle, Conversation: e.Conversation, Initiator: !e.Initiator,
			Service: e.FarService, FarService: e.Service, Contract: e.Contract, Priority: s.Priority,
		}, m.since, reason)
		if err != nil {
			return 0, err
		}
	}
	return len(held), t.release(ctx, from)
}

// Resend implements backend.Tx.
func (t *Tx) Resend(ctx context.Context, from, to backend.ID, status string) (int, error) {
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	streams, err := t.guards(ctx, []backend.Outgoing{{From: from}, {From: to}})
	if err != nil {
		return 0, err
	}
	a, b := streams[from], streams[to]
	if a == nil || b == nil {
		return 0, backend.ErrNoConversation
	}
	held, err := t.heldMessages(ctx, from)
	if err != nil || len(held) == 0 {
		return 0, err
	}
	// What is withheld of a stream is all it has since the first of it. So the numbers
	// have no gaps, and EndOfStream, if it is there, is the last.
	moved, err := t.Exec(ctx, t.s.q.HeldMove, to, b.Next-held[0].seq, status, from, backend.TypeEndOfStream)
	if err != nil || moved == 0 {
		return 0, err
	}
	if _, err := t.Exec(ctx, t.s.q.StreamHold, b.Next+moved, to); err != nil {
		return 0, err
	}
	return int(moved), t.release(ctx, from)
}
