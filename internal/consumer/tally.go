package consumer

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// How many of the last calls of handlers have to fail for one reason, and in how
// many groups, for the worker to slow down.
const (
	tallied    = 32
	tallyFails = 28
	tallyKinds = 16
)

// tally knows the outcome of the last calls of handlers.
type tally struct {
	failures atomic.Int64 // among them

	mu    sync.Mutex
	calls [tallied]called // all successes at first
	next  int
}

// called is what became of a call of a handler: why it failed, "" if it did not.
type called struct {
	reason string
	group  backend.ID
}

// add takes note of a call, and reports whether most have failed for its reason.
func (y *tally) add(c called) bool {
	if c.reason == "" && y.failures.Load() == 0 {
		return false
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.calls[y.next] = c
	y.next = (y.next + 1) % tallied
	failed, alike, groups := 0, 0, make(map[backend.ID]struct{})
	for _, x := range y.calls {
		if x.reason != "" {
			failed++
		}
		if x.reason == c.reason {
			alike++
			groups[x.group] = struct{}{}
		}
	}
	y.failures.Store(int64(failed))
	return c.reason != "" && alike >= tallyFails && len(groups) >= tallyKinds
}

func (y *tally) reset() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.calls = [tallied]called{}
	y.failures.Store(0)
}

// did takes note of the outcome of a handler's call. A decision of the handler's
// about its message is no failure.
func (c *Consumer) did(queue string, group backend.ID, err error) {
	switch {
	case c.Drain: // it ends by itself
	case err == nil:
		c.tally.add(called{group: group})
		if c.slowdown.end(c.Log, queue) {
			c.tally.reset()
			c.nudge()
		}
	case c.tally.add(called{rootReason(err), group}), c.slowdown.active.Load():
		c.slowdown.begin(c.Log, queue, err)
	}
}

// rootReason is what an error has in common with others of the same cause: the
// first line of the innermost error, without numbers.
func rootReason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
			inner = many.Unwrap()[0]
		}
		if inner == nil {
			break
		}
		err = inner
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, guard.FirstLine(guard.Text(err))) + "."
}

// TransientPause is how long a message waits that failed through no fault of its own.
const TransientPause = 100 * time.Millisecond

// Spared is how long a message waits after a number of failures that do not count.
func Spared(times int) time.Duration {
	return wait.Jitter(min(TransientPause<<max(times-4, 0), time.Second))
}
