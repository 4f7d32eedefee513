package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
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
	t.c.nudge()
}

// partNow parts with everything but the hold in hand, whose handler has not asked
// for the transaction, and reports whether it could. t.mu is held.
func (t *batch) partNow() bool {
	if t.over || t.broken != nil || t.c.Consume {
		return false
	}
	ctx, cancel := wait.Cleanup(t.ctx)
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
	t.lease, t.until = true, now.Add(t.c.Lease)
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
	t.until = at.Add(t.c.Lease)
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
	t.lost(t.c.Host.Lost(t.queue.Name))
}

// abandon gives a batch back whose handler does not return.
func (t *batch) abandon() {
	t.leave(func() {
		if t.inHand != nil && t.inHand.tx != nil {
			_ = t.inHand.tx.Close()
		}
		t.broken = t.c.Stopped
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

// heartbeats prolong the leases of all batches until ctx ends.
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
	c.mu.Lock()
	var batches []*batch
	for t := range c.batches {
		batches = append(batches, t)
	}
	c.mu.Unlock()
	var all []*backend.Hold
	var which []*batch
	for _, t := range batches {
		if holds := t.leased(); len(holds) > 0 {
			all, which = append(all, holds...), append(which, t)
		}
	}
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.Lease/3)
	defer cancel()
	now := time.Now()
	err := c.Backend.Extend(ctx, all, c.Lease)
	if err == nil {
		for _, t := range which {
			t.extended(now)
		}
		return
	}
	for _, t := range which { // find out which one is lost
		holds := t.leased()
		if len(holds) == 0 {
			continue
		}
		if errors.Is(err, backend.ErrFenced) {
			if e := c.Backend.Extend(ctx, holds, c.Lease); e == nil {
				t.extended(now)
				continue
			} else if errors.Is(e, backend.ErrFenced) {
				t.lose()
				continue
			}
		}
		t.expire(time.Now())
	}
	if !errors.Is(err, backend.ErrFenced) {
		c.Log.Warn("parley: a heartbeat failed", "event", "lease.heartbeat", "queue", c.name(), "error", err)
	}
}
