package parley

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// task is a call of a handler.
type task struct {
	messages []*Message
	tx       *Tx // what the handler writes in, if it has asked for it
}

// batchPoint is the savepoint before the work of a handler in a batch.
const batchPoint = "parley_batch_work"

// maxPoints is how many savepoints a transaction may have had: more of them
// cost everybody on PostgreSQL, which keeps 64 subtransactions of each at hand.
const maxPoints = 50

// hold notes that a handler is called for messages, and returns its context.
func (t *batch) hold(messages []*Message) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := &task{messages: messages}
	t.inHand = k
	return backend.InsideWork(t.ctx, func(waiting context.Context) backend.Tx { return t.inside(waiting, k) })
}

// openingKey marks the context with which a batch opens its transaction.
type openingKey struct{}

// inside returns the transaction that a call of a handler has asked for. If only
// earlier calls have, their work is committed first: the handler at work would wait
// for the transaction and could not know of it.
func (t *batch) inside(waiting context.Context, k *task) backend.Tx {
	if waiting.Value(openingKey{}) == t {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.inHand != k:
		return nil
	case k.tx != nil:
		return k.tx.be
	case t.tx != nil:
		t.partNow()
	}
	return nil
}

// letGo ends a call: what the handler wrote stays if it succeeded and is undone
// otherwise. It reports whether the batch can go on.
func (t *batch) letGo(err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	tx := t.inHand.tx
	t.inHand = nil
	if tx == nil || t.broken != nil {
		return t.broken == nil
	}
	over := tx.broken
	tx.broken = ErrTxDone // whoever keeps it must not write among the next one's
	if err == nil && over == nil {
		t.dirty = true
		t.merge(tx)
		return true
	}
	if t.w.opt.Isolation == IsolateBatch {
		if t.writers > 1 || !t.alone {
			t.broken = errors.Join(errUndo, err)
			return false
		}
	}
	ctx, cancel := cleanup(t.ctx)
	defer cancel()
	if !t.point {
		t.broken = errors.Join(errUndo, err)
		return false
	}
	if e := tx.be.RollbackTo(ctx, batchPoint); e != nil {
		t.broken = errors.Join(err, e)
		return false
	}
	return true
}

var errReleased = fmt.Errorf("it was released before the work: %w", ErrSettled)

// errUndo: a handler failed, and what it wrote cannot be undone by itself.
var errUndo = errors.New("the batch is undone")

// merge has the batch take over what is to be done after the commit.
func (t *batch) merge(tx *Tx) {
	for q := range tx.touched {
		t.tx.touch(q)
	}
	if tx.sooner > 0 {
		t.tx.soon(tx.sooner)
	}
	t.tx.remains = t.tx.remains || tx.remains
	t.ended = append(t.ended, tx.ended...)
	if tx.cat != nil {
		t.tx.cat = tx.cat
	}
}

// txFor implements receiver: the transaction in which the batch is acknowledged,
// with a savepoint before what this handler does.
func (t *batch) txFor(ctx context.Context, m *Message) (*Tx, error) {
	tx, err := t.open(ctx, m)
	return tx, fail("transaction of message", m.ID.String(), err)
}

// admit waits until the batch may have a connection. It holds none meanwhile.
func (t *batch) admit(ctx context.Context) error {
	t.mu.Lock()
	has := t.tx != nil || t.admitted || t.over || t.w.opt.Release == BeforeWork
	t.mu.Unlock()
	if has {
		return nil
	}
	if err := t.w.b.admitted.wait(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.admitted || t.over {
		t.w.b.admitted.leave()
	} else {
		t.admitted = true
	}
	return nil
}

func (t *batch) open(ctx context.Context, m *Message) (*Tx, error) {
	if err := t.admit(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.w.opt.Release == BeforeWork {
		return nil, errReleased
	}
	if t.over || t.inHand == nil || !t.inHand.has(m) {
		return nil, ErrSettled
	}
	if t.broken != nil {
		return nil, t.broken
	}
	if t.inHand.tx != nil {
		return t.inHand.tx, nil
	}
	if err := context.Cause(t.ctx); err != nil {
		return nil, err
	}
	if t.tx == nil {
		// All of them, before the first savepoint: what is locked behind one is free
		// again when it is rolled back to.
		begun := time.Now()
		err := t.reclaim(context.WithValue(ctx, openingKey{}, t), t.holds)
		t.waited(time.Since(begun))
		if err != nil {
			if errors.Is(err, ErrFenced) {
				t.broken = err
			}
			return nil, err
		}
		t.taken = len(t.holds)
	}
	if err := t.mark(ctx); err != nil {
		return nil, err
	}
	t.writers++
	t.inHand.tx = &Tx{b: t.w.b, be: t.tx.be, held: []ID{t.holds[t.at].Group}}
	return t.inHand.tx, nil
}

func (k *task) has(m *Message) bool {
	for _, x := range k.messages {
		if x == m {
			return true
		}
	}
	return false
}

// mark sets the savepoint before a handler's work. One that nothing was written
// behind serves again.
func (t *batch) mark(ctx context.Context) error {
	if t.w.opt.Isolation == IsolateBatch && !t.alone {
		return nil
	}
	set := t.tx.be.Resave
	switch {
	case !t.point:
		set = t.tx.be.Savepoint
	case !t.dirty:
		return nil
	}
	if err := set(ctx, batchPoint); err != nil {
		return err
	}
	t.points++
	t.point, t.dirty = true, false
	return nil
}

// lateEnds are pauses that leave the server time to find out that a connection is
// lost, and to end what was under way on it.
var lateEnds = []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// reclaim opens the batch's transaction over leased groups. What looks like somebody
// else's may be held by a transaction of the batch's own that was lost.
func (t *batch) reclaim(ctx context.Context, holds []*backend.Hold) (err error) {
	err = t.take(ctx, holds)
	for _, pause := range lateEnds {
		if !t.torn || !errors.Is(err, ErrFenced) {
			break
		}
		sleep(ctx, pause)
		err = t.take(ctx, holds)
	}
	return err
}

// take opens a transaction over leased groups, or fails at once.
func (t *batch) take(ctx context.Context, holds []*backend.Hold) error {
	tx, err := t.w.b.begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.be.Reclaim(ctx, holds); err != nil {
		t.torn = t.torn || !errors.Is(err, ErrFenced)
		tx.rollback(ctx)
		return err
	}
	t.tx = tx
	return nil
}
