package sqlstore

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// Tx is a transaction of ours, or one of the user's that was joined.
type Tx struct {
	run
	tr   Transaction    // nil if joined
	user backend.Execer // the user's transaction, if joined
	over atomic.Bool

	noWait bool // it must not wait for others' locks, and is rolled back after any error

	// touched are streams that messages were taken from, whose markers have to
	// be looked at before the commit.
	touched []backend.ID
	// late are messages that are removed then.
	late []Removal
	// settled: the markers have been looked at.
	settled bool
	// guarded are streams whose guards the transaction has asked for, and whether
	// it got them.
	guarded map[backend.ID]bool
	// holds are what the transaction has in hand, and dropped the messages that
	// END removed in it.
	holds   []*backend.Hold
	dropped map[messageKey]bool
	// returned says that what it has removed may be there again, as it may have been rolled back to a
	// savepoint since.
	returned bool
	// sent are streams that it has sent on since then, with their queues: the guard is ours, and the marker stands.
	sent map[backend.ID]int64
	// vanished are streams that it has removed since it was last rolled back to a savepoint.
	vanished []backend.ID
	// looked are posts whose leases have been left as they are, and parted those
	// that the transaction has removed, released or kept.
	looked, parted []*backend.Hold
	// used came by promotions that end with the commit.
	used []*backend.Hold
	// begun are conversations that are stored later, ends what ends of sides are written later, and undecided those
	// that are looked at later, too.
	begun     []Begun
	ends      []SideEnd
	undecided []LateEnd
	// closed are sides that it has ended, although that may have been rolled back.
	closed map[backend.ID]bool
	// direct says that the application may use the transaction without us seeing it.
	direct bool
	// points are savepoints, and put the name of the savepoint that is to be set.
	points map[string]point
	put    string

	locks txLocks
}

// Store returns the store that the transaction works on.
func (t *Tx) Store() *Store { return t.s }

// Q returns the store's statements.
func (t *Tx) Q() *Statements { return &t.s.q }

// Joined reports whether the transaction is the user's.
func (t *Tx) Joined() bool { return t.tr == nil }

// NoWait reports whether the transaction must not wait for others' locks. It is rolled back after any error.
func (t *Tx) NoWait() bool { return t.noWait }

// ready tells whether the transaction can still be used, at the start of a verb, and stores
// what it has begun and ended.
func (t *Tx) ready(ctx context.Context) error {
	if err := t.usable(ctx); err != nil {
		return err
	}
	return t.write(ctx)
}

// readyFor is ready for a verb that looks at one conversation and waits for no other transaction in its
// group.
func (t *Tx) readyFor(ctx context.Context, handle backend.ID) error {
	if t.endsOf(handle) {
		return t.ready(ctx)
	}
	if err := t.usable(ctx); err != nil {
		return err
	}
	return t.storeBegun(ctx)
}

// write stores what the transaction has begun and ended.
func (t *Tx) write(ctx context.Context) error {
	if err := t.storeBegun(ctx); err != nil {
		return err
	}
	return t.writeAllEnds(ctx)
}

// usable is ready for verbs that may come before what was begun is stored.
func (t *Tx) usable(ctx context.Context) error {
	if t.over.Load() {
		return backend.ErrTxDone
	}
	if t.verb.torn != nil {
		return t.verb.torn
	}
	t.verb.wrote = false
	if err := ctx.Err(); err != nil || !t.Joined() || t.s.versions.admitted.Load() {
		return err
	}
	st, err := t.state(ctx)
	if err != nil {
		return err
	}
	return t.s.compare(st)
}

// look runs reads that need no lock. If the transaction begins at its first statement, and has not
// begun, they run outside it.
func (t *Tx) look(ctx context.Context, work func(run) error) error {
	if l, ok := t.sess.(lazy); ok && !l.Begun() {
		return t.s.reading(ctx, work)
	}
	return work(t.run)
}

// SQL implements backend.Tx.
func (t *Tx) SQL() backend.Execer {
	if t.Joined() || t.s.d.BeginDialogs == nil {
		t.direct, t.sent = true, nil
		return t.execer()
	}
	return beforeSQL{t, t.execer()}
}

// unseen reports whether the application may use the transaction without us seeing it.
func (t *Tx) unseen() bool { return t.Joined() || t.direct }

// execer is SQL for statements that may come before what was begun is stored.
func (t *Tx) execer() backend.Execer {
	if t.tr == nil {
		return t.user
	}
	return t.tr.SQL()
}

// cleanUp is how long ending a transaction may take when its context has ended.
const cleanUp = 5 * time.Second

// Commit implements backend.Tx.
func (t *Tx) Commit(ctx context.Context) error {
	if a, ok := t.tr.(alone); ok && a.Committed() { // and so it stays, though the store may have been closed
		t.over.Store(true)
		t.forget()
		t.tr.Commit(ctx) // all that is left is to give the connection back
		return nil
	}
	if err := t.ready(ctx); err != nil {
		return err
	}
	if t.tr == nil {
		t.over.Store(true)
		return nil
	}
	for _, h := range t.used {
		if err := t.usePromotion(ctx, h); err != nil {
			return err
		}
	}
	if err := t.letGo(ctx, nil); err != nil {
		return err
	}
	if !t.settled {
		// Messages were consumed, but nothing was settled afterwards.
		if _, err := t.finish(ctx); err != nil {
			return err
		}
	}
	// The last statement may have succeeded while its context ended, and lib/pq closes such a connection.
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.over.Swap(true) {
		return backend.ErrTxDone
	}
	t.forget()
	// A context that ends meanwhile does not cut it off: only the engine knows the outcome.
	err := t.s.fail(context.WithoutCancel(ctx), t.tr.Commit(ctx))
	t.freeLocks(ctx)
	return err
}

// Rollback implements backend.Tx.
func (t *Tx) Rollback(ctx context.Context) error {
	if t.over.Swap(true) || t.tr == nil {
		return nil
	}
	t.forget()
	// It must happen even though the context is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	over := make(chan error, 1)
	go func() {
		err := t.tr.Rollback(ctx)
		t.freeLocks(ctx)
		over <- err
	}()
	// A driver may wait for a server that does not answer whatever the context says, and the end may wait for a
	// statement that is under way. Both are left behind then: nothing else can become of the transaction.
	select {
	case err := <-over:
		defer cancel()
		return t.s.fail(ctx, err)
	case <-ctx.Done():
		cancel()
		return Classified(backend.ErrConnection, ctx.Err())
	}
}

func (t *Tx) forget() {
	t.s.mu.Lock()
	delete(t.s.open, t)
	t.s.mu.Unlock()
}

// abandon ends a transaction that was still open when the store was closed.
func (t *Tx) abandon() { t.Rollback(context.Background()) }

// Token implements backend.Tx.
func (t *Tx) Token() any { return t }

// NotifyAtCommit implements backend.Tx, for stores that cannot do that.
func (t *Tx) NotifyAtCommit(context.Context, []int64) error { return nil }

// touch remembers streams that messages were taken from.
func (t *Tx) touch(streams ...backend.ID) {
	t.touched = append(t.touched, streams...)
	t.settled = false
	for _, id := range streams {
		delete(t.sent, id) // its marker may go
	}
}

// SortIDs sorts and compacts, so that rows are locked in one order by all.
func SortIDs(ids []backend.ID) []backend.ID {
	slices.SortFunc(ids, func(a, b backend.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}

// Open reports whether the transaction can still be used.
func (t *Tx) Open() bool { return !t.over.Load() }

// Session returns what the transaction's statements run in.
func (t *Tx) Session() Session { return t.sess }
