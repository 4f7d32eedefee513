package parley

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// overdue is called when a batch has taken its time. If its handler at work has
// not asked for the transaction, it goes on by lease, and the others are settled
// or given back now.
func (t *batch) overdue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inHand == nil || t.inHand.tx != nil || !t.partNow() {
		return
	}
	t.w.nudge()
	t.w.spawn(0, false)
}

// partNow parts with everything but the hold in hand, whose handler has not asked
// for the transaction, and reports whether it could. t.mu is held.
func (t *batch) partNow() bool {
	if t.over || t.broken != nil || t.w.opt.Release == BeforeWork {
		return false
	}
	ctx, cancel := cleanup(t.ctx)
	defer cancel()
	if err := t.part(ctx); err != nil {
		t.broken = err
		t.lost(err)
		return false
	}
	return true
}

// part settles what has been handled, gives back what has not, and keeps the
// hold in hand by lease. t.mu is held.
func (t *batch) part(ctx context.Context) error {
	mine := t.holds[t.at]
	outcomes := append(t.outcomes, t.current)
	if t.lease {
		for _, h := range t.holds[t.at+1:] {
			outcomes = append(outcomes, backend.Outcome{Hold: h})
		}
	}
	if t.tx == nil {
		if err := t.reclaim(ctx, t.holds); err != nil {
			return err
		}
	}
	now := time.Now()
	if err := t.settleIn(ctx, outcomes, mine); err != nil {
		return err
	}
	t.holds, t.at, t.outcomes, t.current = []*backend.Hold{mine}, 0, nil, t.outcome(mine)
	t.lease, t.until = true, now.Add(t.w.opt.Lease)
	t.dirty, t.writers, t.points = false, 0, 0
	return nil
}

// leased returns the holds that live by heartbeats.
func (t *batch) leased() []*backend.Hold {
	if !t.mu.TryLock() { // a transaction is being opened or ended
		return nil
	}
	defer t.mu.Unlock()
	if !t.lease || t.over || t.broken != nil {
		return nil
	}
	return t.holds[t.taken:]
}

// extended takes note of a heartbeat that was sent at a time.
func (t *batch) extended(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = at.Add(t.w.opt.Lease)
}

// expire ends the batch if its leases have run out.
func (t *batch) expire(now time.Time) {
	t.mu.Lock()
	over := now.After(t.until)
	t.mu.Unlock()
	if over {
		t.lose()
	}
}

// lose tells the handler at work that its lease was lost.
func (t *batch) lose() {
	t.lost(&Error{Op: "heartbeat", Object: objQueue(t.s.name), Err: ErrFenced, Hint: "the lease was lost: the messages will be delivered again"})
}

// abandon gives a batch back whose handler does not return.
func (t *batch) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	if t.inHand != nil && t.inHand.tx != nil {
		t.inHand.tx.broken = ErrTxDone
	}
	t.broken = ErrStopped
	t.putDown()
	t.undo()
	t.giveBack(t.holds)
}

// exit gives a batch back whose handler ended the goroutine.
func (t *batch) exit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	t.putDown()
	t.undo()
	t.giveBack(t.holds)
}
