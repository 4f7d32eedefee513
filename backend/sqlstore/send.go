package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Send implements backend.Tx.
func (t *Tx) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if err := t.usable(ctx); err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return nil, nil
	}
	if slices.ContainsFunc(messages, func(m backend.Outgoing) bool { return t.endsOf(m.From) }) {
		if err := t.writeAllEnds(ctx); err != nil {
			return nil, err
		}
	}
	sent, done, err := t.sendFirst(ctx, version, messages)
	if !done && err == nil {
		sent, err = t.sendMore(ctx, version, messages)
	}
	if err != nil || t.unseen() {
		return sent, err
	}
	if t.sent == nil {
		t.sent = make(map[backend.ID]int64, len(messages))
	}
	for i, m := range messages {
		t.sent[m.From] = sent[i].Queue
	}
	return sent, nil
}

// sendMore sends on conversations that are stored.
func (t *Tx) sendMore(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if err := t.storeBegun(ctx); err != nil {
		return nil, err
	}
	if err := t.admitHeaders(ctx, slices.ContainsFunc(messages, headed)); err != nil {
		return nil, err
	}
	sent, err := t.send(ctx, version, messages)
	if err == nil {
		err = t.seal(ctx, messages)
	}
	return sent, err
}

// seal notes that the streams of last messages have had them. Their guards are
// ours.
func (t *Tx) seal(ctx context.Context, messages []backend.Outgoing) error {
	for _, m := range messages {
		if !m.Last {
			continue
		}
		if _, err := t.Exec(ctx, t.s.q.StreamSeal, m.From); err != nil {
			return err
		}
	}
	return nil
}

// send sends one message in as few trips as the engine can, and several together.
func (t *Tx) send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if t.noWait {
		if sent, done, err := t.sendTogether(ctx, version, messages); err != nil || done {
			return sent, err
		}
	} else if one := t.s.d.SendOne; one != nil && len(messages) == 1 {
		sent, done, err := one(ctx, t, version, messages[0])
		if err != nil || done {
			return []backend.Sent{sent}, err
		}
		// It was refused, and what follows says why. If the reason has vanished
		// meanwhile, it is sent.
	}
	streams, err := t.guardsOfBatch(ctx, messages)
	if err != nil {
		return nil, err
	}
	if err := refuse(version, messages, streams); err != nil {
		return nil, err
	}
	var b Batch
	sent := make([]backend.Sent, len(messages))
	for i, m := range messages {
		s := streams[m.From]
		sent[i] = backend.Sent{Seq: s.Next, Queue: s.Queue}
		b.add(s, m.ID, int64(m.Kind), m.Type, m.Body, m.Headers)
	}
	if err := t.append(ctx, &b); err != nil {
		return nil, err
	}
	for i, m := range messages {
		if m.Retain {
			if err := t.RetainSent(ctx, m, sent[i].Seq); err != nil {
				return nil, err
			}
		}
	}
	return sent, nil
}

// sendTogether sends messages in a transaction that waits for no lock, if the engine has its own way for that.
func (t *Tx) sendTogether(ctx context.Context, version int64, messages []backend.Outgoing) (sent []backend.Sent, done bool, err error) {
	if many := t.s.d.SendTogether; many != nil {
		return many(ctx, t, version, messages)
	}
	if t.s.d.Guards != nil {
		return nil, false, nil
	}
	for _, m := range messages { // the engine does best with one message at a time
		one, done, err := t.s.d.SendOne(ctx, t, version, m)
		if err != nil || !done {
			return nil, false, cmp.Or(err, backend.ErrStreamBusy)
		}
		sent = append(sent, one)
	}
	return sent, true, nil
}

// guardsOfBatch is guards in as few trips as the engine can.
func (t *Tx) guardsOfBatch(ctx context.Context, messages []backend.Outgoing) (map[backend.ID]*Stream, error) {
	if t.s.d.Guards == nil {
		return t.guards(ctx, messages)
	}
	return t.s.d.Guards(ctx, t, senders(messages))
}

// senders returns the streams of messages, each once and in the order in which
// all senders take their guards.
func senders(messages []backend.Outgoing) []backend.ID {
	ids := make([]backend.ID, len(messages))
	for i, m := range messages {
		ids[i] = m.From
	}
	return SortIDs(ids)
}

// guards locks the streams of messages, in one order for all senders, and reads
// them. Streams that do not exist are left out.
func (t *Tx) guards(ctx context.Context, messages []backend.Outgoing) (map[backend.ID]*Stream, error) {
	streams := make(map[backend.ID]*Stream, 1)
	for _, id := range senders(messages) {
		if _, err := t.TryLock(ctx, t.s.q.GuardLock, id); err != nil {
			return nil, err
		}
		s, err := t.stream(ctx, id)
		if err != nil {
			return nil, err
		}
		if s != nil {
			streams[id] = s
		}
	}
	return streams, nil
}

// refuse returns a *backend.Refused if any of the messages cannot be sent.
func refuse(version int64, messages []backend.Outgoing, streams map[backend.ID]*Stream) error {
	refusals := make(map[int]backend.Refusal)
	for i, m := range messages {
		if r := refusal(version, streams[m.From]); r != 0 {
			refusals[i] = r
		}
	}
	return refused(messages, refusals)
}

// refused adds to the refusals the messages that follow a last one in the same
// call, and returns a *backend.Refused if there are any.
func refused(messages []backend.Outgoing, refusals map[int]backend.Refusal) error {
	for i, last := range messages {
		if !last.Last {
			continue
		}
		for j := i + 1; j < len(messages); j++ {
			if messages[j].From == last.From && refusals[j] == 0 {
				refusals[j] = backend.RefusedSealed
			}
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	return &backend.Refused{Refusals: refusals}
}

// refusal says why nothing can be sent on a stream, 0 if it can. What is wrong
// with the conversation comes before what is wrong with its target, and what is
// already withheld before the reasons to withhold more.
func refusal(version int64, s *Stream) backend.Refusal {
	switch {
	case s == nil || s.Kind != streamDialog:
		return backend.RefusedUnknown
	case s.Version != version:
		return backend.RefusedStale
	case s.Closed:
		return backend.RefusedEnded
	case s.Sealed:
		return backend.RefusedSealed
	case s.Closings > 0:
		return backend.RefusedFar
	case s.Held:
		return backend.RefusedWithheld
	case s.Queue == 0:
		return backend.RefusedNoTarget
	case !s.Enabled:
		return backend.RefusedDisabled
	}
	return 0
}

// RetainSent keeps a sender's copy.
func (t *Tx) RetainSent(ctx context.Context, m backend.Outgoing, seq int64) error {
	_, err := t.Exec(ctx, t.s.q.RetainedInsert, m.From, m.From, seq, true, m.ID, m.Kind, m.Type, m.Body, NullText(m.Headers), nil)
	return err
}
