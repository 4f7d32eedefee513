package bolt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// Tx is a [backend.Tx]. It takes its turn to write with the first verb that may write; before
// that it reads what is committed, again in each verb.
type Tx struct {
	backend.UnimplementedTx // there are no recurring jobs

	h    *Handle
	f    *file
	born context.Context // of Begin: it tells what the transaction was begun inside of

	gone chan struct{} // is closed by Rollback, before it waits for mu
	stop sync.Once

	mu    sync.Mutex // a verb has it, also while it waits
	w     *look      // nil: it has not begun to write
	over  error
	saves []save
	party *party

	holds    map[backend.ID]*backend.Hold // claimed or taken back, not yet settled
	locked   map[backend.ID]bool          // groups that are this transaction's until it ends
	leases   map[int64]time.Duration      // by fence: they begin with the commit
	dropped  map[string]bool              // messages that an end has removed
	settling []int64                      // fences of leases that the transaction has taken back
	settled  []int64                      // and of those that end with it

	writes  sync.Mutex // guards writing
	writing bool
}

type save struct {
	name string
	at   int
}

// Begin implements [backend.Backend].
func (h *Handle) Begin(ctx context.Context) (backend.Tx, error) {
	if err := h.view(ctx, func(*look) error { return nil }); err != nil {
		return nil, err
	}
	tx := &Tx{
		h: h, f: h.f, born: ctx, gone: make(chan struct{}), party: &party{name: "transaction"},
		holds: make(map[backend.ID]*backend.Hold), leases: make(map[int64]time.Duration),
		locked: make(map[backend.ID]bool),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, backend.ErrClosed
	}
	h.open[tx] = true
	return tx, nil
}

// ready begins a verb. The caller has mu.
func (tx *Tx) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-tx.gone:
		return backend.ErrTxDone
	default:
		return tx.over
	}
}

// write carries out a verb that may write: all of it, or nothing if it fails.
func (tx *Tx) write(ctx context.Context, do func(l *look) error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.ready(ctx); err != nil {
		return err
	}
	if err := tx.start(ctx); err != nil {
		return err
	}
	before := len(tx.w.log)
	err := errors.Join(do(tx.w), tx.w.err)
	if err != nil {
		tx.w.err = nil
		tx.w.undo(before)
	}
	return simple(err)
}

// simple unwraps an error that was joined with none.
func simple(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) == 1 {
		return many.Unwrap()[0]
	}
	return err
}

// read carries out a verb that only reads.
func (tx *Tx) read(ctx context.Context, do func(l *look) error) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.ready(ctx); err != nil {
		return err
	}
	if tx.w != nil {
		return simple(errors.Join(do(tx.w), tx.w.err))
	}
	return simple(tx.h.view(ctx, do))
}

// start waits for the turn, unless the transaction has it.
func (tx *Tx) start(ctx context.Context) error {
	if tx.w != nil {
		return nil
	}
	for _, c := range []context.Context{ctx, tx.born} {
		for token := range backend.TokensFrom(c) {
			if outer, ok := token.(*Tx); ok && outer != tx && outer.f == tx.f && outer.isWriting() {
				return backend.ErrWouldDeadlock
			}
		}
	}
	if err := tx.f.take(ctx, tx.gone); err != nil {
		if errors.Is(err, backend.ErrClosed) {
			err = backend.ErrTxDone
		}
		return err
	}
	b, err := tx.f.db.Begin(true)
	if err != nil {
		tx.f.give()
		return err
	}
	l := &look{b: b, f: tx.f}
	if l.versions().Schema == 0 { // it was uninstalled meanwhile
		err := b.Rollback()
		tx.f.give()
		return errors.Join(backend.ErrNotMigrated, err)
	}
	tx.w = l
	for i := range tx.saves {
		tx.saves[i].at = 0
	}
	tx.setWriting(true)
	return nil
}

func (tx *Tx) setWriting(is bool) {
	tx.writes.Lock()
	defer tx.writes.Unlock()
	tx.writing = is
}

func (tx *Tx) isWriting() bool {
	tx.writes.Lock()
	defer tx.writes.Unlock()
	return tx.writing
}

// Commit implements [backend.Tx].
func (tx *Tx) Commit(ctx context.Context) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.ready(ctx); err != nil {
		return err
	}
	if tx.w == nil {
		tx.end()
		return nil
	}
	err := tx.w.b.Commit()
	if err == nil {
		tx.f.mu.Lock()
		for fence, d := range tx.leases {
			tx.f.until[fence] = time.Now().Add(d)
		}
		for _, fence := range tx.settled {
			delete(tx.f.until, fence)
		}
		tx.f.mu.Unlock()
	} else {
		_ = tx.w.b.Rollback()
	}
	tx.end()
	return err
}

// Rollback implements [backend.Tx]. A verb that waits ends first, since gone is closed.
func (tx *Tx) Rollback(context.Context) error {
	tx.stop.Do(func() { close(tx.gone) })
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.over != nil {
		return nil
	}
	var err error
	if tx.w != nil {
		err = tx.w.b.Rollback()
	}
	tx.end()
	return err
}

// end gives back what no transaction keeps.
func (tx *Tx) end() {
	tx.over = backend.ErrTxDone
	tx.f.locks.dismiss(tx.party, backend.ErrTxDone)
	tx.f.mu.Lock()
	for _, fence := range tx.settling {
		delete(tx.f.settling, fence)
	}
	tx.f.mu.Unlock()
	if tx.w != nil {
		tx.setWriting(false)
		tx.f.give()
	}
	tx.h.mu.Lock()
	delete(tx.h.open, tx)
	tx.h.mu.Unlock()
}

// Token implements [backend.Tx].
func (tx *Tx) Token() any { return tx }

// SQL implements [backend.Tx]: there is none.
func (tx *Tx) SQL() backend.Execer { return nil }

// NotifyAtCommit implements [backend.Tx]: there are no joined transactions.
func (tx *Tx) NotifyAtCommit(context.Context, []int64) error { return nil }

// Savepoint implements [backend.Tx].
func (tx *Tx) Savepoint(ctx context.Context, name string) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.ready(ctx); err != nil {
		return err
	}
	at := 0
	if tx.w != nil {
		at = len(tx.w.log)
	}
	tx.saves = append(tx.saves, save{name, at})
	return nil
}

// RollbackTo implements [backend.Tx].
func (tx *Tx) RollbackTo(ctx context.Context, name string) error {
	return tx.atSavepoint(ctx, name, func(i int) {
		if tx.w != nil {
			tx.w.undo(tx.saves[i].at)
		}
		tx.saves = tx.saves[:i+1]
	})
}

// Release implements [backend.Tx].
func (tx *Tx) Release(ctx context.Context, name string) error {
	return tx.atSavepoint(ctx, name, func(i int) { tx.saves = tx.saves[:i] })
}

// Resave implements [backend.Tx]: Release and Savepoint cost next to nothing.
func (tx *Tx) Resave(context.Context, string) error { return errors.ErrUnsupported }

func (tx *Tx) atSavepoint(ctx context.Context, name string, do func(i int)) error {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if err := tx.ready(ctx); err != nil {
		return err
	}
	for i := len(tx.saves) - 1; i >= 0; i-- {
		if tx.saves[i].name == name {
			do(i)
			return nil
		}
	}
	return fmt.Errorf("bolt: there is no savepoint %q", name)
}

// Once implements [backend.Tx].
func (tx *Tx) Once(ctx context.Context, name string, keep time.Duration) (fresh bool, err error) {
	err = tx.write(ctx, func(l *look) error {
		if fresh = !has(l, once, key(name)); fresh {
			until := l.now().Add(keep)
			put(l, once, key(name), until)
			l.due(backend.JobOnce, until, key(name))
		}
		return nil
	})
	return fresh, err
}
