package parley

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// Tx is a transaction: Parley's own (Broker.InTx, Delivery.Tx) or the caller's
// (Broker.Join). Everything done in it happens when it commits, or not at all.
// It is for one goroutine at a time.
type Tx struct {
	b      *Broker
	be     backend.Tx
	joined bool
	noWait bool        // it is a crowd's: it waits for no lock, and is rolled back after any refusal
	broken error       // why a joined transaction cannot be used
	closed atomic.Bool // the worker is done with it, and may not have waited for the handler

	cat       *catalogView   // what this transaction goes by
	touched   map[int64]bool // queues whose receivers to wake after the commit
	notified  map[int64]bool // queues for which a joined transaction has seen to it
	held      []ID           // groups received from, in order
	marks     []mark         // savepoints
	ended     []ID           // conversations that were ended in it
	sooner    time.Duration  // when a timer or delayed post is due, from now
	remains   bool           // of a conversation that is over, for the job to remove
	undecided []*bool        // what remains will be by the commit, of ends that are decided by then
	txDialogs map[txDialogKey]*txDialog
	seq       int64 // of the message that was sent last
}

// mark remembers how many groups were held at a savepoint.
type mark struct {
	name string
	held int
}

// SQL returns what runs the caller's own statements in the transaction, or nil
// if the store has no SQL. It cannot commit.
func (tx *Tx) SQL() Execer {
	if tx.be == nil {
		return nil
	}
	return tx.be.SQL()
}

// Context returns ctx marked as inside this transaction. Use it for whatever takes a second connection
// or transaction meanwhile, such as Broker.Post. Where that would wait for this transaction, on a store
// with a single writer, it fails with ErrWouldDeadlock. On a pool whose connections are all taken, as by
// other such callers, it fails with ErrNotBegun after 5 s instead of waiting for ever. The contexts of
// handlers are marked.
func (tx *Tx) Context(ctx context.Context) context.Context {
	if tx.be == nil {
		return ctx
	}
	return backend.InsideTx(ctx, tx.be)
}

// Savepoint marks a point to which RollbackTo can return. After RollbackTo, groups that were
// received before the savepoint stay held. Some stores release groups that were received after it.
func (tx *Tx) Savepoint(ctx context.Context, name string) error {
	err := tx.ready()
	if err == nil {
		err = checkSavepoint(name)
	}
	if err == nil {
		err = tx.be.Savepoint(ctx, name)
	}
	if err == nil {
		tx.marks = append(tx.marks, mark{name, len(tx.held)})
	}
	return fail("savepoint", name, err)
}

// RollbackTo undoes everything since the savepoint, which stays.
func (tx *Tx) RollbackTo(ctx context.Context, name string) error {
	i, err := tx.mark(name)
	if err == nil {
		err = tx.back(ctx, name)
	}
	if err == nil {
		tx.held = tx.held[:tx.marks[i].held]
		tx.marks = tx.marks[:i+1]
		tx.cat = nil // a definition may have been undone
	}
	return fail("rollback to savepoint", name, err)
}

// back rolls the store's transaction back to a savepoint, with what it was to tell
// receivers at the commit.
func (tx *Tx) back(ctx context.Context, name string) error {
	tx.notified = nil
	return tx.be.RollbackTo(ctx, name)
}

// Release forgets a savepoint and keeps what was done since.
func (tx *Tx) Release(ctx context.Context, name string) error {
	i, err := tx.mark(name)
	if err == nil {
		err = tx.be.Release(ctx, name)
	}
	if err == nil {
		tx.marks = tx.marks[:i]
	}
	return fail("release savepoint", name, err)
}

// Atomically runs f in a savepoint: if f fails, nothing that it did in the transaction stays.
func (tx *Tx) Atomically(ctx context.Context, f func() error) error {
	if err := tx.ready(); err != nil {
		return fail("savepoint", "", err)
	}
	return tx.whole(ctx, fmt.Sprint("parley_atomic_", len(tx.marks)), f)
}

var errNoSavepoint = errors.New("there is no such savepoint")

// mark finds the last savepoint of a name.
func (tx *Tx) mark(name string) (int, error) {
	for i := len(tx.marks) - 1; i >= 0; i-- {
		if tx.marks[i].name == name {
			return i, tx.ready()
		}
	}
	return 0, cmp.Or(tx.ready(), errNoSavepoint)
}

// checkSavepoint keeps names to what needs no quoting on any engine.
func checkSavepoint(name string) error {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			name = ""
			break
		}
	}
	if name == "" || len(name) > 60 {
		return &Error{Op: "savepoint", Object: name, Err: ErrInvalidName, Hint: "want a-z, 0-9 and _, at most 60"}
	}
	return nil
}

// Once records key and reports whether it is new. With the message's ID as the key, it keeps an
// effect outside the database from happening twice. A rollback undoes it, and the key is forgotten
// after Options.KeepOnce. If many transactions record the same key concurrently, some may fail with
// an error that IsRetryable.
func (tx *Tx) Once(ctx context.Context, key string) (bool, error) {
	if err := tx.ready(); err != nil {
		return false, fail("once", key, err)
	}
	if key == "" || len(key) > 1024 || !backend.IsText(key) {
		return false, fail("once", "", fmt.Errorf("key of %d bytes: want UTF-8 of 1 to 1024, without zero bytes: %w", len(key), ErrInvalidOption))
	}
	fresh, err := tx.be.Once(ctx, key, tx.b.opt.KeepOnce)
	return fresh, fail("once", key, err)
}

// Backend returns the store's transaction, for packages that add verbs to Parley's.
func (tx *Tx) Backend() (backend.Tx, error) { return tx.be, tx.ready() }

func (tx *Tx) ready() error {
	if tx.closed.Load() {
		return ErrTxDone
	}
	return tx.broken
}

// view returns the catalog that this transaction goes by.
func (tx *Tx) view(ctx context.Context) (*catalogView, error) {
	if err := tx.ready(); err != nil {
		return nil, err
	}
	if tx.cat == nil {
		tx.cat = tx.b.catalog.Load()
	}
	if tx.cat == nil {
		return tx.reload(ctx)
	}
	return tx.cat, nil
}

// reload reads the catalog as the transaction sees it.
func (tx *Tx) reload(ctx context.Context) (*catalogView, error) {
	c, err := tx.be.Catalog(ctx, false)
	if err != nil {
		return nil, err
	}
	tx.cat = tx.b.cache(viewOf(shown(c)))
	return tx.cat, nil
}

// withCatalog runs f with the catalog, as follow does.
func (tx *Tx) withCatalog(ctx context.Context, f func(*catalogView) error) error {
	v, err := tx.view(ctx)
	if err != nil {
		return err
	}
	return follow(v, f, func(*catalogView) (*catalogView, error) { return tx.reload(ctx) })
}

// whole runs f so that nothing of it stays if it fails, also when ctx was
// cancelled in the middle.
func (tx *Tx) whole(ctx context.Context, point string, f func() error) error {
	if err := tx.be.Savepoint(ctx, point); err != nil {
		return err
	}
	m := mark{point, len(tx.held)}
	marks := len(tx.marks)
	tx.marks = append(tx.marks, m)
	err := f()
	if err == nil {
		err = tx.be.Release(ctx, point)
	}
	tx.marks = tx.marks[:marks]
	if err != nil {
		tx.held, tx.cat = tx.held[:m.held], nil
		ctx, cancel := wait.Cleanup(ctx)
		defer cancel()
		err = errors.Join(err, tx.back(ctx, point), tx.be.Release(ctx, point))
	}
	return err
}

// touch notes that a queue has something new.
func (tx *Tx) touch(queue int64) {
	if tx.touched == nil {
		tx.touched = make(map[int64]bool)
	}
	tx.touched[queue] = true
}

// Notify announces a topic (Broker.Watch) when the transaction commits.
func (tx *Tx) Notify(ctx context.Context, topic int64) error {
	if err := tx.ready(); err != nil {
		return err
	}
	tx.touch(topic)
	return tx.told(ctx)
}

// told wakes the receivers of a joined transaction, whose commit Parley does not see. If it can,
// the store tells other processes once it has committed. This process looks at once, and again a little
// later.
func (tx *Tx) told(ctx context.Context) error {
	if !tx.joined || len(tx.touched) == 0 {
		return nil
	}
	var fresh []int64
	for q := range tx.touched {
		if !tx.notified[q] {
			fresh = append(fresh, q)
		}
	}
	if len(fresh) == 0 {
		tx.b.hub.WakeSoon(tx.touched)
		return nil
	}
	if err := tx.be.NotifyAtCommit(ctx, fresh); err != nil {
		return err
	}
	if tx.notified == nil {
		tx.notified = make(map[int64]bool)
	}
	for _, q := range fresh {
		tx.notified[q] = true
	}
	tx.b.hub.WakeSoon(tx.touched)
	return nil
}

func (tx *Tx) commit(ctx context.Context) error {
	if err := tx.be.Commit(ctx); err != nil {
		tx.rollback(ctx)
		return err
	}
	tx.broken = ErrTxDone
	tx.leaveDialogs(true)
	if len(tx.touched) > 0 {
		tx.b.wake(tx.touched)
	}
	if tx.sooner > 0 {
		tx.b.jobs.within(tx.sooner)
	}
	if tx.remains || slices.ContainsFunc(tx.undecided, func(remains *bool) bool { return *remains }) {
		tx.b.jobs.closedSoon()
	}
	return nil
}

// rollback ends the transaction whatever became of ctx. It returns ErrSerialization if the database had rolled back
// before, and had not said so.
func (tx *Tx) rollback(ctx context.Context) error {
	if tx.be == nil || tx.broken != nil {
		return nil
	}
	tx.broken = ErrTxDone
	tx.leaveDialogs(false)
	ctx, cancel := wait.Cleanup(ctx)
	defer cancel()
	// With its connection, the database has rolled back.
	err := tx.be.Rollback(ctx)
	switch {
	case errors.Is(err, ErrSerialization):
		return err
	case err != nil && !errors.Is(err, ErrConnection):
		tx.b.log.Warn("parley: rollback failed", "error", err)
	}
	return nil
}

// OwnTx is a transaction that its holder commits. A handler gets the Tx of one, which it
// cannot commit.
type OwnTx struct{ *Tx }

// Commit ends the transaction. After an error nothing of it has happened, unless the error
// is ErrConnection: then it may have.
func (tx *OwnTx) Commit(ctx context.Context) error { return fail("commit", "", tx.commit(ctx)) }

// Rollback undoes the transaction. It does nothing if that has ended.
func (tx *OwnTx) Rollback(ctx context.Context) { tx.rollback(ctx) }

// hold notes that the transaction holds a group.
func (tx *Tx) hold(group ID) {
	if !tx.holds(group) {
		tx.held = append(tx.held, group)
	}
}

func (tx *Tx) holds(group ID) bool { return slices.Contains(tx.held, group) }

// lockGroup acquires a group. It waits a bounded time for the receiver that holds it. It
// polls and never queues inside the database, where others would wait behind it.
func (tx *Tx) lockGroup(ctx context.Context, group ID) error {
	return tx.b.patiently(ctx, func() error { return tx.tryGroup(ctx, group) })
}

// tryGroup acquires a group if it is free. Callers that repeat it set their own bound.
func (tx *Tx) tryGroup(ctx context.Context, group ID) error {
	if tx.holds(group) {
		return nil
	}
	err := tx.be.LockGroup(ctx, group)
	if err == nil {
		tx.hold(group)
	}
	return err
}

// leastTries is how often patiently tries at least. In a process that was stopped for a while, GroupWait
// has passed although there was no chance to find a group free.
const leastTries = 5

// patiently repeats f while it meets a busy group or stream, for GroupWait. Transactions that wait for a lock are ahead
// of it, so it tries often enough to find a group free that others take in turns.
func (b *Broker) patiently(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(b.opt.GroupWait)
	pause := 2 * time.Millisecond
	for tries := 1; ; tries++ {
		err := f()
		busy := errors.Is(err, backend.ErrGroupBusy) || errors.Is(err, backend.ErrStreamBusy)
		if !busy || errors.Is(err, ErrWouldDeadlock) {
			return err
		}
		if tries >= leastTries && time.Until(deadline) < pause {
			if errors.Is(err, backend.ErrStreamBusy) {
				err = errors.Join(ErrGroupBusy, err)
			}
			return err
		}
		if err := wait.Sleep(ctx, wait.Jitter(pause)); err != nil {
			return err
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}
