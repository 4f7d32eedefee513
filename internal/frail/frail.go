// Package frail has a backend whose connections break on command, for tests of what is built on backends.
package frail

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// Backend is a handle whose connections can break. Then its transactions are rolled back, as when a
// store loses a client, and every call fails. A Backend that is dead is a process that died.
type Backend struct {
	backend.Backend
	dead atomic.Bool
	// OnCommit, if set, is asked before each commit; an error stands for one of the
	// engine's, which has given up the transaction.
	OnCommit func() error
	// AfterCommit, if set, is called when a commit has happened, before its caller learns of it.
	AfterCommit func()
	// Late is how long a transaction that was cut off stays open in the store.
	Late time.Duration

	mu   sync.Mutex
	open map[*Tx]struct{}
}

// Tx is a transaction of a Backend.
type Tx struct {
	backend.Tx
	f *Backend
	// lost is why the transaction is gone.
	lost atomic.Pointer[error]
}

// ErrBroken is the error of a handle that is dead.
var ErrBroken = fmt.Errorf("broken by the test: %w", backend.ErrConnection)

// New wraps a handle.
func New(be backend.Backend) *Backend {
	return &Backend{Backend: be, open: make(map[*Tx]struct{})}
}

// Die is the death of the process: nothing it does reaches the store any more.
func (f *Backend) Die() {
	f.dead.Store(true)
	f.Cut(ErrBroken)
}

// Revive has a handle that died work again: its process can reach the store once more.
func (f *Backend) Revive() { f.dead.Store(false) }

// Cut ends all transactions, as the loss of their connections would.
func (f *Backend) Cut(why error) {
	f.mu.Lock()
	var open []*Tx
	for tx := range f.open {
		open = append(open, tx)
	}
	f.mu.Unlock()
	// All at once: a verb of one may be waiting for another one.
	var ended sync.WaitGroup
	for _, tx := range open {
		ended.Go(func() { tx.End(why) })
	}
	ended.Wait()
}

// End ends the transaction for a reason, which its verbs return from then on.
func (tx *Tx) End(why error) {
	if !tx.lost.CompareAndSwap(nil, &why) {
		return
	}
	if tx.f.Late == 0 {
		tx.Tx.Rollback(context.Background())
		return
	}
	time.AfterFunc(tx.f.Late, func() { tx.Tx.Rollback(context.Background()) })
}

func (f *Backend) Begin(ctx context.Context) (backend.Tx, error) {
	if f.dead.Load() {
		return nil, ErrBroken
	}
	tx, err := f.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	ft := &Tx{Tx: tx, f: f}
	f.mu.Lock()
	f.open[ft] = struct{}{}
	f.mu.Unlock()
	if f.dead.Load() { // it died meanwhile
		ft.End(ErrBroken)
	}
	return ft, nil
}

func (f *Backend) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	if f.dead.Load() {
		return backend.Maintained{}, ErrBroken
	}
	return f.Backend.Maintain(ctx, job, limit)
}

func (f *Backend) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	if f.dead.Load() {
		return ErrBroken
	}
	return f.Backend.Extend(ctx, holds, d)
}

func (f *Backend) PutReader(ctx context.Context, a backend.ReaderRecord) ([]backend.Trace, error) {
	if f.dead.Load() {
		return nil, ErrBroken
	}
	return f.Backend.PutReader(ctx, a)
}

func (f *Backend) ExtendReaders(ctx context.Context, worker backend.ID, d time.Duration) error {
	if f.dead.Load() {
		return ErrBroken
	}
	return f.Backend.ExtendReaders(ctx, worker, d)
}

func (f *Backend) RemoveReaders(ctx context.Context, worker, reader backend.ID) error {
	if f.dead.Load() {
		return ErrBroken
	}
	return f.Backend.RemoveReaders(ctx, worker, reader)
}

func (tx *Tx) gone() error {
	if why := tx.lost.Load(); why != nil {
		return *why
	}
	return nil
}

func (tx *Tx) done() {
	tx.f.mu.Lock()
	delete(tx.f.open, tx)
	tx.f.mu.Unlock()
}

// or returns why the transaction is gone, if it is, also if it went meanwhile.
func (tx *Tx) or(do func() error) error {
	err := tx.gone()
	if err == nil {
		err = do()
	}
	if why := tx.gone(); why != nil {
		return why
	}
	return err
}

func (tx *Tx) Savepoint(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.Savepoint(ctx, name) })
}

func (tx *Tx) Release(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.Release(ctx, name) })
}

func (tx *Tx) Resave(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.Resave(ctx, name) })
}

func (tx *Tx) RollbackTo(ctx context.Context, name string) error {
	return tx.or(func() error { return tx.Tx.RollbackTo(ctx, name) })
}

func (tx *Tx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	return tx.or(func() error { return tx.Tx.Reclaim(ctx, holds) })
}

func (tx *Tx) Keep(ctx context.Context, h *backend.Hold, lease time.Duration, owner string) error {
	return tx.or(func() error { return tx.Tx.Keep(ctx, h, lease, owner) })
}

func (tx *Tx) ResetReader(ctx context.Context, reader backend.ID) error {
	return tx.or(func() error { return tx.Tx.ResetReader(ctx, reader) })
}

func (tx *Tx) ClearTraces(ctx context.Context, traces []backend.Trace) error {
	return tx.or(func() error { return tx.Tx.ClearTraces(ctx, traces) })
}

func (tx *Tx) Claim(ctx context.Context, r backend.ClaimRequest) (c backend.Claim, err error) {
	err = tx.or(func() error { c, err = tx.Tx.Claim(ctx, r); return err })
	return c, err
}

func (tx *Tx) Settle(ctx context.Context, o []backend.Outcome) (again bool, err error) {
	err = tx.or(func() error { again, err = tx.Tx.Settle(ctx, o); return err })
	return again, err
}

func (tx *Tx) Post(ctx context.Context, version int64, ps []backend.Posting) (p []backend.Posted, err error) {
	err = tx.or(func() error { p, err = tx.Tx.Post(ctx, version, ps); return err })
	return p, err
}

// Commit cannot be cut off in the middle: it has happened or not.
func (tx *Tx) Commit(ctx context.Context) error {
	defer tx.done()
	if tx.f.OnCommit != nil {
		if err := tx.f.OnCommit(); err != nil {
			tx.End(err)
			return err
		}
	}
	committing := errors.New("committed")
	if !tx.lost.CompareAndSwap(nil, &committing) {
		return tx.gone()
	}
	err := tx.Tx.Commit(ctx)
	if err != nil { // it may be open yet, and our Rollback does nothing any more
		tx.Tx.Rollback(context.Background())
	} else if tx.f.AfterCommit != nil {
		tx.f.AfterCommit()
	}
	return err
}

func (tx *Tx) Rollback(ctx context.Context) error {
	tx.done()
	if tx.gone() != nil {
		return nil
	}
	return tx.Tx.Rollback(ctx)
}
