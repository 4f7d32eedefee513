package parley

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// A worker pauses as a whole for two reasons. The store cannot be worked with: then
// nothing can be settled, and no message is to blame. Or most handlers fail for one
// reason, such as a service that is down: then each further message would only be
// another failure to record. In both cases one reader tries one message from time
// to time, and the first that goes well ends the pause.

// lull is a time in which a worker pauses.
type lull struct {
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

func newOutage() *lull {
	return &lull{event: "worker.paused", first: 50 * time.Millisecond, most: 5 * time.Second,
		paused:  "parley: a worker pauses, since the store cannot be worked with",
		resumed: "parley: a worker goes on, since the store can be worked with again"}
}

func newSlump() *lull {
	return &lull{event: "worker.slowed", first: 250 * time.Millisecond, most: 30 * time.Second,
		paused:  "parley: a worker slows down, since most of its handlers fail for one reason",
		resumed: "parley: a worker goes on, since a handler has succeeded again"}
}

// begin notes that something has failed: there is to be a pause, longer than the
// last one. Others that found out at the same time change nothing. It is logged
// once, when it turns out to last.
func (l *lull) begin(log *slog.Logger, queue string, cause error) {
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
	l.until = now.Add(jitter(l.pause))
	if l.times++; l.times == 2 {
		log.Warn(l.paused, "event", l.event, "queue", queue, "error", firstLine(errorText(cause)))
	}
}

// end ends the pause, and reports whether there was one.
func (l *lull) end(log *slog.Logger, queue string) bool {
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
func (l *lull) left() time.Duration {
	if !l.active.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.until)
}

// pausing reports whether the worker only tries one message from time to time.
func (w *Worker) pausing() bool { return w.outage.active.Load() || w.slump.active.Load() }

// doze waits until the worker's pause is over, if there is one. It reports whether
// the reader is to go on: one waiting reader is enough.
func (w *Worker) doze() bool {
	d := max(w.outage.left(), w.slump.left())
	if d <= 0 {
		return true
	}
	w.mu.Lock()
	if w.waiting {
		w.mu.Unlock()
		return false
	}
	w.waiting = true
	w.mu.Unlock()
	sleep(w.stop, d)
	w.mu.Lock()
	w.waiting = false
	w.mu.Unlock()
	return true
}

// refused notes that the store took nothing of what was to be settled.
func (w *Worker) refused(queue string, err error) {
	w.unwritten.Store(true)
	w.outage.begin(w.b.log, queue, err)
}

// works notes that the store has done something for the worker: settled a batch, or
// looked for one. The latter says nothing of whether it could be settled.
func (w *Worker) works(settled bool) {
	if settled {
		w.unwritten.Store(false)
	}
	if w.unwritten.Load() {
		return
	}
	if w.outage.end(w.b.log, w.sources[0].name) {
		w.spawn(0, false)
	}
}

// halts reports whether an error says that the store takes nothing at present,
// whatever is written: it is full, or read-only. A connection that broke does not
// say so; that the next one cannot be opened does.
func (b *Broker) halts(err error) bool {
	return b.is(err, ErrReadOnly) || b.is(err, ErrNoSpace) || b.is(err, ErrReplaced) || errors.Is(err, ErrNotBegun)
}

// is reports whether an error is one of a kind of the store's, also if it is one of
// a handler's own statements, which comes as the driver made it.
func (b *Broker) is(err, kind error) bool {
	if errors.Is(err, kind) {
		return true
	}
	c, ok := b.be.(interface{ Classify(error) error })
	return ok && errors.Is(c.Classify(err), kind)
}

// How many of the last calls of handlers have to fail for one reason, and in how
// many groups, for the worker to slow down.
const (
	tallied    = 32
	tallyFails = 28
	tallyKinds = 16
)

// tally knows what became of the last calls of handlers.
type tally struct {
	failures atomic.Int64 // among them

	mu    sync.Mutex
	calls [tallied]call // all successes at first
	next  int
}

// call is what became of a call of a handler: why it failed, "" if it did not.
type call struct {
	reason string
	group  ID
}

// add takes note of a call, and reports whether most have failed for its reason.
func (y *tally) add(c call) bool {
	if c.reason == "" && y.failures.Load() == 0 {
		return false
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.calls[y.next] = c
	y.next = (y.next + 1) % tallied
	failed, alike, groups := 0, 0, make(map[ID]struct{})
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
	y.calls = [tallied]call{}
	y.failures.Store(0)
}

// did takes note of what became of a handler's call. A decision of the handler's
// about its message is no failure.
func (w *Worker) did(queue string, group ID, err error) {
	switch {
	case w.drain: // it ends by itself
	case err == nil:
		w.tally.add(call{group: group})
		if w.slump.end(w.b.log, queue) {
			w.tally.reset()
			w.spawn(0, false)
		}
	case w.tally.add(call{rootReason(err), group}), w.slump.active.Load():
		w.slump.begin(w.b.log, queue, err)
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
	}, firstLine(errorText(err))) + "."
}

// strikes count how often messages have failed through no fault of their own, by an
// error of their handlers or because they could not be acknowledged. Such a failure
// does not count by itself, since losing against another transaction says nothing
// about a message. A message that always loses would be tried for ever.
type strikes struct {
	some atomic.Bool
	mu   sync.Mutex
	of   map[ID]strike
}

// strike is how often a message has failed, and how at last.
type strike struct {
	times int
	err   error
}

// strikesCharged is how many such failures count as one attempt.
const strikesCharged = 10

// add counts a failure of a message's, and reports how many there are by now.
func (s *strikes) add(m ID, err error) int { return s.count(m, 1, err) }

// charge has the message charged by the reader that gets it next.
func (s *strikes) charge(m ID, err error) { s.count(m, strikesCharged, err) }

func (s *strikes) count(m ID, times int, err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= 10000 { // most of these have been handled elsewhere
		s.of = make(map[ID]strike)
	}
	s.some.Store(true)
	times += s.of[m].times
	s.of[m] = strike{times, err}
	return times
}

// due returns why a message is to be charged instead of being handled, nil if it is
// not, and begins to count anew. It has the text of the failure only: of whatever kind
// that was, it counts.
func (s *strikes) due(m ID) error {
	if !s.some.Load() {
		return nil
	}
	s.mu.Lock()
	last := s.of[m]
	s.mu.Unlock()
	if last.times < strikesCharged {
		return nil
	}
	s.clear(m)
	return fmt.Errorf("it could not be acknowledged: %v", last.err)
}

// forget forgets the failures of messages that are settled.
func (s *strikes) forget(settled []backend.Outcome) {
	if !s.some.Load() {
		return
	}
	for _, o := range settled {
		for _, m := range o.Done {
			s.clear(m.ID)
		}
	}
}

// clear forgets a message's failures.
func (s *strikes) clear(m ID) {
	if !s.some.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, m)
	s.some.Store(len(s.of) > 0)
}

// spared is how long a message waits after so many failures that do not count.
func spared(times int) time.Duration {
	return jitter(min(transientPause<<max(times-4, 0), time.Second))
}
