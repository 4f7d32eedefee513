package parley

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// Tx is a transaction: Parley's own (Broker.InTx, Delivery.Tx) or the caller's
// (Broker.Join). Everything done in it happens when it commits, or not at all.
// It is for one goroutine at a time.
type Tx struct {
	b      *Broker
	be     backend.Tx
	joined bool
	broken error // why a joined transaction cannot be used

	cat      *catalogView   // what this transaction goes by
	touched  map[int64]bool // queues whose receivers to wake after the commit
	notified map[int64]bool // queues for which a joined transaction has seen to it
	held     []ID           // groups received from, in order
	marks    []mark         // savepoints
	ended    []ID           // conversations that were ended in it
	sooner   time.Duration  // a timer or delayed post is due in so long
	remains  bool           // of a conversation that is over, for the duty to remove
	lanes    map[laneKey]*lane
	seq      int64 // of the message that was sent last
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

// Context returns ctx marked as inside this transaction. On a store with a
// single writer, a second transaction begun with it fails with ErrWouldDeadlock
// where it would otherwise wait for this one.
func (tx *Tx) Context(ctx context.Context) context.Context {
	if tx.be == nil {
		return ctx
	}
	return backend.InsideTx(ctx, tx.be)
}

// Savepoint marks a point to which RollbackTo can return. Groups received from
// before it stay held after RollbackTo; those received from after it are given
// back on some stores.
func (tx *Tx) Savepoint(ctx context.Context, name string) error {
	if err := tx.ready(); err != nil {
		return fail("savepoint", name, err)
	}
	if err := checkSavepoint(name); err != nil {
		return fail("savepoint", name, err)
	}
	if err := tx.be.Savepoint(ctx, name); err != nil {
		return fail("savepoint", name, err)
	}
	tx.marks = append(tx.marks, mark{name, len(tx.held)})
	return nil
}

// RollbackTo undoes everything since the savepoint, which stays.
func (tx *Tx) RollbackTo(ctx context.Context, name string) error {
	if err := tx.ready(); err != nil {
		return fail("rollback to savepoint", name, err)
	}
	i := tx.mark(name)
	if i < 0 {
		return fail("rollback to savepoint", name, errNoSavepoint)
	}
	if err := tx.back(ctx, name); err != nil {
		return fail("rollback to savepoint", name, err)
	}
	tx.held = tx.held[:tx.marks[i].held]
	tx.marks = tx.marks[:i+1]
	tx.cat = nil // a definition may have been undone
	return nil
}

// back rolls the store's transaction back to a savepoint, with what it was to tell
// receivers at the commit.
func (tx *Tx) back(ctx context.Context, name string) error {
	tx.notified = nil
	return tx.be.RollbackTo(ctx, name)
}

// Release forgets a savepoint and keeps what was done since.
func (tx *Tx) Release(ctx context.Context, name string) error {
	if err := tx.ready(); err != nil {
		return fail("release savepoint", name, err)
	}
	i := tx.mark(name)
	if i < 0 {
		return fail("release savepoint", name, errNoSavepoint)
	}
	if err := tx.be.Release(ctx, name); err != nil {
		return fail("release savepoint", name, err)
	}
	tx.marks = tx.marks[:i]
	return nil
}

var errNoSavepoint = errors.New("there is no such savepoint")

func (tx *Tx) mark(name string) int {
	for i := len(tx.marks) - 1; i >= 0; i-- {
		if tx.marks[i].name == name {
			return i
		}
	}
	return -1
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

// Once records key and reports whether it is new: the check that keeps an
// effect outside the database from happening twice, when the key is the
// message's ID. It is undone with the transaction, and forgotten after
// Options.KeepOnce. Of many who record the same key at once some may lose against
// the others and have to be run again (IsRetryable).
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
	if tx.broken != nil {
		return tx.broken
	}
	return nil
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
	tx.cat = tx.b.cache(viewOf(c))
	return tx.cat, nil
}

// withCatalog runs f with the catalog, and once more, with a fresh one, when it
// fails for what a newer catalog may cure: f says so by an error that is
// ErrStaleCatalog or that a name is not defined.
func (tx *Tx) withCatalog(ctx context.Context, f func(*catalogView) error) error {
	v, err := tx.view(ctx)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		err := f(v)
		if !errStale(err) && (try > 0 || !undefined(err)) || try == maxReloads {
			return err
		}
		if v, err = tx.reload(ctx); err != nil {
			return err
		}
	}
}

// maxReloads bounds how often one verb follows a catalog that keeps changing.
const maxReloads = 10

func undefined(err error) bool {
	return errors.Is(err, ErrUnknownQueue) || errors.Is(err, ErrUnknownService) ||
		errors.Is(err, ErrUnknownContract) || errors.Is(err, ErrUnknownType)
}

// whole runs f so that nothing of it stays if it fails, also when ctx was
// cancelled in the middle.
func (tx *Tx) whole(ctx context.Context, point string, f func() error) error {
	if err := tx.be.Savepoint(ctx, point); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = tx.be.Release(ctx, point)
	}
	if err != nil {
		ctx, cancel := cleanup(ctx)
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

// told sees to the receivers of a joined transaction, whose commit Parley does
// not see: the store tells other processes at the commit if it can; this one
// looks at once and again a little later.
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
		tx.b.hub.wakeSoon(tx.touched)
		return nil
	}
	if n, ok := tx.be.(backend.CommitNotifier); ok {
		if err := n.NotifyAtCommit(ctx, fresh); err != nil {
			return err
		}
	}
	if tx.notified == nil {
		tx.notified = make(map[int64]bool)
	}
	for _, q := range fresh {
		tx.notified[q] = true
	}
	tx.b.hub.wakeSoon(tx.touched)
	return nil
}

func (tx *Tx) commit(ctx context.Context) error {
	if err := tx.be.Commit(ctx); err != nil {
		tx.rollback(ctx)
		return err
	}
	tx.broken = ErrTxDone
	tx.leaveLanes(true)
	if len(tx.touched) > 0 {
		tx.b.wake(tx.touched)
	}
	if tx.sooner > 0 {
		tx.b.duties.within(tx.sooner)
	}
	if tx.remains {
		tx.b.duties.closedSoon()
	}
	return nil
}

// rollback ends the transaction whatever became of ctx.
func (tx *Tx) rollback(ctx context.Context) {
	if tx.be == nil || tx.broken != nil {
		return
	}
	tx.broken = ErrTxDone
	tx.leaveLanes(false)
	ctx, cancel := cleanup(ctx)
	defer cancel()
	if err := tx.be.Rollback(ctx); err != nil {
		tx.b.log.Warn("parley: rollback failed", "error", err)
	}
}

// hold notes that the transaction holds a group.
func (tx *Tx) hold(group ID) {
	if !tx.holds(group) {
		tx.held = append(tx.held, group)
	}
}

func (tx *Tx) holds(group ID) bool {
	for _, g := range tx.held {
		if g == group {
			return true
		}
	}
	return false
}

// lockGroup takes a group, waiting a bounded time for whoever holds it. It
// asks again and again and never queues inside the database, where it would
// make others wait behind it.
func (tx *Tx) lockGroup(ctx context.Context, group ID) error {
	if tx.holds(group) {
		return nil
	}
	err := tx.b.patiently(ctx, func() error { return tx.be.LockGroup(ctx, group) })
	if err == nil {
		tx.hold(group)
	}
	return err
}

// patiently repeats f while it meets a busy group or stream, for GroupWait.
func (b *Broker) patiently(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(b.opt.GroupWait)
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := f()
		busy := errors.Is(err, backend.ErrGroupBusy) || errors.Is(err, backend.ErrStreamBusy)
		if !busy || errors.Is(err, ErrWouldDeadlock) {
			return err
		}
		if time.Until(deadline) < pause {
			if errors.Is(err, backend.ErrStreamBusy) {
				err = errors.Join(ErrGroupBusy, err)
			}
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
