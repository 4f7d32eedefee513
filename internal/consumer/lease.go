package consumer

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/lease"
	"github.com/parleymq/parley/internal/wait"
)

// overdue is called when a batch has taken its time. If its handler at work has
// not asked for the transaction, it goes on by lease, and the others are settled
// or given back now.
func (t *batch) overdue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
	case t.inHand == nil: // the next call may be about to begin
		t.timer.Reset(time.Millisecond)
	case t.inHand.tx == nil && t.partNow():
		t.c.nudge()
	}
}

// partNow parts with everything but the hold in hand, whose handler has not asked
// for the transaction, and reports whether it could. t.mu is held.
func (t *batch) partNow() bool {
	if t.over || t.tx.broken != nil || t.c.Consume {
		return false
	}
	ctx, cancel := wait.Cleanup(t.ctx)
	defer cancel()
	if err := t.part(ctx); err != nil {
		t.tx.broken = err
		t.calls.lost(err)
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
	if t.tx.work == nil {
		if err := t.reclaim(ctx, t.holds); err != nil {
			return err
		}
	}
	now := time.Now()
	if err := t.settleIn(ctx, outcomes, mine); err != nil {
		return err
	}
	parted := t.settled(outcomes)
	parted.Groups, parted.Returned, parted.Took = len(t.holds)-1, len(t.holds)-1-t.at, time.Since(now)
	t.did.parted = append(t.did.parted, parted)
	t.holds, t.at, t.outcomes, t.current = []*backend.Hold{mine}, 0, nil, t.outcome(mine)
	t.lease, t.until = true, now.Add(t.c.Lease)
	t.tx.dirty, t.tx.writers, t.tx.points = false, 0, 0
	return nil
}

// Leased implements lease.Holder.
func (t *batch) Leased() []*backend.Hold {
	if !t.mu.TryLock() { // a transaction is being opened or ended
		return nil
	}
	defer t.mu.Unlock()
	if !t.lease || t.over || t.tx.broken != nil {
		return nil
	}
	return t.holds[t.tx.taken:]
}

// Extended implements lease.Holder.
func (t *batch) Extended(sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = sent.Add(t.c.Lease)
}

// Expired implements lease.Holder.
func (t *batch) Expired(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.After(t.until)
}

// Lost implements lease.Holder: the handler at work is told.
func (t *batch) Lost() { t.calls.lost(t.c.Host.Lost(t.queue.Name)) }

// abandon gives a batch back whose handler does not return.
func (t *batch) abandon() {
	t.leave(func() {
		if t.inHand != nil && t.inHand.tx != nil {
			_ = t.inHand.tx.Close()
		}
		t.tx.broken = t.c.Stopped
	})
}

// exit gives a batch back whose handler ended the goroutine.
func (t *batch) exit() { t.leave(func() {}) }

// leave ends a batch that is not settled, unless that has happened.
func (t *batch) leave(first func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	first()
	t.resetRecord()
	t.undo()
	t.giveBack(t.holds)
}

// heartbeats extend the leases of all batches until ctx ends.
func (c *Consumer) heartbeats(ctx context.Context) {
	tick := time.NewTicker(c.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.heartbeat(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (c *Consumer) heartbeat(ctx context.Context) {
	var batches []lease.Holder[*backend.Hold]
	for _, t := range c.atWork() {
		batches = append(batches, t)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Lease/3)
	defer cancel()
	err := lease.Beat(batches, func(holds []*backend.Hold) error { return c.Backend.Extend(ctx, holds, c.Lease) })
	if err != nil {
		c.Log.Warn("parley: a heartbeat failed", "event", "lease.heartbeat", "queue", c.name(), "error", err)
	}
}
