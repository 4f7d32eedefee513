package bolt

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// failure is what is known of a message that could not be handled.
type failure struct {
	Attempts int
	Deaths   int
	Error    string
	Errors   []backend.FailedAttempt
}

// Settle implements [backend.Tx]. The ready order is always right here: again is never true.
func (tx *Tx) Settle(ctx context.Context, outcomes []backend.Outcome) (again bool, err error) {
	return false, tx.write(ctx, func(l *look) error {
		for _, o := range outcomes {
			if err := tx.settle(l, o); err != nil {
				return err
			}
		}
		return nil
	})
}

func (tx *Tx) settle(l *look, o backend.Outcome) error {
	if err := tx.own(l, o.Hold); err != nil {
		return err
	}
	touched := make(map[backend.ID]bool)
	for _, m := range o.Hold.Messages {
		touched[m.Stream] = true
	}
	for _, m := range o.Done {
		touched[m.Stream] = true
		if !tx.acknowledge(l, o.Hold, m, o.Retain, o.Keep) {
			return backend.ErrFenced
		}
	}
	for _, d := range o.Dead {
		touched[d.Message.Stream] = true
		if !tx.acknowledge(l, o.Hold, d.Message, o.Retain, 0) {
			return backend.ErrFenced
		}
		l.bury(o.Hold.Queue, *d.Message, d.Reason)
	}
	if f := o.Failure; f != nil {
		put(l, failures, key(f.Message.ID), failure{f.Attempts, f.Deaths, f.Error, backend.KeepAttempts(f.Errors, l.now())})
	}
	if g, ok := get(l, groups, key(o.Hold.Group)); ok {
		g.Lease = nil
		switch {
		case o.Park != "":
			g.Parked, g.Reason, g.Since = true, o.Park, l.now()
		case o.Defer > 0:
			g.Deferred, g.Since, g.Reason = l.now().Add(o.Defer), l.now(), ""
			if o.Failure != nil {
				g.Reason = o.Failure.Error
			}
			l.due(backend.JobDeferred, g.Deferred, key(o.Hold.Group))
		}
		l.putGroup(o.Hold.Group, g)
		if g.hidden() {
			l.markAll(o.Hold.Group)
		}
	}
	for id := range touched {
		l.mark(id)
	}
	tx.letGo(l, o.Hold.Group)
	tx.settled = append(tx.settled, o.Hold.Fence)
	return nil
}

// acknowledge removes a message that was delivered and reports whether it was there. If it was
// not, another receiver has had it, and nothing that was done for it may be committed.
func (tx *Tx) acknowledge(l *look, hold *backend.Hold, m *backend.Message, retain bool, keep time.Duration) bool {
	k := key(m.Stream, m.Seq)
	row, ok := get(l, messages, k)
	if !ok {
		return tx.dropped[string(k)] // this transaction has ended the conversation
	}
	if row.ID != m.ID { // another one, of a stream that was made again
		return false
	}
	l.take(messages, k)
	remove(l, failures, key(m.ID))
	if retain && !m.Handle.IsZero() {
		l.retain(m.Handle, backend.RetainedMessage{Message: *m})
	}
	if p, ok := get(l, posts, key(m.ID)); ok {
		l.gone(p, keep)
	}
	if !m.Handle.IsZero() && remove(l, notices, key(m.Handle, m.Stream)) {
		l.removeStream(m.Stream)
	}
	if since, ok := hold.Private.(int64); ok { // a promotion ends with the first that it served
		if p, ok := get(l, promotions, key(hold.Group)); ok && p.Since == since && !p.Sticky && (!p.Empty || !l.waits(hold.Group)) {
			remove(l, promotions, key(hold.Group))
		}
	}
	return true
}

// Keep implements [backend.Tx].
func (tx *Tx) Keep(ctx context.Context, hold *backend.Hold, d time.Duration, owner string) error {
	return tx.write(ctx, func(l *look) error {
		g, ok := get(l, groups, key(hold.Group))
		if !ok || !tx.has(hold.Group) {
			return backend.ErrFenced
		}
		g.Lease = tx.newLease(l, d, owner)
		l.putGroup(hold.Group, g)
		hold.Fence = g.Lease.Fence
		return nil
	})
}
