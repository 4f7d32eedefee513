package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/lease"
	"github.com/parleymq/parley/internal/wait"
)

// call is a call of a handler.
type call struct {
	raw      []*backend.Message
	messages Messages
	tx       Work     // what the handler writes in, if it has asked for it
	answers  []Answer // that are to be given later
}

// transaction is that in which a batch is acknowledged. The batch's mu guards it.
type transaction struct {
	work    Work  // nil: none is open
	taken   int   // how many of the batch's holds, from the first on, it has reclaimed
	broken  error // it is lost, and with it what the batch has done
	torn    bool  // a lost transaction may still be open on the server
	point   bool  // a savepoint stands in it
	points  int   // savepoints that it has had
	dirty   bool  // a handler that succeeded has written since the last one
	writers int   // handlers that wrote

	ended []backend.ID // conversations that handlers ended
	owed  debt
}

// batchPoint is the savepoint before the work of a handler in a batch.
const batchPoint = "parley_batch_work"

// maxPoints is how many savepoints a transaction may have had: more of them
// cost everybody on PostgreSQL, which keeps 64 subtransactions of each at hand.
const maxPoints = 50

// hold notes that a handler is called, and returns its context.
func (t *batch) hold(k *call) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.tx, k.answers, t.inHand = nil, nil, k
	return backend.InsideWork(t.begun(k.raw), func(waiting context.Context) backend.Tx { return t.inside(waiting, k) })
}

// openingKey marks the context with which a batch opens its transaction.
type openingKey struct{}

// inside returns the transaction that a call of a handler has asked for. If only
// earlier calls have, their work is committed first: the handler at work would wait
// for the transaction and could not know of it.
func (t *batch) inside(waiting context.Context, k *call) backend.Tx {
	if waiting.Value(openingKey{}) == t {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.inHand != k:
		return nil
	case k.tx != nil:
		return k.tx.Store()
	case t.tx.work != nil:
		t.partNow()
	}
	return nil
}

// letGo ends a call: what the handler wrote stays if it succeeded and is undone
// otherwise. Its messages are acknowledged at the same moment, so that whatever settles the batch meanwhile has
// both or neither. It reports whether the batch can go on.
func (t *batch) letGo(err error, acknowledged []*backend.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.inHand
	tx := k.tx
	t.inHand = nil
	t.ended()
	if t.tx.broken != nil {
		return false
	}
	if tx != nil {
		if over := tx.Close(); err == nil && over != nil { // a handler that keeps it must not write into the next handler's
			t.tx.broken = errors.Join(errUndo, over)
			return false
		}
	}
	switch {
	case err == nil:
		if tx == nil {
			t.owe(k)
		} else {
			t.tx.dirty = true
			t.tx.ended = append(t.tx.ended, t.tx.work.Merge(tx)...)
		}
		t.current.Done = append(t.current.Done, acknowledged...)
		t.did.handled += len(acknowledged)
		return true
	case tx == nil:
		return true
	case !t.tx.point, t.c.IsolateBatch && (t.tx.writers > 1 || !t.alone):
		t.tx.broken = errors.Join(errUndo, err)
		return false
	}
	ctx, cancel := wait.Cleanup(t.ctx)
	defer cancel()
	if e := tx.Store().RollbackTo(ctx, batchPoint); e != nil {
		t.tx.broken = errors.Join(err, e)
		return false
	}
	return true
}

// errUndo: a handler failed, and what it wrote cannot be undone by itself.
var errUndo = errors.New("the batch is undone")

// admit waits until the batch may have a connection. It holds none meanwhile. The function that it
// returns is to be called when the batch has it.
func (t *batch) admit(ctx context.Context) (opened func() bool, err error) {
	opened = func() bool { return true }
	t.mu.Lock()
	has := t.tx.work != nil || t.admitted || t.over || t.c.Consume
	t.mu.Unlock()
	if has {
		return opened, nil
	}
	if err := t.c.Admission.Wait(ctx); err != nil {
		return opened, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admitted || t.over {
		t.c.Admission.Opened()
		t.c.Admission.Leave()
		return opened, nil
	}
	t.admitted = true
	return t.c.Admission.Opened, nil
}

// open returns the transaction in which a call works: that in which the batch is
// acknowledged, with a savepoint before what this handler does.
func (t *batch) open(ctx context.Context, k *call) (Work, error) {
	for {
		opened, err := t.admit(ctx)
		if err != nil {
			return nil, err
		}
		tx, again, err := t.enter(ctx, k, opened)
		if !again {
			return tx, err
		}
	}
}

// enter is open for a batch that may have a connection. The result again says that it may not any more.
func (t *batch) enter(ctx context.Context, k *call, opened func() bool) (tx Work, again bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	began, err := t.ready(ctx, k)
	if fits := opened(); began && !fits {
		t.undo()
		return nil, true, nil
	}
	if err != nil || k.tx != nil {
		return k.tx, false, err
	}
	if err := t.giveAll(ctx); err != nil {
		return nil, false, err
	}
	if !t.c.IsolateBatch || t.alone {
		if err := t.tx.mark(ctx); err != nil {
			return nil, false, err
		}
	}
	t.tx.writers++
	k.tx = t.tx.work.Part(t.holds[t.at].Group)
	return k.tx, false, t.giveOwn(ctx, k)
}

// ready makes sure that the batch's transaction is open, and reports whether it has begun it. t.mu is held.
func (t *batch) ready(ctx context.Context, k *call) (began bool, err error) {
	switch cause := context.Cause(t.ctx); {
	case t.c.Consume || t.over || t.inHand != k:
		return false, ErrOver
	case t.tx.broken != nil:
		return false, t.tx.broken
	case k.tx != nil:
		return false, nil
	case cause != nil:
		return false, cause
	case t.tx.work != nil:
		return false, nil
	}
	// All holds, before the first savepoint: what is locked behind one is free
	// again when it is rolled back to.
	start := time.Now()
	err = t.reclaim(context.WithValue(ctx, openingKey{}, t), t.holds)
	t.waited(time.Since(start))
	switch {
	case errors.Is(err, backend.ErrFenced):
		t.tx.broken = err
	case err == nil:
		t.tx.taken = len(t.holds)
	}
	return err == nil, err
}

// mark sets the savepoint before a handler's work. It keeps the savepoint that is there if
// nothing was written since.
func (x *transaction) mark(ctx context.Context) error {
	if x.point && !x.dirty {
		return nil
	}
	if err := x.setPoint(ctx); err != nil {
		return err
	}
	x.points++
	x.point, x.dirty = true, false
	return nil
}

// setPoint sets the savepoint, or sets it again.
func (x *transaction) setPoint(ctx context.Context) error {
	store := x.work.Store()
	if x.point {
		if err := store.Resave(ctx, batchPoint); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if err := store.Release(ctx, batchPoint); err != nil {
			return err
		}
	}
	return store.Savepoint(ctx, batchPoint)
}

// detach takes the open transaction out, for it to be committed, and releases its savepoint. That
// finds out whether the engine has given up the transaction without the handler telling.
func (x *transaction) detach(ctx context.Context) (Work, error) {
	work, point := x.work, x.point
	x.work, x.taken, x.point = nil, 0, false
	if !point {
		return work, nil
	}
	return work, work.Store().Release(ctx, batchPoint)
}

// undo rolls back what is open.
func (x *transaction) undo(ctx context.Context) {
	if x.work != nil {
		x.work.Rollback(ctx)
	}
	x.work, x.taken, x.point, x.dirty = nil, 0, false, false
}

// lateEnds are pauses that leave the server time to find out that a connection is
// lost, and to end what was under way on it.
var lateEnds = []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// reclaim opens the batch's transaction over leased groups. A lease that
// looks like another receiver's may be locked by a transaction of the batch's own that was
// lost.
func (t *batch) reclaim(ctx context.Context, holds []*backend.Hold) (err error) {
	err = t.take(ctx, holds)
	for _, pause := range lateEnds {
		if !t.tx.torn || !errors.Is(err, backend.ErrFenced) {
			break
		}
		wait.Sleep(ctx, pause)
		err = t.take(ctx, holds)
	}
	return err
}

// take opens a transaction over leased groups, or fails at once.
func (t *batch) take(ctx context.Context, holds []*backend.Hold) error {
	begun := false
	tx, err := lease.Take(ctx, func(ctx context.Context) (Work, error) {
		tx, err := t.c.Host.Begin(ctx)
		begun = err == nil
		return tx, err
	}, holds)
	if err != nil {
		t.tx.torn = t.tx.torn || begun && !errors.Is(err, backend.ErrFenced)
		return err
	}
	t.tx.work = tx
	return nil
}
