package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Tx is a [backend.Tx].
type Tx struct {
	store  *Store
	handle *Handle
	over   error // nil while it is open

	connected bool // it has a connection of the handle's
	noWait    bool // it waits for no lock

	log        []change
	savepoints []savepoint
	locks      []lock
	party      *party // as an owner of application locks, and as a waiter
	owner      string // who claims, for operators to read

	// holds are the deliveries that this transaction has in hand, by group:
	// claimed or reclaimed, not yet settled.
	holds map[backend.ID]*backend.Hold
	// leases begin when the transaction commits.
	leases []*lease
}

// change is an entry of the undo log.
type change struct {
	undo   func()
	commit func() // nil: nothing to do
}

type savepoint struct {
	name string
	at   int // length of the log
}

// Begin implements [backend.Backend].
func (h *Handle) Begin(ctx context.Context) (backend.Tx, error) {
	if err := h.enterMigrated(ctx); err != nil {
		return nil, err
	}
	if h.store.fault == FaultBeginBesideClose {
		h.store.pause()
	}
	tx := h.begin()
	tx.connected, tx.noWait = true, backend.IsNoWait(ctx)
	h.store.mu.Unlock() // and the connection is the transaction's
	return tx, nil
}

func (h *Handle) begin() *Tx {
	tx := &Tx{
		store:  h.store,
		handle: h,
		party:  &party{name: "transaction"},
		holds:  make(map[backend.ID]*backend.Hold),
	}
	h.open[tx] = struct{}{}
	return tx
}

// enter begins a call of the transaction; leave ends it.
func (tx *Tx) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	tx.store.mu.Lock()
	if tx.over != nil && tx.store.fault != FaultEndedServes {
		tx.store.mu.Unlock()
		return tx.over
	}
	return nil
}

func (tx *Tx) leave() { tx.store.mu.Unlock() }

// did records a change that was just made.
func (tx *Tx) did(c change) { tx.log = append(tx.log, c) }

// undo takes back all changes since the log had the length at, latest first.
func (tx *Tx) undo(at int) {
	for i := len(tx.log) - 1; i >= at; i-- {
		tx.log[i].undo()
	}
	tx.log = tx.log[:at]
}

// Commit implements [backend.Tx].
func (tx *Tx) Commit(ctx context.Context) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	tx.commit()
	return nil
}

func (tx *Tx) commit() {
	for _, c := range tx.log {
		if c.commit != nil {
			c.commit()
		}
	}
	for _, l := range tx.leases {
		l.until = tx.store.now().Add(l.length)
	}
	tx.end()
}

// Rollback implements [backend.Tx]. It works whatever became of ctx: a
// transaction that could not be ended would keep its locks for ever.
func (tx *Tx) Rollback(context.Context) error {
	tx.store.mu.Lock()
	defer tx.store.mu.Unlock()
	if tx.over == nil {
		tx.rollback()
	}
	return nil
}

func (tx *Tx) rollback() {
	if tx.store.fault == FaultRollbackReorders {
		tx.store.swapHeads(tx.holds)
	}
	tx.undo(0)
	if tx.store.fault == FaultRollbackKeepsLock {
		tx.locks = slices.DeleteFunc(tx.locks, func(l lock) bool { return l.kind == lockGroup })
	}
	tx.end()
}

// end gives back what no transaction keeps.
func (tx *Tx) end() {
	tx.over = backend.ErrTxDone
	tx.log, tx.savepoints = nil, nil
	tx.unlockAll()
	tx.store.dismiss(tx.party)
	delete(tx.handle.open, tx)
	if tx.connected {
		tx.handle.putBack()
	}
	tx.store.signal()
}

// Savepoint implements [backend.Tx]. A name may be used again: the latest one
// counts, as in SQL.
func (tx *Tx) Savepoint(ctx context.Context, name string) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	tx.savepoints = append(tx.savepoints, savepoint{name, len(tx.log)})
	return nil
}

// RollbackTo implements [backend.Tx]. Locks stay: letting go of a group in the
// middle of its handler would hand it to another receiver.
func (tx *Tx) RollbackTo(ctx context.Context, name string) error {
	return tx.atSavepoint(ctx, name, func(i int) {
		tx.undo(tx.savepoints[i].at)
		tx.savepoints = tx.savepoints[:i+1]
		if tx.store.fault == FaultSavepointFrees {
			tx.unlockAll()
		}
	})
}

// Release implements [backend.Tx].
func (tx *Tx) Release(ctx context.Context, name string) error {
	return tx.atSavepoint(ctx, name, func(i int) { tx.savepoints = tx.savepoints[:i] })
}

// Resave implements [backend.Tx].
func (tx *Tx) Resave(ctx context.Context, name string) error {
	return tx.atSavepoint(ctx, name, func(i int) { tx.savepoints = append(tx.savepoints[:i], savepoint{name, len(tx.log)}) })
}

func (tx *Tx) atSavepoint(ctx context.Context, name string, do func(i int)) error {
	if err := tx.enter(ctx); err != nil {
		return err
	}
	defer tx.leave()
	for i := len(tx.savepoints) - 1; i >= 0; i-- {
		if tx.savepoints[i].name == name {
			do(i)
			return nil
		}
	}
	return fmt.Errorf("parley: memory: no savepoint %q", name)
}

// Token implements [backend.Tx].
func (tx *Tx) Token() any { return tx }

// SQL implements [backend.Tx]: there is none.
func (tx *Tx) SQL() backend.Execer { return nil }

// Once implements [backend.Tx]. Who records the same key meanwhile waits until
// this transaction has ended: only then is it known whether the key was new.
func (tx *Tx) Once(ctx context.Context, key string, keep time.Duration) (bool, error) {
	if err := tx.enter(ctx); err != nil {
		return false, err
	}
	defer tx.leave()
	if tx.store.fault != FaultOnceUnlocked {
		if err := tx.lock(ctx, lock{kind: lockOnce, name: key}); err != nil {
			return false, err
		}
	}
	if tx.store.once.has(tx, key) {
		return tx.store.fault == FaultOnceAgain, nil
	}
	tx.store.once.put(tx, key, tx.store.now().Add(keep))
	return true, nil
}

// NotifyAtCommit implements [backend.Tx]. There are no joined transactions.
func (tx *Tx) NotifyAtCommit(context.Context, []int64) error { return nil }
