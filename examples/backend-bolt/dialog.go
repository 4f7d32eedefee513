package bolt

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// endpoint is one side of a conversation. State, Error, Lifetime and what the stream knows are
// worked out when it is read.
type endpoint struct {
	backend.Endpoint
	Deadline time.Time // zero: none
	Began    time.Time
	Timer    time.Time // zero: none
	Closed   *closing  // nil: it has not ended
	Trouble  *trouble  // nil: the broker says nothing of it
}

// closing says that a side has ended.
type closing struct {
	Error *backend.DialogError // what it told the other side, if it ended with an error
	Keep  time.Time            // the conversation is shown until then
	N     int64                // tells which of two errors was first
}

// trouble is the error that the broker has put a side in.
type trouble struct {
	Error backend.DialogError
	N     int64
}

func (l *look) endpoint(handle backend.ID) (endpoint, bool) { return get(l, endpoints, key(handle)) }

func (l *look) putEndpoint(e endpoint) {
	put(l, endpoints, key(e.Handle), e)
	put(l, members, key(e.Group, e.Handle), none{})
}

// BeginDialog implements [backend.Tx].
func (tx *Tx) BeginDialog(ctx context.Context, version int64, d backend.NewDialog) error {
	return tx.write(ctx, func(l *look) error {
		if l.stale(version) {
			return backend.ErrStaleCatalog
		}
		if err := tx.join(l, d.Group, group{Queue: d.Queue, Service: d.Service}, d.NewGroup); err != nil {
			return err
		}
		e := endpoint{Endpoint: d.Endpoint, Began: l.now()}
		if d.Lifetime > 0 {
			e.Deadline = e.Began.Add(d.Lifetime)
			l.due(backend.JobLifetimes, e.Deadline, key(e.Handle))
		}
		l.putEndpoint(e)
		// Where the stream to the target leads is known once there is a target.
		l.putStream(d.Handle, stream{Reader: d.FarHandle})
		l.putStream(d.FarHandle, stream{Reader: d.Handle, Accepted: true, Queue: d.Queue, Priority: d.Priority})
		return nil
	})
}

// Accept implements [backend.Tx].
func (tx *Tx) Accept(
	ctx context.Context, version int64, from backend.ID, target backend.Endpoint,
) (made bool, err error) {
	err = tx.write(ctx, func(l *look) error {
		if l.stale(version) {
			return backend.ErrStaleCatalog
		}
		initiator, ok := l.endpoint(from)
		if !ok {
			return backend.ErrNoConversation
		}
		out := l.stream(from)
		if out.Accepted || has(l, groups, key(target.Handle)) {
			return nil
		}
		target.Group = target.Handle
		l.putGroup(target.Group, group{Queue: target.Queue, Service: target.Service})
		e := endpoint{Endpoint: target, Began: l.now(), Deadline: initiator.Deadline}
		if !e.Deadline.IsZero() {
			l.due(backend.JobLifetimes, e.Deadline, key(e.Handle))
		}
		l.putEndpoint(e)
		out.Accepted, out.Queue, out.Priority = true, target.Queue, target.Priority
		l.putStream(from, out)
		made = true
		return nil
	})
	return made, err
}

// Endpoint implements [backend.Tx].
func (tx *Tx) Endpoint(ctx context.Context, handle backend.ID) (seen *backend.Endpoint, err error) {
	err = tx.read(ctx, func(l *look) error {
		e, ok := l.endpoint(handle)
		if !ok {
			return backend.ErrNoConversation
		}
		v := l.shown(e)
		seen = &v
		return nil
	})
	return seen, err
}

// Members implements [backend.Tx].
func (tx *Tx) Members(ctx context.Context, group backend.ID) (sides []*backend.Endpoint, err error) {
	err = tx.read(ctx, func(l *look) error {
		for _, e := range l.members(group) {
			v := l.shown(e)
			sides = append(sides, &v)
		}
		return nil
	})
	return sides, err
}

// members returns the sides that are in a group.
func (l *look) members(group backend.ID) (sides []endpoint) {
	for k := range scan(l, members, key(group)) {
		if e, ok := l.endpoint(idAt(k, 16)); ok {
			sides = append(sides, e)
		}
	}
	return sides
}

// shown is a side as callers see it.
func (l *look) shown(e endpoint) backend.Endpoint {
	v := e.Endpoint
	out := l.stream(e.Handle)
	v.State, v.Error = l.state(e)
	v.FarCleaned = l.farCleaned(e)
	v.NextSeq, v.Sealed, v.Lifetime = out.Next, out.Sealed, 0
	if !e.Deadline.IsZero() {
		v.Lifetime = max(e.Deadline.Sub(l.now()), 1)
	}
	return v
}

// state is worked out from what both sides have left behind.
func (l *look) state(e endpoint) (backend.State, *backend.DialogError) {
	far, _ := l.endpoint(e.FarHandle)
	var err *backend.DialogError
	if far.Closed != nil {
		err = far.Closed.Error
	}
	if e.Trouble != nil && (err == nil || e.Trouble.N < far.Closed.N) {
		err = &e.Trouble.Error
	}
	switch {
	case e.Closed != nil && (far.Closed != nil || l.alone(e)):
		return backend.Closed, nil
	case e.Closed != nil:
		return backend.DisconnectedOutbound, nil
	case err != nil:
		return backend.Errored, err
	case far.Closed != nil:
		return backend.DisconnectedInbound, nil
	case e.Initiator && l.stream(e.Handle).Next == 0:
		return backend.StartedOutbound, nil
	}
	return backend.Conversing, nil
}

// alone reports whether there is no other side, and nothing waits that could bring it about.
func (l *look) alone(e endpoint) bool {
	if has(l, endpoints, key(e.FarHandle)) {
		return false
	}
	return l.farCleaned(e) || !l.withholds(e.Handle)
}

// farCleaned reports whether there was another side, which was cleaned up.
func (l *look) farCleaned(e endpoint) bool {
	return l.stream(e.Handle).Accepted && !has(l, endpoints, key(e.FarHandle))
}

// Notice implements [backend.Tx].
func (tx *Tx) Notice(ctx context.Context, n backend.Notice) error {
	return tx.write(ctx, func(l *look) error {
		e, ok := l.endpoint(n.To)
		switch {
		case !ok:
			return backend.ErrNoConversation
		case e.Closed != nil:
		case n.Kind == backend.KindError:
			l.fail(e, *n.Error)
		default:
			l.notify(e, message{ID: backend.NewID(), Kind: n.Kind}, nil)
		}
		return nil
	})
}

// fail puts a side in error, if it is not yet, and tells it.
func (l *look) fail(e endpoint, err backend.DialogError) {
	if e.Trouble == nil {
		e.Trouble = &trouble{err, l.next("serial")}
		l.putEndpoint(e)
	}
	l.notify(e, message{ID: backend.NewID(), Kind: backend.KindError}, err.Body())
}

// notify gives a side a message in a separate stream.
func (l *look) notify(to endpoint, m message, body []byte) {
	id := backend.NewID()
	m.Type = m.Kind.Type()
	l.putStream(id, stream{Reader: to.Handle, Accepted: true, Queue: to.Queue, Priority: to.Priority})
	put(l, notices, key(to.Handle, id), none{})
	l.append(id, m, body)
}

// SetTimer implements [backend.Tx].
func (tx *Tx) SetTimer(ctx context.Context, handle backend.ID, after time.Duration) error {
	return tx.write(ctx, func(l *look) error {
		e, ok := l.endpoint(handle)
		switch {
		case !ok:
			return backend.ErrNoConversation
		case e.Closed != nil:
			return backend.ErrEnded
		}
		l.stopTimer(&e)
		if after > 0 {
			e.Timer = l.now().Add(after)
			l.due(backend.JobTimers, e.Timer, key(handle))
		}
		l.putEndpoint(e)
		return nil
	})
}

func (l *look) stopTimer(e *endpoint) {
	l.notDue(backend.JobTimers, e.Timer, key(e.Handle))
	e.Timer = time.Time{}
}
