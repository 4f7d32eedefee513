package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// commits are the joined transactions whose receivers are still to be woken. A transaction that
// notifies takes a lock of the whole server for its commit, so joined transactions do not notify.
// Instead a goroutine asks the server what became of them, and notifies once one has committed.
type commits struct {
	mu      sync.Mutex
	pending map[string]*followed // by the server's number of the transaction
	done    chan struct{}        // closed when the goroutine has ended; nil: there is none
	stop    context.CancelFunc
	closed  bool
}

// followed are the queues of a transaction, and when the transaction last sent.
type followed struct {
	queues map[int64]bool
	at     time.Time
}

const (
	// followEvery is the time between two questions while transactions have just sent. It grows with
	// the time since then.
	followEvery = 3 * time.Millisecond
	// mostFollowed bounds the list. A transaction beyond it is announced at once, so that its
	// receivers may look too early, and find its messages by polling.
	mostFollowed = 10_000
)

// NotifyAtCommit implements backend.Tx.
func (t *Tx) NotifyAtCommit(ctx context.Context, queues []int64) error {
	if !t.Open() {
		return backend.ErrTxDone
	}
	if len(queues) == 0 {
		return nil
	}
	j, asks := t.Session().(*joined)
	if asks {
		_, waits := j.tx.(later)
		asks = !waits
	}
	if !asks { // nothing is known before the commit, or Parley commits
		var channel any
		if c := t.pool.wakes.Load(); c != nil {
			channel = *c
		}
		_, err := t.Exec(ctx, t.pool.hot.Notify, channel, wakeName(t.pool.options.Prefix), payload(queues))
		return err
	}
	if j.number == "" {
		if _, err := t.Row(ctx, []any{&j.number}, t.pool.hot.Number); err != nil {
			return err
		}
	}
	t.pool.follow(j.number, queues)
	return nil
}

// follow has the queues of a transaction announced once it has committed.
func (p *pool) follow(number string, queues []int64) {
	c := &p.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	f := c.pending[number]
	if f == nil {
		f = &followed{queues: make(map[int64]bool)}
		if c.pending == nil {
			c.pending = make(map[string]*followed)
		}
		c.pending[number] = f
	}
	f.at = time.Now()
	for _, q := range queues {
		f.queues[q] = true
	}
	if c.done == nil {
		ctx, stop := context.WithCancel(context.Background())
		c.done, c.stop = make(chan struct{}), stop
		go p.followAll(ctx, c.done)
	}
}

// followAll asks until nothing is pending. When the store is closed, it asks once more.
func (p *pool) followAll(ctx context.Context, done chan struct{}) {
	defer close(done)
	pause := followEvery
	for {
		ended, more := false, false
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			ended = true
		}
		if pause, more = p.announce(context.WithoutCancel(ctx), ended); !more || ended {
			return
		}
	}
}

// announce notifies of what has committed. It returns when to ask again, if anything is pending.
func (p *pool) announce(ctx context.Context, last bool) (pause time.Duration, more bool) {
	ctx, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	c := &p.commits
	c.mu.Lock()
	numbers := slices.Collect(maps.Keys(c.pending))
	c.mu.Unlock()
	over, err := p.whatBecame(ctx, numbers)

	queues := make(map[int64]bool)
	c.mu.Lock()
	for number, committed := range over {
		if committed {
			maps.Copy(queues, c.pending[number].queues)
		}
		delete(c.pending, number)
	}
	youngest := time.Hour
	for _, f := range c.pending {
		youngest = min(youngest, time.Since(f.at))
	}
	if more = len(c.pending) > 0; !more || last {
		c.done = nil
	}
	c.mu.Unlock()
	pause = min(max(youngest/2, followEvery), time.Second)
	if err != nil {
		pause = time.Second
	}
	if len(queues) > 0 {
		// Receivers that are not told find the messages by polling.
		_ = p.notify(ctx, slices.Collect(maps.Keys(queues)))
	}
	return pause, more
}

// whatBecame returns the transactions that are over, and whether they committed. A number that the
// server does not know, as another one after a failover, counts as committed: receivers look.
func (p *pool) whatBecame(ctx context.Context, numbers []string) (over map[string]bool, err error) {
	over = make(map[string]bool)
	if len(numbers) > mostFollowed {
		for _, n := range numbers[mostFollowed:] {
			over[n] = true
		}
		numbers = numbers[:mostFollowed]
	}
	rows, err := p.db.QueryContext(ctx, p.hot.Became.Text, strings.Join(numbers, ","))
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			var number, status string
			if err = rows.Scan(&number, &status); err != nil {
				break
			}
			if status != "in progress" {
				over[number] = status == "committed"
			}
		}
		if err == nil {
			err = rows.Err()
		}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(p.store.Classify(err), backend.ErrConnection) {
		for _, n := range numbers {
			over[n] = true
		}
	}
	return over, err
}

// end stops following, after a last question.
func (c *commits) end() {
	c.mu.Lock()
	c.closed = true
	done := c.done
	if done != nil {
		c.stop()
	}
	c.mu.Unlock()
	if done != nil {
		<-done
	}
}
