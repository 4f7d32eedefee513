package bolt

import (
	"bytes"
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// What is due at some instant has an entry in the table dues, by job and instant. An entry whose
// cause is gone does nothing.

func dueKey(job backend.Job, at time.Time, what []byte) []byte {
	return key(byte(job), at.UnixNano(), string(what))
}

func (l *look) due(job backend.Job, at time.Time, what []byte) {
	put(l, dues, dueKey(job, at, what), none{})
}

func (l *look) notDue(job backend.Job, at time.Time, what []byte) {
	if !at.IsZero() {
		remove(l, dues, dueKey(job, at, what))
	}
}

// Maintain implements [backend.Backend].
func (h *Handle) Maintain(ctx context.Context, job backend.Job, limit int) (done backend.Maintained, err error) {
	idle := false
	err = h.view(ctx, func(l *look) error {
		if err := l.versions().check(); err != nil {
			return err
		}
		done.Next, idle = l.nothing(job)
		return nil
	})
	if err != nil || idle {
		return done, err
	}
	err = h.update(ctx, func(l *look) error {
		done = l.maintain(job, max(limit, 1))
		return nil
	})
	return done, err
}

// nothing reports whether a job has nothing to do now, so that it needs no turn to write.
func (l *look) nothing(job backend.Job) (next time.Duration, idle bool) {
	if job == backend.JobGroups || job == backend.JobWorkers {
		return 0, false
	}
	k, _, ok := first(l, dues, key(byte(job)))
	if !ok {
		return 0, true
	}
	next = time.Unix(0, numberAt(k, 1)).Sub(l.now())
	return max(next, time.Millisecond), next > 0
}

func (l *look) maintain(job backend.Job, limit int) (done backend.Maintained) {
	switch job {
	case backend.JobMarkers: // hidden groups leave the ready order at once
		return done
	case backend.JobGroups:
		done.Moved, done.Next = l.sweepGroups(limit)
		return done
	case backend.JobWorkers:
		done.Moved = l.sweepReaders()
		return done
	}
	now := l.now().UnixNano()
	for k := range walk(l, dues, key(byte(job))) {
		at := numberAt(k, 1)
		switch {
		case at > now:
			done.Next = soonest(done.Next, time.Duration(at-now))
			return done
		case done.Moved >= limit:
			done.Next = time.Millisecond
			return done
		}
		did, later := l.perform(job, at, k[9:])
		if later { // what hinders it is not ours
			done.Next = soonest(done.Next, 100*time.Millisecond)
			continue
		}
		remove(l, dues, k)
		if did {
			done.Moved++
		}
	}
	return done
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b < a {
		return b
	}
	return a
}

// waiting reports whether an entry is of something that is still to be done, and whether it can
// be done now.
func (l *look) waiting(job backend.Job, at int64, what []byte) (is, can bool) {
	same := func(t time.Time) bool { return t.UnixNano() == at }
	switch job {
	case backend.JobDelayed:
		p, _ := get(l, posts, what)
		return p.State == "delayed" && same(p.Until), !l.disabled(p.Queue)
	case backend.JobProcessed:
		p, _ := get(l, posts, what)
		return p.State == "processed" && same(p.Until), true
	case backend.JobOnce:
		until, ok := get(l, once, what)
		return ok && same(until), true
	case backend.JobDeferred:
		g, ok := get(l, groups, what)
		return ok && !g.Parked && same(g.Deferred), true
	}
	e, ok := get(l, endpoints, what)
	if !ok {
		return false, false
	}
	state, _ := l.state(e)
	switch job {
	case backend.JobTimers:
		return e.Closed == nil && same(e.Timer), true
	case backend.JobLifetimes:
		return state == backend.StartedOutbound || state == backend.Conversing, true
	default: // JobClosed
		far, _ := l.endpoint(e.FarHandle)
		return state == backend.Closed, l.free(e.Group) && l.free(far.Group)
	}
}

// perform does what is due, and reports whether there was something, or that it has to wait.
func (l *look) perform(job backend.Job, at int64, what []byte) (did, later bool) {
	is, can := l.waiting(job, at, what)
	if !is || !can {
		return false, is
	}
	id := idAt(append(bytes.Clone(what), make([]byte, 16)...), 0)
	switch job {
	case backend.JobDelayed:
		p, _ := get(l, posts, what)
		l.joinQueue(p)
	case backend.JobProcessed:
		l.removePost(id)
	case backend.JobOnce:
		remove(l, once, what)
	case backend.JobDeferred:
		l.show(id, l.next("arrivals"))
	case backend.JobTimers:
		e, _ := l.endpoint(id)
		e.Timer = time.Time{}
		l.putEndpoint(e)
		l.notify(e, message{ID: backend.NewID(), Kind: backend.KindTimer}, nil)
	case backend.JobLifetimes:
		e, _ := l.endpoint(id)
		l.fail(e, backend.DialogError{Code: backend.CodeLifetime, Text: "the conversation's lifetime is over"})
	case backend.JobClosed:
		e, _ := l.endpoint(id)
		l.removeConversation(e)
	}
	return true, false
}

// sweepGroups removes groups that nothing refers to.
func (l *look) sweepGroups(limit int) (moved int, next time.Duration) {
	for k := range walk(l, groups, nil) {
		id := idAt(k, 0)
		g, _ := get(l, groups, k)
		if _, _, inUse := first(l, members, k); inUse || g.Posts > 0 || l.alive(g.Lease) {
			continue
		}
		if moved == limit {
			return moved, time.Millisecond
		}
		if g.Service == "" {
			l.removeStream(id)
		}
		l.removeGroup(id)
		moved++
	}
	return moved, 0
}

// Overdue implements [backend.Backend].
func (h *Handle) Overdue(ctx context.Context) (map[backend.Job]time.Duration, error) {
	overdue := make(map[backend.Job]time.Duration)
	err := h.view(ctx, func(l *look) error {
		now := l.now().UnixNano()
		for job := range backend.Job(backend.JobCount) {
			for k := range scan(l, dues, key(byte(job))) {
				at := numberAt(k, 1)
				if at >= now {
					break
				}
				if is, can := l.waiting(job, at, k[9:]); is && can {
					overdue[job] = time.Duration(now - at)
					break
				}
			}
		}
		return nil
	})
	return overdue, err
}
