package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// party is an owner of application locks: a transaction or a session.
type party struct {
	name  string
	wants *lock         // the lock of a transaction that it waits for
	lease time.Duration // of a session; zero: a transaction
	until time.Time
	over  error // its locks are gone, and why
}

// resource is the lock of one name: who holds it and who waits, in order.
type resource struct {
	name    string
	granted []*grant
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

func (r *resource) grantOf(p *party) *grant {
	for _, g := range r.granted {
		if g.party == p {
			return g
		}
	}
	return nil
}

// against returns the owners that a request has to wait for: other holders of the lock in
// incompatible modes. Unless its owner already holds the lock, the request also waits for earlier
// requests of other owners. The latter is what keeps readers that come and go from starving a
// writer.
func (r *resource) against(q *request) []*party {
	var found []*party
	for _, g := range r.granted {
		if g.party != q.party && !q.mode.Compatible(g.mode) {
			found = append(found, g.party)
		}
	}
	if r.grantOf(q.party) != nil {
		return found
	}
	for _, ahead := range r.waiting {
		if ahead == q {
			break
		}
		if ahead.party != q.party && !q.mode.Compatible(ahead.mode) {
			found = append(found, ahead.party)
		}
	}
	return found
}

// grantable is against with the faults.
func (s *Store) grantable(r *resource, q *request) bool {
	for _, other := range r.against(q) {
		g := r.grantOf(other)
		if s.fault == FaultLockBarges && g == nil {
			continue
		}
		if s.fault == FaultSharedAndIntent && g != nil && q.mode|g.mode == backend.LockSIX {
			continue
		}
		return false
	}
	return true
}

// resource returns the lock of a name, an empty one if no owner has it.
func (s *Store) resource(name string) *resource {
	if s.fault == FaultLockFoldsCase {
		name = strings.ToLower(name)
	}
	if r := s.resources[name]; r != nil {
		return r
	}
	return &resource{name: name}
}

// tidy forgets a lock that no owner has or wants.
func (s *Store) tidy(r *resource) {
	if len(r.granted) == 0 && len(r.waiting) == 0 {
		delete(s.resources, r.name)
	}
}

// acquire waits for a lock. The mutex is held.
func (s *Store) acquire(ctx context.Context, p *party, name string, mode backend.LockMode, wait time.Duration) (backend.Grant, error) {
	if mode <= 0 || mode >= backend.LockX<<1 {
		return backend.Grant{}, fmt.Errorf("parley: memory: lock %q: no mode %d", name, mode)
	}
	if n := utf8.RuneCountInString(name); n > backend.MaxLockName {
		return backend.Grant{}, fmt.Errorf("parley: memory: a lock's name of %d characters", n)
	}
	asked := time.Now() // waiting takes real time, whatever the store's clock says
	r := s.resource(name)
	q := &request{party: p, mode: mode, since: s.now()}
	s.resources[r.name] = r
	r.waiting = append(r.waiting, q)
	defer func() {
		r.waiting = slices.DeleteFunc(r.waiting, func(other *request) bool { return other == q })
		s.tidy(r)
		s.signal() // who is behind may go on now
	}()

	for waited := false; ; waited = true {
		if err := s.expire(p); err != nil {
			return backend.Grant{}, err
		}
		if s.grantable(r, q) {
			g := s.grant(r, q)
			return backend.Grant{Waited: waited, Mode: g.mode, Fence: g.fence}, nil
		}
		if wait == 0 {
			return backend.Grant{}, backend.ErrLockTimeout
		}
		if s.fault != FaultDeadlockUnseen && s.deadlocked(p) {
			return backend.Grant{}, backend.ErrLockDeadlock
		}
		nap := expiryTick // sessions end by themselves, without a signal
		if wait > 0 {
			left := wait - time.Since(asked)
			if left <= 0 {
				return backend.Grant{}, backend.ErrLockTimeout
			}
			nap = min(nap, left)
		}
		if err := s.sleep(ctx, nap); err != nil {
			return backend.Grant{}, err
		}
	}
}

// expiryTick is how often a waiter looks whether a session has expired.
const expiryTick = 10 * time.Millisecond

func (s *Store) grant(r *resource, q *request) *grant {
	g := r.grantOf(q.party)
	if g == nil {
		s.fence++
		g = &grant{party: q.party, fence: s.fence, since: s.now()}
		r.granted = append(r.granted, g)
	}
	g.count++
	g.mode |= q.mode
	if s.fault == FaultLockModeLost {
		g.mode = q.mode
	}
	return g
}

// release undoes one acquire. The mode is kept to the end: there is no way to
// tell which request it came from.
func (s *Store) release(p *party, name string) error {
	r := s.resource(name)
	g := r.grantOf(p)
	if g == nil {
		return backend.ErrNotLocked
	}
	g.count--
	if g.count == 0 || s.fault == FaultReleaseFrees {
		r.granted = slices.DeleteFunc(r.granted, func(other *grant) bool { return other == g })
		s.tidy(r)
		s.signal()
	}
	return nil
}

// dismiss ends a party: its locks are free.
func (s *Store) dismiss(p *party) {
	if p.over != nil {
		return
	}
	p.over = backend.ErrTxDone
	if s.fault == FaultLockOutlivesTx && p.lease == 0 {
		return
	}
	for _, r := range s.resources {
		r.granted = slices.DeleteFunc(r.granted, func(g *grant) bool { return g.party == p })
		s.tidy(r)
	}
}

// expire ends all sessions whose lease is over, and says whether p is.
func (s *Store) expire(p *party) error {
	var late []*party
	for _, r := range s.resources {
		for _, g := range r.granted {
			if g.party.lease > 0 && !g.party.until.After(s.now()) {
				late = append(late, g.party)
			}
		}
	}
	if p != nil && p.lease > 0 && !p.until.After(s.now()) {
		late = append(late, p)
	}
	for _, p := range late {
		if s.fault == FaultSessionForever {
			break
		}
		s.dismiss(p)
		p.over = backend.ErrFenced
	}
	if p != nil {
		return p.over
	}
	return nil
}

func (s *Store) lockMode(p *party, name string) backend.LockMode {
	if g := s.resource(name).grantOf(p); g != nil {
		return g.mode
	}
	return backend.LockNone
}

func (s *Store) lockTest(p *party, name string, mode backend.LockMode) bool {
	return s.grantable(s.resource(name), &request{party: p, mode: mode})
}

// A transaction as an owner.

// Lock implements [backend.Locker].
func (tx *Tx) Lock(ctx context.Context, name string, mode backend.LockMode, wait time.Duration) (backend.Grant, error) {
	if err := tx.enter(ctx); err != nil {
		return backend.Grant{}, err
	}
	defer tx.leave()
	return tx.store.acquire(ctx, tx.party, name, mode, wait)
}

// Fence implements [backend.TxLocks].
func (tx *Tx) Fence(ctx context.Context, name string, fence int64) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	if err := tx.lock(ctx, lock{kind: lockFence, name: name}); err != nil {
		return err
	}
	if passed, ok := tx.store.fences.get(tx, name); ok && passed > fence && tx.store.fault != FaultLockFencePasses {
		return backend.ErrFenced
	}
	tx.store.fences.put(tx, name, fence)
	return nil
}

// Unlock implements [backend.Locker].
func (tx *Tx) Unlock(ctx context.Context, name string) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	return tx.store.release(tx.party, name)
}

// HeldMode implements [backend.Locker].
func (tx *Tx) HeldMode(ctx context.Context, name string) (backend.LockMode, error) {
	if err := tx.enter(ctx); err != nil {
		return backend.LockNone, err
	}
	defer tx.leave()
	return tx.store.lockMode(tx.party, name), nil
}

// LockTest implements [backend.Locker].
func (tx *Tx) LockTest(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	if err := tx.enter(ctx); err != nil {
		return false, err
	}
	defer tx.leave()
	_ = tx.store.expire(nil)
	return tx.store.lockTest(tx.party, name, mode), nil
}

// session is a [backend.Session].
type session struct {
	handle *Handle
	party  *party
}

// OpenSession implements [backend.Locks].
func (h *Handle) OpenSession(ctx context.Context, lease time.Duration, owner string) (backend.Session, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := &session{h, &party{name: owner, lease: max(lease, 1), until: h.store.now().Add(lease)}}
	h.sessions[s] = struct{}{}
	return s, nil
}

func (s *session) enter(ctx context.Context) error {
	if err := s.handle.enter(ctx); err != nil {
		return err
	}
	if err := s.handle.store.expire(s.party); err != nil {
		s.handle.leave()
		return err
	}
	return nil
}

func (s *session) leave() { s.handle.leave() }

// Lock implements [backend.Locker].
func (s *session) Lock(ctx context.Context, name string, mode backend.LockMode, wait time.Duration) (backend.Grant, error) {
	if err := s.enter(ctx); err != nil {
		return backend.Grant{}, err
	}
	defer s.leave()
	return s.handle.store.acquire(ctx, s.party, name, mode, wait)
}

// Unlock implements [backend.Locker].
func (s *session) Unlock(ctx context.Context, name string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.handle.store.release(s.party, name)
}

// HeldMode implements [backend.Locker].
func (s *session) HeldMode(ctx context.Context, name string) (backend.LockMode, error) {
	if err := s.enter(ctx); err != nil {
		return backend.LockNone, err
	}
	defer s.leave()
	return s.handle.store.lockMode(s.party, name), nil
}

// LockTest implements [backend.Locker].
func (s *session) LockTest(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.leave()
	return s.handle.store.lockTest(s.party, name, mode), nil
}

// Renew implements [backend.Session].
func (s *session) Renew(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.party.until = s.handle.store.now().Add(s.party.lease)
	return nil
}

// Close implements [backend.Session].
func (s *session) Close(context.Context) error {
	s.handle.store.mu.Lock()
	defer s.handle.store.mu.Unlock()
	s.end()
	delete(s.handle.sessions, s)
	return nil
}

func (s *session) end() {
	if s.party.over == nil {
		s.handle.store.dismiss(s.party)
		s.party.over = backend.ErrClosed
		s.handle.store.signal()
	}
}

// AppLocks implements [backend.Locks].
func (h *Handle) AppLocks(ctx context.Context, prefix string) ([]backend.AppLock, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	defer h.leave()
	s := h.store
	_ = s.expire(nil)
	var list []backend.AppLock
	for name, r := range s.resources {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for _, g := range r.granted {
			list = append(list, backend.AppLock{
				Name: name, Owner: g.party.name, Mode: g.mode, Count: g.count, Fence: g.fence, For: s.age(g.since),
			})
		}
		for _, q := range r.waiting {
			list = append(list, backend.AppLock{
				Name: name, Owner: q.party.name, Mode: q.mode, Waiting: true, For: s.age(q.since),
			})
		}
	}
	// Within a name the order is that in which they came: holders, then waiters.
	slices.SortStableFunc(list, func(a, b backend.AppLock) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}
