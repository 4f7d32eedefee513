package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// source is a queue of a consumer.
type source struct {
	queue  backend.Queue
	id     backend.ID // of the record that the consumer serves it
	claims *claimLimiter
	pace   *pace

	mu  sync.Mutex
	off time.Time // nothing to be had until then: the queue is disabled
}

// look claims from the first queue that has a free group, beginning with the queue whose turn it
// is. The result more says that there are groups, but none was free.
func (c *Consumer) look(idle bool) (t *batch, more bool, err error) {
	queues := c.inTurn()
	for round := range 2 {
		for _, s := range queues {
			if s.isOff() {
				continue
			}
			groups, messages := s.pace.next(idle)
			if c.pausing() {
				groups, messages = 1, 1
			}
			r := backend.ClaimRequest{MaxGroups: groups, MaxMessages: messages}
			var t *batch
			got, e := Walk(c.stop, r, func(r backend.ClaimRequest) (got backend.Claim, err error) {
				t, got, err = c.claim(s, r)
				return got, err
			})
			if errors.Is(e, backend.ErrQueueDisabled) {
				c.rest(s)
				continue
			}
			if e != nil {
				if errors.Is(e, backend.ErrSerialization) {
					s.pace.halve() // it may have been too large for the store
				}
				err = errors.Join(err, e)
				continue
			}
			more = more || got.Contended
			if t != nil {
				t.outlook.spent = len(t.holds) < groups && !got.More && len(c.sources) == 1
				return t, more, nil
			}
		}
		if round > 0 || err != nil || !c.NoMaintenance {
			break
		}
		// Nothing else in this process makes due what is due.
		if moved, e := c.Host.Due(c.stop); e != nil || !moved {
			err = e
			break
		}
	}
	return nil, more, err
}

// Walk repeats a claim for as long as it leaves a walk to go on with.
func Walk(
	ctx context.Context, r backend.ClaimRequest, claim func(backend.ClaimRequest) (backend.Claim, error),
) (c backend.Claim, err error) {
	for {
		c, err = claim(r)
		if r.Walk = c.Walk; err != nil || r.Walk == nil {
			return c, err
		}
		if err := ctx.Err(); err != nil {
			return c, err
		}
	}
}

// LogDiscarded tells of messages that a claim has removed.
func LogDiscarded(log *slog.Logger, c backend.Claim, queue int64) {
	if c.Discarded > 0 {
		log.Info("parley: messages for conversations that their receiver had ended were removed",
			"queue", queue, "messages", c.Discarded)
	}
}

func (s *source) isOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.off)
}

// rest leaves a disabled queue alone for a while. Enabling a queue wakes its receivers, so
// that there is no need to ask all the time.
func (c *Consumer) rest(s *source) {
	s.mu.Lock()
	fresh := s.off.IsZero() || time.Since(s.off) > time.Minute
	s.off = time.Now().Add(c.Poll / 2)
	s.mu.Unlock()
	if fresh {
		c.Log.Warn("parley: a worker waits for its queue to be enabled", "event", "queue.disabled", "queue", s.queue.Name)
	}
}

// claim makes one claim in a separate transaction.
func (c *Consumer) claim(s *source, r backend.ClaimRequest) (t *batch, got backend.Claim, err error) {
	if !s.claims.enter(c.stop, r.MaxGroups) {
		return nil, got, nil
	}
	start := time.Now()
	t, got, err = c.take(c.stop, s, &r)
	s.claims.leave(r.MaxGroups)
	e := Claimed{Queue: s.queue.Name, Groups: len(got.Holds), Took: time.Since(start), Err: err}
	defer func() { c.Host.Claimed(c.stop, e) }()
	if err != nil || len(got.Holds) == 0 {
		return nil, got, err
	}
	t.begin(got, start, r.MaxMessages)
	e.Messages = t.got.messages
	for _, h := range got.Holds {
		e.IDs = appendIDs(e.IDs, h.Messages)
	}
	if err := t.clearSuspects(c.stop); err != nil {
		t.cancel()
		e.Err = err
		return nil, got, err
	}
	t.got.took = time.Since(start)
	return t, got, nil
}

// take has the store claim, and commits where that is all there is to do in the
// claim's transaction.
func (c *Consumer) take(
	ctx context.Context, s *source, r *backend.ClaimRequest,
) (t *batch, got backend.Claim, err error) {
	err = c.Host.Queue(ctx, s.queue.Name, func(version int64, q backend.Queue) error {
		t = &batch{c: c, s: s, queue: q, lease: c.ByLease && !c.Consume}
		tx, err := c.Host.Begin(ctx)
		if err != nil {
			return err
		}
		keep := false
		defer func() {
			if !keep {
				tx.Rollback(ctx)
			}
			if t.tx.work == nil {
				t.dismiss()
			}
		}()
		if !t.lease && !c.Consume {
			t.admitted = !c.wariness.wary() && c.Admission.Enter(0)
			t.lease = !t.admitted
			if t.lease && !c.leases.Load() {
				c.leases.Store(true)
			}
		}
		t.request(r, q, version)
		if got, err = tx.Store().Claim(ctx, *r); err != nil {
			return err
		}
		LogDiscarded(c.Log, got, q.ID)
		switch {
		case len(got.Holds) == 0 && got.Discarded > 0, len(got.Holds) > 0 && (t.lease || r.Consume):
			keep = true
			return tx.Commit(ctx)
		case len(got.Holds) > 0:
			keep = true
			t.tx.work = tx
		}
		return nil
	})
	return t, got, err
}

// request completes a claim's request.
func (t *batch) request(r *backend.ClaimRequest, q backend.Queue, version int64) {
	r.Version, r.Queue, r.MaxBytes, r.Owner, r.Alone = version, q.ID, 4<<20, t.c.Owner, true
	switch {
	case t.c.Consume:
		r.Consume, r.Retain, r.Keep = true, q.Retention, q.KeepProcessed
	case t.lease:
		r.Lease = t.c.Lease
	}
}

// one claims the first message of a group, for a separate batch.
func (c *Consumer) one(s *source, group backend.ID) (*batch, error) {
	t, _, err := c.claim(s, backend.ClaimRequest{Group: group, MaxGroups: 1, MaxMessages: 1})
	if t != nil {
		t.alone = true
	}
	return t, err
}

// redo handles groups one by one, each in a separate batch, after a batch that
// they were in failed as a whole.
func (c *Consumer) redo(s *source, groups []backend.ID) {
	for _, g := range groups {
		if !c.may() {
			return
		}
		t, err := c.one(s, g)
		if err != nil {
			return // another receiver finds it
		}
		if t != nil {
			t.run()
		}
	}
}

// charge lets a message pay for the failure of a batch that it was alone in.
func (c *Consumer) charge(s *source, m *backend.Message, err error) {
	t, e := c.one(s, m.Group)
	if e != nil || t == nil {
		return
	}
	if first := t.holds[0].Messages; len(first) > 0 && first[0].ID == m.ID {
		t.charged = err
	}
	t.run()
}

// disable carries out the decision to disable a queue.
func (c *Consumer) disable(queue string) {
	ctx, cancel := context.WithTimeout(c.Life, 10*time.Second)
	defer cancel()
	if err := c.Host.Disable(ctx, queue); err != nil {
		c.Log.Error("parley: a queue with a poison message could not be disabled",
			"event", "queue.disable", "queue", queue, "error", err)
	}
}
