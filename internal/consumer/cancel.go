package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// A post that is in hand is cancelled by a request, a row of a separate table. The consumer reads
// these rows while something is in hand for longer than most handlers take. It also reads them when
// told of a new row. Other programs pay nothing.
const (
	// requestAge is how long a batch is in hand before the consumer looks for requests.
	requestAge = 500 * time.Millisecond
	// requestEvery is how often it looks then. Together they are at most a second.
	requestEvery = time.Second
)

// requests are the posts and tasks whose receivers were asked to stop.
type requests map[backend.ID]struct{}

// lookout is what a consumer knows of requests.
type lookout struct {
	found  atomic.Pointer[requests] // by the last look
	failed sync.Once                // for the log
}

// wants reports whether a message is to be cancelled. Messages of conversations cannot be.
func (r *requests) wants(m *backend.Message) bool {
	if r == nil || !m.Handle.IsZero() {
		return false
	}
	_, ok := (*r)[m.ID]
	return ok
}

// cancelled reports whether a message of the batch is to be cancelled. A message that was taken out
// before the work is done already.
func (t *batch) cancelled(m *backend.Message) bool {
	return !t.c.Consume && t.c.lookout.found.Load().wants(m)
}

// calls has the contexts of a batch's handler calls.
type calls struct {
	lost context.CancelCauseFunc // ends that of all; set by begin

	mu     sync.Mutex // guards what follows
	ctx    context.Context
	cancel context.CancelCauseFunc
	since  time.Time // of the first call
	inHand []*backend.Message
}

// begun returns the context of a call. Calls of a batch share it until one of them is cancelled.
func (t *batch) begun(raw []*backend.Message) context.Context {
	x := &t.calls
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx == nil || x.ctx.Err() != nil {
		x.ctx, x.cancel = context.WithCancelCause(t.ctx)
	}
	if x.since.IsZero() {
		x.since = time.Now()
	}
	if x.inHand = raw; slices.ContainsFunc(raw, t.cancelled) {
		x.cancel(backend.ErrCancelled)
	}
	return x.ctx
}

// tell ends the context of the call at work if one of its messages is to be cancelled.
func (t *batch) tell() {
	x := &t.calls
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.ContainsFunc(x.inHand, t.cancelled) {
		x.cancel(backend.ErrCancelled)
	}
}

// ended notes that a call is over.
func (t *batch) ended() {
	t.calls.mu.Lock()
	defer t.calls.mu.Unlock()
	t.calls.inHand = nil
}

// drop takes the messages that are to be cancelled out of a call that has failed, and reports
// whether the group goes on behind them.
func (t *batch) drop(raw []*backend.Message) bool {
	all := true
	for _, m := range raw {
		if t.cancelled(m) {
			t.giveUp(m)
		} else {
			all = false
		}
	}
	return all
}

// giveUp settles a message as cancelled.
func (t *batch) giveUp(m *backend.Message) {
	t.c.Log.Info("parley: a message was cancelled", "event", "message.cancelled",
		"queue", t.queue.Name, "type", m.Type, "message", m.ID.String())
	t.did.cancelled++
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current.Cancelled = append(t.current.Cancelled, m)
}

// watchRequests tells handlers of requests to cancel their messages until ctx ends.
func (c *Consumer) watchRequests(ctx context.Context) {
	tick := time.NewTicker(requestAge)
	defer tick.Stop()
	for last := time.Now(); ; {
		told, forget := c.Hub.WatchOnly(c.Hub.Ticket(), backend.CancelTopic)
		look := false
		select {
		case <-told:
			look = c.inHandFor(0)
		case <-tick.C:
			look = time.Since(last) > requestEvery-requestAge/2 && c.inHandFor(requestAge)
		case <-ctx.Done():
		}
		forget()
		if ctx.Err() != nil {
			return
		}
		if look {
			last = time.Now()
			if errors.Is(c.lookForRequests(ctx), errors.ErrUnsupported) {
				return
			}
		}
	}
}

// inHandFor reports whether a batch has been in hand for a time.
func (c *Consumer) inHandFor(d time.Duration) bool {
	for _, t := range c.atWork() {
		t.calls.mu.Lock()
		since := t.calls.since
		t.calls.mu.Unlock()
		if !since.IsZero() && time.Since(since) >= d {
			return true
		}
	}
	return false
}

// lookForRequests reads the requests, and tells the handlers that they concern.
func (c *Consumer) lookForRequests(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, aliveFor/3)
	defer cancel()
	list, err := c.Backend.CancelRequests(limited)
	if err != nil {
		if !Gone(err) && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
			c.lookout.failed.Do(func() {
				c.Log.Warn("parley: a worker cannot look for requests to cancel what it has in hand; trying again",
					"event", "cancel.look", "queue", c.name(), "error", err)
			})
		}
		return err
	}
	found := make(requests, len(list))
	for _, r := range list {
		found[r.ID] = struct{}{}
	}
	c.lookout.found.Store(&found)
	if len(found) > 0 {
		for _, t := range c.atWork() {
			t.tell()
		}
	}
	return nil
}
