package main

import (
	"fmt"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A recorder is told what senders and receivers do. The ledger is one, and so is
// what a child process has in its place: a pipe to its parent's ledger.
type recorder interface {
	// writing says that a message was sent in a transaction that is still open.
	// The stream has one writer at a time, so the order of these calls is the
	// order of the stream, until the transaction ends.
	writing(token, stream, origin string)
	// ended says what became of the transaction that sent the messages.
	ended(f fate, tokens []string)
	// acknowledged says that the acknowledgement of n messages was committed.
	acknowledged(n int)
	held(h hold)
	count(name string, n int)
	// problem tells of something that must not happen, counted as the name.
	problem(name, format string, args ...any)
	since() time.Duration
}

// ledger collects what happened in memory.
type ledger struct {
	start time.Time
	log   io.Writer
	dying atomic.Int32 // processes that are being killed

	mu          sync.Mutex
	history     history
	sent        map[string]*sent
	places      int
	committed   int
	acknowledge int
	counts      map[string]int
	latencies   []time.Duration
	receipts    []effect // where there is no table for them
	longest     map[string]lasting
}

func newLedger(log io.Writer) *ledger {
	return &ledger{start: time.Now(), log: log, sent: make(map[string]*sent), counts: make(map[string]int), longest: make(map[string]lasting)}
}

func (l *ledger) since() time.Duration { return time.Since(l.start) }

func (l *ledger) writing(token, stream, origin string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &sent{token: token, stream: stream, origin: origin, place: l.places}
	l.places++
	l.sent[token] = s
	l.history.sent = append(l.history.sent, s)
}

func (l *ledger) ended(f fate, tokens []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tokens {
		l.sent[t].fate = f
		if f == committed {
			l.committed++
		}
	}
	if f == maybe {
		l.counts["maybe"] += len(tokens)
	}
}

// doubt marks what a child that was killed had sent and not reported.
func (l *ledger) doubt(tokens []string) {
	if len(tokens) > 0 {
		l.ended(maybe, tokens)
	}
}

func (l *ledger) acknowledged(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acknowledge += n
}

// waiting is about how many messages wait to be received.
func (l *ledger) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed - l.acknowledge
}

func (l *ledger) held(h hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history.holds = append(l.history.holds, h)
}

// noticed is how long a database may take to notice that a connection was cut.
const noticed = time.Second

// cut runs f, which kills a process or cuts a connection.
func (l *ledger) cut(f func()) {
	from := l.since()
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history.cuts = append(l.history.cuts, cut{from, l.since() + noticed})
	l.counts["kills"]++
}

func (l *ledger) count(name string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[name] += n
}

func (l *ledger) latency(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latencies = append(l.latencies, d)
}

func (l *ledger) problem(name, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[name]++
	if n := l.counts[name]; n <= maxProblems {
		fmt.Fprintf(l.log, "%8.3fs %s: %s\n", l.since().Seconds(), name, fmt.Sprintf(format, args...))
	}
}

// receipt keeps an acknowledged message for stores in which it cannot be kept in
// a table.
func (l *ledger) receipt(e effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.receipts = append(l.receipts, e)
}

// lasting is the longest time of a kind, and what was going on.
type lasting struct {
	time.Duration
	what string
}

func (l *ledger) lasted(name string, d time.Duration, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d > l.longest[name].Duration {
		l.longest[name] = lasting{d, what}
	}
}

// tally returns a copy of the counts.
func (l *ledger) tally() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

// lockedWriter lets the ledger and the children's processes share a log.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
