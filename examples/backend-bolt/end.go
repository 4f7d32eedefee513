package bolt

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// EndDialog implements [backend.Tx].
func (tx *Tx) EndDialog(ctx context.Context, end backend.End) (done backend.Ended, err error) {
	err = tx.write(ctx, func(l *look) error {
		e, ok := l.endpoint(end.Handle)
		switch {
		case !ok:
			return backend.ErrNoConversation
		case e.Closed != nil:
			return backend.ErrEnded
		case !tx.has(e.Group):
			return backend.ErrGroupBusy
		}
		done = tx.endDialog(l, e, end)
		return nil
	})
	return done, err
}

func (tx *Tx) endDialog(l *look, e endpoint, end backend.End) (done backend.Ended) {
	state, _ := l.state(e)
	far, _ := l.endpoint(e.FarHandle)
	farEnded := far.Closed != nil
	done.FarEnded = farEnded || l.farCleaned(e)
	done.Dropped = tx.dropUnread(l, e)
	l.stopTimer(&e)
	removeAll(l, retained, key(e.Handle))

	// What waits for the target goes on waiting only if we end as friends.
	if end.Kind != backend.EndPlain || state == backend.Errored || farEnded {
		l.takeAll(withheld, e.Handle)
	}
	done.FarGone = farEnded || l.alone(e)
	if end.Kind == backend.EndCleanup {
		l.forget(e)
		if done.FarGone {
			l.removeConversation(e)
		}
		return done
	}

	e.Closed = &closing{Keep: l.now().Add(end.Keep), N: l.next("serial")}
	if end.Kind == backend.EndError {
		e.Closed.Error = end.Error
	}
	l.putEndpoint(e)
	switch {
	case done.FarGone && end.Keep == 0 && l.free(far.Group):
		l.removeConversation(e)
	case done.FarGone:
		done.Remains = end.Keep == 0
		keep := e.Closed.Keep
		if farEnded && far.Closed.Keep.After(keep) {
			keep = far.Closed.Keep
		}
		l.due(backend.JobClosed, keep, key(e.Handle))
	case far.Trouble != nil: // it has heard enough and will end by itself
	case end.Kind == backend.EndError:
		done.Queue = l.tell(e, far, message{ID: end.MessageID, Kind: backend.KindError}, end.Error.Body())
	default:
		done.Queue = l.tell(e, far, message{ID: end.MessageID, Kind: backend.KindEnd}, nil)
	}
	return done
}

// over has a conversation removed that is over, since a side that has ended has nothing withheld
// any more.
func (l *look) over(e endpoint) {
	if state, _ := l.state(e); state == backend.Closed {
		l.due(backend.JobClosed, e.Closed.Keep, key(e.Handle))
	}
}

// tell sends the last message of a side and returns the queue that got it; zero if it has to
// wait.
func (l *look) tell(e, far endpoint, m message, body []byte) int64 {
	out := l.stream(e.Handle)
	m.Type = m.Kind.Type()
	switch {
	case !out.Accepted || l.withholds(e.Handle) || l.disabled(out.Queue):
		l.withhold(e.Handle, m, body, "the conversation has ended, its last message waits")
		return 0
	case m.Kind == backend.KindError: // goes before what was sent: in a separate stream
		l.notify(far, m, body)
	default:
		l.append(e.Handle, m, body)
	}
	return out.Queue
}

// dropUnread removes the messages for a side. The transaction remembers them: a handler may end
// the conversation and then acknowledge.
func (tx *Tx) dropUnread(l *look, e endpoint) (n int) {
	for _, id := range l.readBy(e) {
		for _, r := range list(l, messages, key(id)) {
			k := string(r.key)
			l.take(messages, r.key)
			remove(l, failures, key(r.V.ID))
			if tx != nil && !tx.dropped[k] {
				if tx.dropped == nil {
					tx.dropped = make(map[string]bool)
				}
				tx.dropped[k] = true
				l.did(func() { delete(tx.dropped, k) })
			}
			n++
		}
		l.mark(id)
	}
	return n
}

// forget removes one side.
func (l *look) forget(e endpoint) {
	(*Tx)(nil).dropUnread(l, e)
	for _, r := range list(l, notices, key(e.Handle)) {
		l.removeStream(idAt(r.key, 16))
		remove(l, notices, r.key)
	}
	l.stopTimer(&e)
	l.notDue(backend.JobLifetimes, e.Deadline, key(e.Handle))
	removeAll(l, retained, key(e.Handle))
	l.takeAll(withheld, e.Handle)
	remove(l, members, key(e.Group, e.Handle))
	remove(l, endpoints, key(e.Handle))
}

// removeConversation removes both sides. Their groups are left to JobGroups.
func (l *look) removeConversation(e endpoint) {
	if far, ok := l.endpoint(e.FarHandle); ok {
		l.forget(far)
	}
	if mine, ok := l.endpoint(e.Handle); ok {
		l.forget(mine)
	}
	l.removeStream(e.Handle)
	l.removeStream(e.FarHandle)
}
