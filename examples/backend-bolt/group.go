package bolt

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// group is what a receiver holds.
type group struct {
	Queue    int64
	Service  string // "": posts
	Key      string
	Post     bool // a post without key
	Posts    int  // delayed or pending ones
	Lease    *lease
	Deferred time.Time // hidden until JobDeferred finds that this is over
	Parked   bool
	Reason   string
	Since    time.Time // deferred or parked since
	Returned int64     // its last deferral was over when the next message had this arrival
}

// lease is a hold that outlives its transaction. How long it lasts since it was extended is
// known in memory only: the process that holds it has the file to itself.
type lease struct {
	Fence  int64
	Owner  string
	Length time.Duration
	Since  time.Time
	Until  time.Time
}

// hidden reports whether claims pass a group.
func (g group) hidden() bool { return g.Parked || !g.Deferred.IsZero() }

// end is when a lease ends.
func (f *file) end(l *lease) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if later := f.until[l.Fence]; later.After(l.Until) {
		return later
	}
	return l.Until
}

func (l *look) alive(x *lease) bool { return x != nil && l.f.end(x).After(l.now()) }

// free reports whether no receiver has a group by lease.
func (l *look) free(id backend.ID) bool {
	g, _ := get(l, groups, key(id))
	return !l.alive(g.Lease)
}

func (l *look) putGroup(id backend.ID, g group) { put(l, groups, key(id), g) }

func (l *look) removeGroup(id backend.ID) {
	if g, ok := get(l, groups, key(id)); ok {
		l.notDue(backend.JobDeferred, g.Deferred, key(id))
	}
	remove(l, groups, key(id))
	remove(l, promotions, key(id))
}

// newLease makes a lease that begins when the transaction commits.
func (tx *Tx) newLease(l *look, d time.Duration, owner string) *lease {
	now := l.now()
	x := &lease{Fence: l.next("fences"), Owner: owner, Length: d, Since: now, Until: now.Add(d)}
	tx.leases[x.Fence] = d
	return x
}

// has reports whether a group is this transaction's.
func (tx *Tx) has(id backend.ID) bool { return tx.locked[id] }

// tryGroup takes a group, unless another receiver has it by lease.
func (tx *Tx) tryGroup(l *look, id backend.ID) bool {
	g, ok := get(l, groups, key(id))
	if ok && !tx.locked[id] && l.alive(g.Lease) {
		return false
	}
	tx.locked[id] = true
	return true
}

// join checks that something may be put into a group, and makes the group if it is to be new.
func (tx *Tx) join(l *look, id backend.ID, want group, fresh bool) error {
	g, ok := get(l, groups, key(id))
	switch {
	case fresh && ok:
		return backend.ErrGroupBusy
	case fresh:
		l.putGroup(id, want)
		tx.locked[id] = true
		return nil
	case !ok:
		return backend.ErrNoGroup
	case !tx.has(id):
		return backend.ErrGroupBusy
	case g.Queue != want.Queue || g.Service != want.Service:
		return backend.ErrGroupElsewhere
	}
	return nil
}

// LockGroup implements [backend.Tx]. Waiting is futile: the receiver that has the group cannot
// settle while this transaction has the turn.
func (tx *Tx) LockGroup(ctx context.Context, id backend.ID) error {
	return tx.write(ctx, func(l *look) error {
		switch {
		case !has(l, groups, key(id)):
			return backend.ErrNoGroup
		case !tx.tryGroup(l, id):
			return backend.ErrWouldDeadlock
		}
		return nil
	})
}

// Move implements [backend.Tx].
func (tx *Tx) Move(ctx context.Context, handle, to backend.ID, fresh bool) error {
	return tx.write(ctx, func(l *look) error {
		e, ok := l.endpoint(handle)
		switch {
		case !ok:
			return backend.ErrNoConversation
		case e.Closed != nil:
			return backend.ErrEnded
		case !tx.has(e.Group):
			return backend.ErrGroupBusy
		}
		if err := tx.join(l, to, group{Queue: e.Queue, Service: e.Service}, fresh); err != nil {
			return err
		}
		remove(l, members, key(e.Group, handle))
		e.Group = to
		l.putEndpoint(e)
		for _, id := range l.readBy(e) {
			l.mark(id)
		}
		return nil
	})
}

// Unpark implements [backend.Tx].
func (tx *Tx) Unpark(ctx context.Context, id backend.ID) error {
	return tx.write(ctx, func(l *look) error {
		if !has(l, groups, key(id)) {
			return backend.ErrNoGroup
		}
		if !tx.tryGroup(l, id) {
			return backend.ErrGroupBusy
		}
		l.show(id, 0)
		return nil
	})
}

// show makes a group ready that was parked or deferred. Its place in the order is not before returned.
func (l *look) show(id backend.ID, returned int64) {
	g, _ := get(l, groups, key(id))
	l.notDue(backend.JobDeferred, g.Deferred, key(id))
	g.Parked, g.Deferred, g.Reason, g.Since, g.Returned = false, time.Time{}, "", time.Time{}, returned
	l.putGroup(id, g)
	l.markAll(id)
}

func (l *look) markAll(id backend.ID) {
	for _, stream := range l.homed(id) {
		l.mark(stream)
	}
}

// promotion raises a group. It outlives a time in which the group is held or has no message.
type promotion struct {
	Queue  int64
	Level  int
	Sticky bool
	Empty  bool  // it stays until the group is empty
	Since  int64 // also tells it from the promotion that replaces it
}

// Promote implements [backend.Tx].
func (tx *Tx) Promote(ctx context.Context, p backend.Promotion) error {
	return tx.write(ctx, func(l *look) error {
		if p.Group.IsZero() {
			p.Group = keyStream(p.Queue, p.Key)
		}
		g, ok := get(l, groups, key(p.Group))
		if !ok {
			return backend.ErrNoGroup
		}
		put(l, promotions, key(p.Group), promotion{g.Queue, p.Level, p.Sticky, p.UntilEmpty, l.next("serial")})
		return nil
	})
}

// Demote implements [backend.Tx].
func (tx *Tx) Demote(ctx context.Context, id backend.ID) error {
	return tx.write(ctx, func(l *look) error {
		remove(l, promotions, key(id))
		return nil
	})
}

// promoted returns the promoted groups of a queue, best first.
func (l *look) promoted(queue int64) (ids []backend.ID) {
	rows := list(l, promotions, nil)
	rows = slices.DeleteFunc(rows, func(r row[promotion]) bool { return r.V.Queue != queue })
	slices.SortFunc(rows, func(a, b row[promotion]) int {
		return cmp.Or(cmp.Compare(b.V.Level, a.V.Level), cmp.Compare(a.V.Since, b.V.Since))
	})
	for _, r := range rows {
		ids = append(ids, idAt(r.key, 0))
	}
	return ids
}
