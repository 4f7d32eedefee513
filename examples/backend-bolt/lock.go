package bolt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// locks are the application locks of a file. They are in memory, as the process that has the
// file has all owners.
type locks struct {
	mu      sync.Mutex
	changed chan struct{} // is closed when something was released
	fence   int64
	names   map[string]*named
}

func (k *locks) init(fence int64) {
	k.fence, k.changed, k.names = fence, make(chan struct{}), make(map[string]*named)
}

// party is an owner: a transaction or a session.
type party struct {
	name  string
	lease time.Duration // of a session
	until time.Time     // of a session
	over  error         // its locks are gone, and why
}

// named is the lock of one name: who has it, and who waits, in order.
type named struct {
	held    []*grant
	waiting []*request
}

type grant struct {
	party *party
	mode  backend.LockMode // the union of what was asked for
	count int
	fence int64
	since time.Time
}

type request struct {
	party *party
	mode  backend.LockMode
	since time.Time
}

func (n *named) of(p *party) *grant {
	for _, g := range n.held {
		if g.party == p {
			return g
		}
	}
	return nil
}

// against returns the owners that a request waits for: other owners that hold an incompatible mode.
// Unless its owner already has the lock, it also waits for earlier requests of incompatible modes.
func (n *named) against(q *request) (found []*party) {
	for _, g := range n.held {
		if g.party != q.party && !q.mode.Compatible(g.mode) {
			found = append(found, g.party)
		}
	}
	if n.of(q.party) != nil {
		return found
	}
	for _, ahead := range n.waiting {
		if ahead == q {
			break
		}
		if ahead.party != q.party && !q.mode.Compatible(ahead.mode) {
			found = append(found, ahead.party)
		}
	}
	return found
}

func (k *locks) named(name string) *named {
	if n := k.names[name]; n != nil {
		return n
	}
	n := new(named)
	k.names[name] = n
	return n
}

func (k *locks) tidy(name string) {
	if n := k.names[name]; n != nil && len(n.held) == 0 && len(n.waiting) == 0 {
		delete(k.names, name)
	}
}

func (k *locks) signal() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// lock waits for a lock; futile says that waiting cannot bring it about.
func (k *locks) lock(ctx context.Context, gone <-chan struct{}, p *party, name string, mode backend.LockMode,
	wait time.Duration, futile bool,
) (backend.Grant, error) {
	if mode <= 0 || mode >= backend.LockX<<1 {
		return backend.Grant{}, fmt.Errorf("bolt: lock %q: there is no mode %d", name, mode)
	}
	if n := utf8.RuneCountInString(name); n > backend.MaxLockName {
		return backend.Grant{}, fmt.Errorf("bolt: the name of a lock has %d characters, at most %d", n, backend.MaxLockName)
	}
	asked := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	n, q := k.named(name), &request{p, mode, asked}
	n.waiting = append(n.waiting, q)
	defer func() {
		n.waiting = slices.DeleteFunc(n.waiting, func(other *request) bool { return other == q })
		k.tidy(name)
		k.signal()
	}()
	for waited := false; ; waited = true {
		if err := k.expire(p); err != nil {
			return backend.Grant{}, err
		}
		left := wait - time.Since(asked)
		switch {
		case len(n.against(q)) == 0:
			g := k.grant(n, q)
			return backend.Grant{Waited: waited, Mode: g.mode, Fence: g.fence}, nil
		case wait == 0 || wait > 0 && left <= 0:
			return backend.Grant{}, backend.ErrLockTimeout
		case futile:
			return backend.Grant{}, fmt.Errorf("%w: %w", backend.ErrLockTimeout, backend.ErrWouldDeadlock)
		case k.cycle(p):
			return backend.Grant{}, backend.ErrLockDeadlock
		}
		if err := k.sleep(ctx, gone, wait < 0, left); err != nil {
			return backend.Grant{}, err
		}
	}
}

// sleep waits until something was released. Leases of sessions end without a signal.
func (k *locks) sleep(ctx context.Context, gone <-chan struct{}, forever bool, left time.Duration) error {
	nap := 10 * time.Millisecond
	if !forever {
		nap = min(nap, left)
	}
	timer := time.NewTimer(nap)
	defer timer.Stop()
	changed := k.changed
	k.mu.Unlock()
	defer k.mu.Lock()
	select {
	case <-changed:
	case <-timer.C:
	case <-gone:
		return backend.ErrTxDone
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (k *locks) grant(n *named, q *request) *grant {
	g := n.of(q.party)
	if g == nil {
		k.fence++
		g = &grant{party: q.party, fence: k.fence, since: time.Now()}
		n.held = append(n.held, g)
	}
	g.count++
	g.mode |= q.mode
	return g
}

// cycle reports whether a party waits for itself.
func (k *locks) cycle(p *party) bool {
	seen := make(map[*party]bool)
	var reaches func(from *party) bool
	reaches = func(from *party) bool {
		for _, n := range k.names {
			for _, q := range n.waiting {
				if q.party != from {
					continue
				}
				for _, next := range n.against(q) {
					if next == p {
						return true
					}
					if !seen[next] {
						seen[next] = true
						if reaches(next) {
							return true
						}
					}
				}
			}
		}
		return false
	}
	return reaches(p)
}

// expire ends sessions whose lease is over, and says whether p is.
func (k *locks) expire(p *party) error {
	now := time.Now()
	late := func(p *party) bool { return p != nil && p.lease > 0 && p.over == nil && !p.until.After(now) }
	for _, n := range k.names {
		for _, g := range slices.Clone(n.held) {
			if late(g.party) {
				k.drop(g.party, backend.ErrFenced)
			}
		}
	}
	if late(p) {
		k.drop(p, backend.ErrFenced)
	}
	if p == nil {
		return nil
	}
	return p.over
}

// drop ends an owner.
func (k *locks) drop(p *party, why error) {
	if p.over != nil {
		return
	}
	p.over = why
	for name, n := range k.names {
		n.held = slices.DeleteFunc(n.held, func(g *grant) bool { return g.party == p })
		k.tidy(name)
	}
	k.signal()
}

func (k *locks) dismiss(p *party, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(p, why)
}

// with calls do for an owner that is not over.
func (k *locks) with(p *party, do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.expire(p); err != nil {
		return err
	}
	return do()
}

func (k *locks) unlock(p *party, name string) error {
	return k.with(p, func() error {
		defer k.tidy(name)
		n := k.named(name)
		g := n.of(p)
		if g == nil {
			return backend.ErrNotLocked
		}
		if g.count--; g.count == 0 {
			n.held = slices.DeleteFunc(n.held, func(other *grant) bool { return other == g })
			k.signal()
		}
		return nil
	})
}

func (k *locks) mode(p *party, name string) (mode backend.LockMode, err error) {
	return mode, k.with(p, func() error {
		defer k.tidy(name)
		if g := k.named(name).of(p); g != nil {
			mode = g.mode
		}
		return nil
	})
}

func (k *locks) test(p *party, name string, mode backend.LockMode) (free bool, err error) {
	err = k.with(p, func() error {
		defer k.tidy(name)
		free = len(k.named(name).against(&request{party: p, mode: mode})) == 0
		return nil
	})
	return free, err
}

// A transaction as an owner.

// Lock implements [backend.Locker].
func (tx *Tx) Lock(ctx context.Context, name string, mode backend.LockMode, wait time.Duration) (backend.Grant, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.ready(ctx); err != nil {
		return backend.Grant{}, err
	}
	return tx.f.locks.lock(ctx, tx.gone, tx.party, name, mode, wait, tx.w != nil)
}

// owner calls do in a verb that needs no turn.
func (tx *Tx) owner(ctx context.Context, do func() error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.ready(ctx); err != nil {
		return err
	}
	return do()
}

// Unlock implements [backend.Locker].
func (tx *Tx) Unlock(ctx context.Context, name string) error {
	return tx.owner(ctx, func() error { return tx.f.locks.unlock(tx.party, name) })
}

// HeldMode implements [backend.Locker].
func (tx *Tx) HeldMode(ctx context.Context, name string) (mode backend.LockMode, err error) {
	err = tx.owner(ctx, func() (err error) { mode, err = tx.f.locks.mode(tx.party, name); return err })
	return mode, err
}

// LockTest implements [backend.Locker].
func (tx *Tx) LockTest(ctx context.Context, name string, mode backend.LockMode) (free bool, err error) {
	err = tx.owner(ctx, func() (err error) { free, err = tx.f.locks.test(tx.party, name, mode); return err })
	return free, err
}

// Fence implements [backend.TxLocks].
func (tx *Tx) Fence(ctx context.Context, name string, fence int64) error {
	return tx.write(ctx, func(l *look) error {
		if passed, ok := get(l, fences, key(name)); ok && passed > fence {
			return backend.ErrFenced
		}
		put(l, fences, key(name), fence)
		return nil
	})
}

// session is a [backend.Session].
type session struct {
	h     *Handle
	party *party
}

// OpenSession implements [backend.Backend].
func (h *Handle) OpenSession(ctx context.Context, lease time.Duration, owner string) (backend.Session, error) {
	if err := h.view(ctx, func(*look) error { return nil }); err != nil {
		return nil, err
	}
	s := &session{h, &party{name: owner, lease: max(lease, 1), until: time.Now().Add(lease)}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, backend.ErrClosed
	}
	h.sessions[s] = true
	return s, nil
}

// Lock implements [backend.Locker].
func (s *session) Lock(
	ctx context.Context, name string, mode backend.LockMode, wait time.Duration,
) (backend.Grant, error) {
	if err := ctx.Err(); err != nil {
		return backend.Grant{}, err
	}
	return s.h.f.locks.lock(ctx, s.h.done, s.party, name, mode, wait, false)
}

// Unlock implements [backend.Locker].
func (s *session) Unlock(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.h.f.locks.unlock(s.party, name)
}

// HeldMode implements [backend.Locker].
func (s *session) HeldMode(ctx context.Context, name string) (backend.LockMode, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return s.h.f.locks.mode(s.party, name)
}

// LockTest implements [backend.Locker].
func (s *session) LockTest(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	return s.h.f.locks.test(s.party, name, mode)
}

// Renew implements [backend.Session].
func (s *session) Renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.h.f.locks.with(s.party, func() error {
		s.party.until = time.Now().Add(s.party.lease)
		return nil
	})
}

// Close implements [backend.Session].
func (s *session) Close(context.Context) error {
	s.h.f.locks.dismiss(s.party, backend.ErrClosed)
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	delete(s.h.sessions, s)
	return nil
}

// AppLocks implements [backend.Backend].
func (h *Handle) AppLocks(ctx context.Context, prefix string) (all []backend.AppLock, err error) {
	if err := h.view(ctx, func(*look) error { return nil }); err != nil {
		return nil, err
	}
	k := &h.f.locks
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.expire(nil)
	for name, n := range k.names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for _, g := range n.held {
			all = append(all, backend.AppLock{
				Name: name, Owner: g.party.name, Mode: g.mode, Count: g.count, Fence: g.fence, For: max(time.Since(g.since), 1),
			})
		}
		for _, q := range n.waiting {
			all = append(all, backend.AppLock{
				Name: name, Owner: q.party.name, Mode: q.mode, Waiting: true, For: max(time.Since(q.since), 1),
			})
		}
	}
	slices.SortStableFunc(all, func(a, b backend.AppLock) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}
