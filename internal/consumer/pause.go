package consumer

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// A worker pauses as a whole for two reasons. The store cannot be worked with: then
// nothing can be settled, and no message is to blame. Or most handlers fail for one
// reason, such as a service that is down: then each further message would only be
// another failure to record. In both cases one reader tries one message from time
// to time, and the first that goes well ends the pause.

// pause is a time in which a worker claims nothing, or little.
type pause struct {
	paused, resumed string // what the log says
	event           string
	first, most     time.Duration // of pauses

	active atomic.Bool

	mu    sync.Mutex
	since time.Time
	until time.Time // nothing is claimed before
	pause time.Duration
	times int
}

func newOutage() *pause {
	return &pause{event: "worker.paused", first: 50 * time.Millisecond, most: 5 * time.Second,
		paused:  "parley: a worker pauses, since the store cannot be used",
		resumed: "parley: a worker goes on, since the store can be used again"}
}

func newSlowdown() *pause {
	return &pause{event: "worker.slowed", first: 250 * time.Millisecond, most: 30 * time.Second,
		paused:  "parley: a worker slows down, since most of its handlers fail for one reason",
		resumed: "parley: a worker goes on, since a handler has succeeded again"}
}

// begin notes that something has failed: there is to be a pause, longer than the
// last one. Others that found out at the same time change nothing. It is logged
// once, when it turns out to last.
func (l *pause) begin(log *slog.Logger, queue string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.until) {
		return
	}
	if l.since.IsZero() {
		l.since = now
	}
	l.active.Store(true)
	l.pause = min(max(2*l.pause, l.first), l.most)
	l.until = now.Add(wait.Jitter(l.pause))
	if l.times++; l.times == 2 {
		log.Warn(l.paused, "event", l.event, "queue", queue, "error", guard.FirstLine(guard.Text(cause)))
	}
}

// end ends the pause, and reports whether there was one.
func (l *pause) end(log *slog.Logger, queue string) bool {
	if !l.active.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times >= 2 {
		log.Info(l.resumed, "event", "worker.resumed", "queue", queue, "after", time.Since(l.since).Round(time.Millisecond).String())
	}
	l.since, l.until, l.pause, l.times = time.Time{}, time.Time{}, 0, 0
	return l.active.Swap(false)
}

// left is how long the pause lasts from now on.
func (l *pause) left() time.Duration {
	if !l.active.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

// trouble is why a consumer does less than it could. All goroutines use it.
type trouble struct {
	outage, slowdown *pause      // of the whole consumer
	unwritten        atomic.Bool // the last thing that was to be settled could not be written
	tally            tally
	wariness         wariness
}

// pausing reports whether the worker only tries one message from time to time.
func (x *trouble) pausing() bool { return x.outage.active.Load() || x.slowdown.active.Load() }

// refused notes that the store took nothing of what was to be settled.
func (c *Consumer) refused(queue string, err error) {
	c.unwritten.Store(true)
	c.outage.begin(c.Log, queue, err)
}

// works notes that the store has done something for the worker: settled a batch, or
// looked for one. The latter says nothing of whether it could be settled.
func (c *Consumer) works(settled bool) {
	if settled {
		c.unwritten.Store(false)
	}
	if c.unwritten.Load() {
		return
	}
	if c.outage.end(c.Log, c.name()) {
		c.nudge()
	}
}

// within is d, or what the server's limit for transactions leaves of it.
func (c *Consumer) within(d time.Duration) time.Duration {
	if c.Limit > 0 {
		return min(d, c.Limit/2)
	}
	return d
}

// wariness has a worker hold by lease for some time after a transaction was cut off
// that was open while a handler worked. Were it to begin another one for the same
// message, that would be cut off as well.
type wariness struct {
	mu    sync.Mutex
	until time.Time
	pause time.Duration
}

const (
	leastWary, mostWary = time.Minute, time.Hour

	// waryAfter is how long a transaction has to have been open for its loss to be
	// put down to that.
	waryAfter = 100 * time.Millisecond
)

// cut notes that a transaction was lost, and how long it had been open.
func (y *wariness) cut(took time.Duration, err error) {
	if took < waryAfter || !errors.Is(err, backend.ErrConnection) {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if now := time.Now(); now.After(y.until) {
		y.pause = min(max(2*y.pause, leastWary), mostWary)
		y.until = now.Add(y.pause)
	}
}

// wary reports whether claims are to be leases.
func (y *wariness) wary() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return time.Now().Before(y.until)
}
