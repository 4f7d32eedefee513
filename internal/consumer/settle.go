package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// settle acknowledges what was handled, gives back the groups from next on, and
// commits. t.mu is held.
func (t *batch) settle(next int) error {
	ctx, cancel := wait.Cleanup(t.ctx)
	defer cancel()
	if t.c.Consume {
		return nil
	}
	if t.lease {
		for _, h := range t.holds[next:] {
			t.outcomes = append(t.outcomes, backend.Outcome{Hold: h})
		}
	}
	if t.tx.work == nil {
		err := t.reclaim(ctx, t.holds)
		if errors.Is(err, backend.ErrFenced) {
			return t.settleEach(ctx, t.outcomes)
		}
		if err != nil {
			return err
		}
	}
	return t.commit(ctx, t.outcomes)
}

func (t *batch) commit(ctx context.Context, outcomes []backend.Outcome) error {
	return t.settleIn(ctx, outcomes, nil)
}

// settleIn carries out outcomes in the open transaction and commits. One of the
// holds may be kept on by lease.
func (t *batch) settleIn(ctx context.Context, outcomes []backend.Outcome, keep *backend.Hold) error {
	defer t.dismiss()
	fail := func(err error, undo func(context.Context)) error {
		// The record first: the next receiver of what it names would take this one for dead. But if no other connection
		// is free, the transaction's has to be.
		empty := t.emptyRecord(recordWait / 4)
		undo(ctx)
		if empty != nil {
			t.resetRecord()
		}
		return err
	}
	if err := t.give(ctx, outcomes); err != nil {
		return fail(err, t.tx.undo)
	}
	tx, err := t.tx.detach(ctx)
	if err != nil {
		return fail(err, tx.Rollback)
	}
	if t.q.recorded && (keep != nil || t.q.isolated || t.leaves(outcomes)) {
		// What is given back is not in hand any more. A message that is gone may
		// stay in the record, which the next batch replaces.
		err = tx.Store().ResetReader(ctx, t.q.slot)
	}
	if err == nil {
		err = t.clearTraces(ctx, tx)
	}
	if err == nil {
		_, err = tx.Store().Settle(ctx, outcomes)
	}
	if err == nil && keep != nil {
		err = tx.Store().Keep(ctx, keep, t.c.Lease, t.c.Owner)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return fail(err, tx.Rollback)
	}
	if keep != nil {
		t.q.recorded = false
	}
	t.c.Failures.Forget(outcomes)
	for _, o := range outcomes {
		if o.Defer > 0 {
			t.c.Host.Soon(o.Defer)
		}
	}
	for _, o := range outcomes {
		if o.Removed() < len(o.Hold.Messages) || o.Hold.Messages[0].Stream != o.Hold.Group {
			t.c.Hub.Wake(t.queue.ID) // there may be more in the group
			break
		}
	}
	return nil
}

// leaves reports whether something is given back that is on the batch's record.
func (t *batch) leaves(outcomes []backend.Outcome) bool {
	if len(outcomes) < len(t.holds) {
		return true
	}
	for _, o := range outcomes {
		if len(o.Done) == 0 { // the record has the first message only
			return true
		}
	}
	return false
}

// settleEach settles groups one by one, because some of the leases are lost, and their messages
// come again. Nothing has been written.
func (t *batch) settleEach(ctx context.Context, outcomes []backend.Outcome) error {
	var first error
	for i, o := range outcomes {
		err := t.take(ctx, []*backend.Hold{o.Hold})
		if err == nil {
			err = t.commit(ctx, outcomes[i:i+1])
		}
		switch {
		case errors.Is(err, backend.ErrFenced):
			t.did.fenced += len(o.Done)
		case err != nil && first == nil:
			first = err
		}
	}
	return first
}

// recover handles a batch that could not be settled: its groups are given back and handled again,
// one at a time. If a message was already alone, it is charged whatever the cause. The charge is an
// attempt if its handler broke the transaction, otherwise a tenth of an attempt.
func (t *batch) recover(next int, err error) {
	t.mu.Lock()
	took := time.Since(t.started)
	if !t.lease {
		t.c.wariness.cut(took, err)
	}
	t.tx.torn = t.tx.torn || !errors.Is(err, backend.ErrFenced)
	t.resetRecord()
	t.undo()
	holds := t.holds
	t.giveBack(holds)
	t.mu.Unlock()
	if Is(t.c.Can, err, backend.ErrSerialization) && t.got.messages > 1 {
		t.s.pace.collided(took)
	} else {
		t.s.pace.halve()
	}
	if t.c.Host.Check() != nil || t.c.work.Err() != nil {
		return
	}
	if Unavailable(t.c.Can, err) {
		t.c.refused(t.queue.Name, err)
		return
	}
	t.c.Log.Warn("parley: a batch could not be committed", "event", "batch.failed", "queue", t.queue.Name, "groups", len(holds), "error", err)
	first := holds[0].Messages[0]
	switch {
	case !t.alone && (t.got.messages > 1 || errors.Is(err, errAnswer)):
		if len(holds) == 1 {
			t.c.Failures.Add(first.ID, err)
		}
		groups := make([]backend.ID, 0, len(holds))
		for i, h := range holds {
			if i < max(next, 1) {
				groups = append(groups, h.Group)
			}
		}
		t.c.redo(t.s, groups)
	case t.charged != nil:
		wait.Sleep(t.c.stop, wait.Jitter(TransientPause)) // the store's own trouble
	default:
		t.c.unsettled(t.s, first, err)
	}
}

// unsettled counts that a message could not be acknowledged, whatever the cause. The
// reader that gets it next charges it if that is due: this one may not get it.
func (c *Consumer) unsettled(s *source, m *backend.Message, err error) {
	if Transient(c.Can, err) && !c.CountTransient {
		wait.Sleep(c.stop, Spared(c.Failures.Add(m.ID, err)))
		return
	}
	c.Failures.Charge(m.ID, err)
	c.redo(s, []backend.ID{m.Group})
}

// undo rolls the batch's transaction back. t.mu is held.
func (t *batch) undo() {
	t.tx.undo(t.ctx)
	t.dismiss()
}

// giveBack ends leases of groups that were not settled. If it cannot, they end by
// themselves. t.mu is held.
func (t *batch) giveBack(holds []*backend.Hold) {
	if !t.lease {
		return
	}
	ctx, cancel := wait.Cleanup(t.ctx)
	defer cancel()
	for i := 0; ; i++ { // as reclaim does, for all of them together
		var left []*backend.Hold
		for _, h := range holds {
			err := t.take(ctx, []*backend.Hold{h})
			if err == nil {
				err = t.commit(ctx, []backend.Outcome{{Hold: h}})
			}
			if err != nil && (t.tx.torn || !errors.Is(err, backend.ErrFenced)) {
				left = append(left, h)
			}
		}
		if holds = left; len(holds) == 0 || i == len(lateEnds) {
			return
		}
		wait.Sleep(ctx, lateEnds[i])
	}
}
