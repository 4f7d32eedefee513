package parley

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// A server, or a proxy before it, may end transactions that are idle while a handler
// works. What the server's settings say is known; a proxy's are found out.

// shortestLimit is the least that a server has to allow for holds in transactions.
const shortestLimit = 2 * singleTime

// tooShort reports whether a limit is too short to hold in transactions.
func tooShort(limit time.Duration) bool { return limit > 0 && limit < shortestLimit }

func limitError(limit time.Duration, setting string) error {
	return fmt.Errorf("%s is %v, and a hold in a transaction wants at least %v: %w", setting, limit, shortestLimit, ErrTransactionLimit)
}

// transactionLimit is how long transactions are safe from the server, zero: for ever,
// and the setting that says so.
func (b *Broker) transactionLimit(ctx context.Context) (time.Duration, string, error) {
	l, ok := b.be.(backend.TransactionLimiter)
	if !ok {
		return 0, "", nil
	}
	return l.TransactionLimit(ctx)
}

// limited has a worker hold by lease where the server ends transactions too soon for
// anything else.
func (w *Worker) limited(ctx context.Context, opt *WorkerOptions) error {
	if opt.Hold != HoldTransaction || opt.Release != AfterCommit {
		return nil
	}
	limit, setting, err := w.b.transactionLimit(ctx)
	if err != nil {
		return err
	}
	w.limit = limit
	log := func(text string) {
		w.b.log.Warn("parley: "+text, "event", "worker.limit", "queue", w.sources[0].name, "setting", setting, "limit", limit.String())
	}
	switch {
	case tooShort(limit) && w.insists:
		return limitError(limit, setting)
	case tooShort(limit):
		opt.Hold = HoldLease
		log("the server ends transactions so soon that a worker holds by lease")
	case limit > 0 && limit < opt.Lease && w.insists:
		log("the server ends transactions: a handler that takes longer in Message.Tx loses what it has written")
	}
	return nil
}

// within is d, or what the server's limit for transactions leaves of it.
func (w *Worker) within(d time.Duration) time.Duration {
	if w.limit > 0 {
		return min(d, w.limit/2)
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

// cut notes that a transaction of so long was lost.
func (y *wariness) cut(took time.Duration, err error) {
	if took < waryAfter || !errors.Is(err, ErrConnection) {
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
