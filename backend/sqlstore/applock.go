package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley/backend"
)

// Application locks are rows. A decision about a lock first locks the row of its name's stripe,
// which also draws the next fence. Then it reads the lock's holders and waiters. A request that has
// to wait leaves a row, whose number is its ticket, and asks again and again. Nothing here stays
// locked but the row of an owner that is a transaction. That transaction locks it on its own
// connection, so that others can tell by trying whether it is still there.
//
// A transaction on an engine with one writer needs none of this: no other
// owner can be granted anything before it ends. It looks, and remembers.

// lockOwner has locks: a session or a transaction.
type lockOwner struct {
	id     backend.ID
	kind   int
	native *nativeLocks // of the engine's own locks; nil: it has rows only
}

// The values of the column kind.
const (
	ownerSession = 0
	ownerTx      = 1
	ownerNative  = 2 // a session whose connection has locks of the engine's
)

const (
	// waitLease is how long a request waits after its owner last asked about it.
	waitLease = 10 * time.Second
	// txLease is what a transaction's lock has before it has begun to write, on
	// an engine with one writer.
	txLease = time.Minute

	lockPause    = time.Millisecond
	lockMaxPause = 20 * time.Millisecond
	// probeEvery is how often a waiter tries whether transactions that are in
	// its way have ended.
	probeEvery = 100 * time.Millisecond
	// cycleEvery is how often a waiter looks for a cycle of waiters.
	cycleEvery = 50 * time.Millisecond
)

// stripes is how many rows the table lock_stripe has.
const stripes = 64

func stripe(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % stripes)
}

func checkLock(name string, mode backend.LockMode) error {
	if n := utf8.RuneCountInString(name); name == "" || n > backend.MaxLockName || strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name) {
		return fmt.Errorf("parley: a lock's name of %d characters: want UTF-8 of 1 to %d, without zero bytes", n, backend.MaxLockName)
	}
	if mode <= 0 || mode >= backend.LockX<<1 {
		return fmt.Errorf("parley: lock %q: there is no mode %d", name, mode)
	}
	return nil
}

// ask is one request for a lock.
type ask struct {
	owner  lockOwner
	name   string
	mode   backend.LockMode
	ticket int64 // of its row; 0: it has none
	waited bool

	test  bool             // would it be granted?
	taken bool             // the engine has given its lock
	had   backend.LockMode // what the owner had before
}

// lockRows reads who holds a lock and who waits for it.
func (r run) lockRows(ctx context.Context, name string) (rows []lockRow, err error) {
	err = r.Rows(ctx, func(in *sql.Rows) error {
		x := lockRow{name: name}
		var kind, until sql.NullInt64
		var waitUntil, now int64
		err := in.Scan(&x.seq, ID(&x.owner), &x.mode, &x.times, Bool(&x.waiting), &waitUntil, &kind, &until, &now)
		x.tx = kind.Int64 == ownerTx
		x.dead = !kind.Valid || !x.tx && until.Int64 <= now
		x.stale = x.waiting && waitUntil <= now
		rows = append(rows, x)
		return err
	}, r.s.q.LockRows, name)
	return rows, err
}

// decide grants a request if it can be granted now. Otherwise, with queue, the request
// gets a row, and waits. It runs in a separate transaction.
func (t *Tx) decide(ctx context.Context, a *ask, queue bool) (g backend.Grant, granted bool, err error) {
	fence, rows, err := t.turn(ctx, a.name)
	if err != nil {
		return g, false, err
	}
	if err := t.alive(ctx, a.owner); err != nil {
		return g, false, err
	}
	rows, err = t.clear(ctx, rows, a)
	if err != nil {
		return g, false, err
	}
	mine := find(rows, a.owner.id, a.ticket)
	free := len(against(rows, a)) == 0
	if free {
		if free, err = a.take(ctx, mine.held); err != nil {
			return g, false, t.s.fail(ctx, err)
		}
	}
	if !free {
		if queue && mine.request == nil {
			a.ticket = fence
			_, err = t.Exec(ctx, t.s.q.LockInsert, a.name, fence, a.owner.id, int(a.mode), 0, 1, waitLease)
		}
		return g, false, err
	}
	if mine.request != nil {
		if _, err := t.Exec(ctx, t.s.q.LockDelete, a.name, a.ticket); err != nil {
			return g, false, err
		}
	}
	if h := mine.held; h != nil {
		g = backend.Grant{Waited: a.waited, Mode: h.mode | a.mode, Fence: h.seq}
		_, err = t.Exec(ctx, t.s.q.LockChange, int(g.Mode), h.times+1, a.name, h.seq)
		return g, true, err
	}
	g = backend.Grant{Waited: a.waited, Mode: a.mode, Fence: fence}
	_, err = t.Exec(ctx, t.s.q.LockInsert, a.name, fence, a.owner.id, int(a.mode), 1, 0, 0)
	return g, true, err
}

// turn locks the stripe of a name, draws a fence and then looks.
func (t *Tx) turn(ctx context.Context, name string) (fence int64, rows []lockRow, err error) {
	if _, err := t.Exec(ctx, t.s.q.LockTurn, stripe(name)); err != nil {
		return 0, nil, err
	}
	if _, err := t.Row(ctx, []any{&fence}, t.s.q.LockFence, stripe(name)); err != nil {
		return 0, nil, err
	}
	rows, err = t.lockRows(ctx, name)
	return fence, rows, err
}

// alive makes sure that an owner is there and stays until the transaction ends.
// A transaction that asks is there.
func (t *Tx) alive(ctx context.Context, o lockOwner) error {
	if o.kind == ownerTx {
		return nil
	}
	n, err := t.Exec(ctx, t.s.q.OwnerTouch, o.id)
	if err == nil && n == 0 {
		err = backend.ErrFenced
	}
	return err
}

// clear removes rows of owners that are no more, if they are in the way of a
// request. Owners are removed in one order by all, and before their locks.
func (t *Tx) clear(ctx context.Context, rows []lockRow, a *ask) ([]lockRow, error) {
	var dead []backend.ID
	for _, x := range against(rows, a) {
		switch {
		case x.stale:
			if _, err := t.Exec(ctx, t.s.q.LockDelete, x.name, x.seq); err != nil {
				return nil, err
			}
			rows = without(rows, func(r lockRow) bool { return r.seq == x.seq })
		case x.dead || x.tx:
			dead = append(dead, x.owner)
		}
	}
	for _, id := range SortIDs(dead) {
		gone, err := t.gone(ctx, id)
		if err != nil {
			return nil, err
		}
		if !gone {
			continue
		}
		if _, err := t.Exec(ctx, t.s.q.LockDrop, id); err != nil {
			return nil, err
		}
		rows = without(rows, func(r lockRow) bool { return r.owner == id })
	}
	return rows, nil
}

// gone removes an owner that is no more, and reports whether there is none now.
func (t *Tx) gone(ctx context.Context, id backend.ID) (bool, error) {
	// Only a session's row may be waited for: a transaction keeps its own locked.
	var kind int
	found, err := t.Row(ctx, []any{&kind}, t.s.q.OwnerRead, id)
	if err != nil || !found {
		return true, err
	}
	if kind == ownerNative {
		if err := t.end(ctx, id); err != nil {
			return false, err
		}
	}
	if kind != ownerTx {
		n, err := t.Exec(ctx, t.s.q.OwnerExpire, id)
		return n > 0, err // else it has been renewed, or its connection is still there
	}
	ended, err := t.TryLock(ctx, t.s.q.OwnerTry, id)
	if err != nil || !ended {
		return false, err
	}
	_, err = t.Exec(ctx, t.s.q.OwnerDelete, id)
	return true, err
}

// acquire asks for a lock until it is granted or the wait is over.
func (s *Store) acquire(ctx context.Context, a *ask, wait time.Duration) (g backend.Grant, err error) {
	defer func() {
		if err != nil && a.ticket != 0 {
			s.withdraw(ctx, a)
		}
	}()
	asked := time.Now()
	var probed, cycled, renewed time.Time
	granted := false
	for pause := lockPause; ; pause = min(2*pause, lockMaxPause) {
		signal := s.released.listen()
		look := true // in a transaction
		if a.ticket != 0 {
			if look, err = s.worth(ctx, a, time.Since(probed) >= probeEvery); err != nil {
				return g, err
			}
		}
		if look {
			probed = time.Now()
			err = a.exclusively(ctx, func() error {
				return s.aside(ctx, func(tx *Tx) (err error) {
					g, granted, err = tx.decide(ctx, a, wait != 0)
					return err
				})
			})
			switch {
			case errors.Is(err, backend.ErrSerialization):
				err = nil // it was ours, with nothing in it but this
			case err != nil:
				return backend.Grant{}, err
			case granted:
				return g, nil
			}
		}
		left := wait - time.Since(asked)
		if wait == 0 || wait > 0 && left <= 0 {
			return backend.Grant{}, backend.ErrLockTimeout
		}
		a.waited = true
		if a.ticket != 0 && time.Since(cycled) >= cycleEvery {
			cycled = time.Now()
			victim, err := s.victim(ctx, a)
			if err != nil {
				return backend.Grant{}, err
			}
			if victim {
				return backend.Grant{}, backend.ErrLockDeadlock
			}
		}
		if a.ticket != 0 && time.Since(renewed) >= waitLease/4 {
			renewed = time.Now()
			if err := s.renewWait(ctx, a); err != nil {
				return backend.Grant{}, err
			}
		}
		nap := pause + time.Duration(rand.Int64N(int64(pause)))
		if wait > 0 {
			nap = min(nap, left)
		}
		timer := time.NewTimer(nap)
		select {
		case <-signal:
			pause = lockPause
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return backend.Grant{}, ctx.Err()
		}
		timer.Stop()
	}
}

// worth reports whether a request that waits should be decided about again.
func (s *Store) worth(ctx context.Context, a *ask, probe bool) (yes bool, err error) {
	err = s.reading(ctx, func(r run) error {
		rows, err := r.lockRows(ctx, a.name)
		if err != nil {
			return err
		}
		yes = find(rows, a.owner.id, a.ticket).request == nil // another owner has given it up
		blocked := false
		for _, x := range against(rows, a) {
			blocked = blocked || !x.over() && !(x.tx && probe)
		}
		yes = yes || !blocked
		return nil
	})
	return yes, err
}

// secondConnection is how long a transaction waits for another connection.
const secondConnection = 5 * time.Second

// aside is atomically for callers that may have a transaction open. Callers that all wait for a
// second connection would wait for ever.
func (s *Store) aside(ctx context.Context, work func(*Tx) error) error {
	waiting, cancel := context.WithTimeout(ctx, secondConnection)
	defer cancel()
	tx, err := s.begin(waiting)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			err = fmt.Errorf("parley: a lock needs a second connection beside the transaction's, and none was free for %v: raise the pool's limit: %w", secondConnection, backend.ErrLockTimeout)
		}
		return err
	}
	defer tx.Rollback(ctx)
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// renewWait tells that a request is still asked about.
func (s *Store) renewWait(ctx context.Context, a *ask) error {
	err := s.aside(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, s.q.LockWait, waitLease, a.name, a.ticket)
		return err
	})
	if errors.Is(err, backend.ErrSerialization) {
		return nil // there is time for another try
	}
	return err
}

// withdraw removes a request whose wait was too short.
func (s *Store) withdraw(ctx context.Context, a *ask) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	_ = s.aside(ctx, func(tx *Tx) error { // else it is given up after waitLease
		_, err := tx.Exec(ctx, s.q.LockDelete, a.name, a.ticket)
		return err
	})
	s.released.signal()
}

// victim reports whether a request closes a cycle of waiters and came last of
// them.
func (s *Store) victim(ctx context.Context, a *ask) (yes bool, err error) {
	err = s.reading(ctx, func(r run) error {
		var rows []lockRow
		err := r.Rows(ctx, func(in *sql.Rows) error {
			var x lockRow
			err := in.Scan(&x.name, &x.seq, ID(&x.owner), &x.mode, Bool(&x.waiting))
			rows = append(rows, x)
			return err
		}, s.q.LockGraph)
		yes = err == nil && victim(rows, a)
		return err
	})
	return yes, err
}

// unlock undoes one Lock of an owner, in a separate transaction.
func (s *Store) unlock(ctx context.Context, o lockOwner, name string) error {
	if o.native != nil {
		o.native.Lock()
		defer o.native.Unlock()
	}
	defer s.released.signal()
	return s.aside(ctx, func(tx *Tx) error { return tx.unlock(ctx, o, name) })
}

// unlock undoes one Lock of an owner.
func (t *Tx) unlock(ctx context.Context, o lockOwner, name string) error {
	_, rows, err := t.turn(ctx, name)
	if err != nil {
		return err
	}
	if err := t.alive(ctx, o); err != nil {
		return err
	}
	switch h := find(rows, o.id, 0).held; {
	case h == nil:
		if _, err := o.drop(ctx, name); err != nil {
			return t.s.fail(ctx, err)
		}
		return backend.ErrNotLocked
	case h.times == 0:
		return backend.ErrNotLocked
	case h.times > 1:
		_, err = t.Exec(ctx, t.s.q.LockChange, int(h.mode), h.times-1, name, h.seq)
	default:
		dropped, err := o.drop(ctx, name)
		switch {
		case err != nil:
			return t.s.fail(ctx, err)
		case !dropped: // others still have to wait, and have to see for whom
			_, err = t.Exec(ctx, t.s.q.LockChange, int(h.mode), 0, name, h.seq)
		default:
			_, err = t.Exec(ctx, t.s.q.LockDelete, name, h.seq)
		}
		return err
	}
	return err
}

// lockTest reports whether a request would be granted at once.
func (s *Store) lockTest(ctx context.Context, a *ask) (free bool, err error) {
	probe := false
	err = s.reading(ctx, func(r run) error {
		rows, err := r.lockRows(ctx, a.name)
		free = true
		for _, x := range against(rows, a) {
			free = free && x.over()
			probe = probe || x.tx && !x.stale
		}
		return err
	})
	if free && a.owner.native != nil {
		probe = true // the engine has to be asked, too
	}
	if err != nil || !probe {
		return free, err
	}
	a.test = true
	err = a.exclusively(ctx, func() error {
		tx, err := s.begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		_, free, err = tx.decide(ctx, a, false)
		return err
	})
	return free && err == nil, err
}

// lockMode returns in which mode an owner holds a lock.
func (r run) lockMode(ctx context.Context, o lockOwner, name string) (backend.LockMode, error) {
	rows, err := r.lockRows(ctx, name)
	if h := find(rows, o.id, 0).held; err == nil && h != nil && !h.dead && h.times > 0 {
		return h.mode, nil
	}
	return backend.LockNone, err
}

// AppLocks implements backend.Locks.
func (s *Store) AppLocks(ctx context.Context, prefix string) (list []backend.AppLock, err error) {
	err = s.reading(ctx, func(r run) error {
		return r.Rows(ctx, func(rows *sql.Rows) error {
			var l backend.AppLock
			var owner backend.ID
			var since, waitUntil, now int64
			var kind, until sql.NullInt64
			err := rows.Scan(&l.Name, ID(&owner), Text(&l.Owner), &l.Mode, Bool(&l.Waiting), &l.Count, &l.Fence, &since,
				&kind, &until, &waitUntil, &now)
			if err != nil {
				return err
			}
			gone := !kind.Valid || kind.Int64 != ownerTx && until.Int64 <= now || l.Waiting && waitUntil <= now
			if gone || !strings.HasPrefix(l.Name, prefix) {
				return nil
			}
			if l.Waiting {
				l.Fence = 0
			}
			l.For = span(since, now)
			list = append(list, l)
			return nil
		}, s.q.ListLocks)
	})
	return list, err
}
