// Package consumer is the engine of a Worker: it fetches batches of messages, hands them to
// handlers, and settles them. It knows the store. Of the program it knows only a Host, which calls
// handlers and decides about failures, and Work, a transaction of the program.
package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/failures"
	"github.com/parleymq/parley/internal/wake"
)

// Host is the program that a Consumer works for.
type Host interface {
	// Check returns an error if the program has closed the store, so that nothing more can be done.
	Check() error
	// Begin begins a transaction.
	Begin(ctx context.Context) (Work, error)
	// Queue calls f with the version of the catalog and a queue, and again if f says that the
	// catalog is out of date.
	Queue(ctx context.Context, name string, f func(version int64, q backend.Queue) error) error

	// Messages makes the handler's view of messages of one group. The function open returns the
	// transaction in which they are acknowledged, or ErrOver if they are no longer held. The function
	// later reports whether an answer will be given when they are acknowledged. Otherwise the handler
	// gives it now.
	Messages(q backend.Queue, raw []*backend.Message, open func(context.Context) (Work, error), later func(Answer) bool) Messages

	// Due does the maintenance that is due, and reports whether there was any.
	Due(ctx context.Context) (moved bool, err error)
	// Soon makes that happen again after a time.
	Soon(d time.Duration)
	// Disable disables a queue.
	Disable(ctx context.Context, queue string) error

	// Lost makes the error that tells a handler that the lease of its messages was lost.
	Lost(queue string) error
	// Deadly makes the error of a message with which receivers died.
	Deadly(deaths int) error

	// Claimed and Settled tell observers.
	Claimed(context.Context, Claimed)
	Settled(context.Context, Settled)
}

// Messages are messages of one group in a handler's hands.
type Messages interface {
	// Handle calls the handler.
	Handle(ctx context.Context) error
	// Handled tells observers of the call.
	Handled(ctx context.Context, start time.Time, err error)
	// Decide decides the outcome of the first message, which was not handled.
	Decide(ctx context.Context, err error) Decision
	// End ends the conversation of the first message with an error.
	End(ctx context.Context, code int, text string) error
}

// Work is a transaction of the program, or the part of it that one handler call uses.
type Work interface {
	Store() backend.Tx
	Commit(ctx context.Context) error
	Rollback(ctx context.Context)

	// Part returns the part for a call of a handler, which has a group in hand, or for the answers of
	// calls.
	Part(groups ...backend.ID) Work
	// Answer gives the answers of each group, or none of them, and returns why it gave none.
	Answer(ctx context.Context, groups [][]Answer) (refused map[int]error, err error)
	// Close ends a part: code that still refers to it can no longer use it. It returns the error if
	// the part was unusable before that.
	Close() error
	// Merge takes over what a part wants done after the commit, and returns the handles of
	// conversations that were ended in it.
	Merge(part Work) (ended []backend.ID)
}

// Action is what becomes of a message that was not handled.
type Action int

// The actions.
const (
	Retry Action = iota
	Park
	DeadLetter
	EndWithError // or DeadLetter, where there is no conversation to end
	Disable
)

// Decision is what becomes of a message that was not handled, and why.
type Decision struct {
	Action   Action
	After    time.Duration // of Retry
	Attempts int           // failed ones
	Failed   bool          // it is a failure of the handler's, and no decision
	Anew     bool          // receivers that died with it do not count any more
	Code     int           // of EndWithError
	Text     string        // of the error
	Reason   string        // its first line
}

// Claimed is a look for messages.
type Claimed struct {
	Queue    string
	Groups   int
	Messages int
	IDs      []backend.ID
	Took     time.Duration
	Err      error
}

// Settled is the end of a batch.
type Settled struct {
	Queue     string
	Groups    int
	Done      int
	IDs       []backend.ID
	Lost      int
	Cancelled int
	Failed    int
	Returned  int
	Took      time.Duration
	Err       error
}

// ErrOver: the messages are not in the handler's hands any more.
var ErrOver = errors.New("the batch no longer has the messages")

// Shared is what the Consumers of a store share.
type Shared struct {
	Backend       backend.Backend
	Can           backend.Capabilities // of Backend
	Hub           *wake.Hub
	Log           *slog.Logger
	Admission     *Admission
	Life          context.Context // ends when the store is closed
	Owner         string
	Poll          time.Duration
	NoMaintenance bool // nothing in this process makes due what is due
}

// Config says what a Consumer works on, and how.
type Config struct {
	Shared
	Host     Host
	Failures *failures.Count
	Queues   []backend.Queue
	Weights  []int // of the queues: turns in a round
	Readers  int

	ByLease        bool                         // groups are held by lease, always
	Consume        bool                         // messages are taken out before they are handled
	Together       func([]*backend.Message) int // how many of a group's messages a handler gets in one call; nil: one
	IsolateBatch   bool                         // no savepoints: a handler that fails undoes its batch
	CountTransient bool                         // failures that are not a message's fault count
	Endless        bool                         // messages with which receivers died are handled anyway
	Lease          time.Duration                // how long a lease lasts
	Limit          time.Duration                // of the server's for transactions; zero: none
	MaxBatch       int                          // messages
	BatchTime      time.Duration
	Grace          time.Duration // for handlers, when the Consumer stops
	Drain          bool          // it ends when there is nothing more to claim
	Stopped        error         // the cause for handlers when that is over
}

// Consumer receives from queues and has a handler called for each message, with many readers
// at once.
type Consumer struct {
	// Set by New.
	Config
	id      backend.ID
	sources []*source
	turns   []int         // numbers of sources
	alone   chan struct{} // has room for the one reader that handles a suspect

	// Channels and contexts, for all goroutines.
	events   chan func(*fetcher) // for the fetch loop
	poke     chan struct{}       // has it look
	gone     chan struct{}       // closed when it is over, and all readers with it
	ended    chan struct{}       // closed when Run is done with the store
	stop     context.Context     // ends with the wish to stop
	halt     context.CancelFunc
	work     context.Context // ends when handlers have to
	stopWork context.CancelCauseFunc

	// Each has its own lock, or is atomic.
	trouble
	readers    atomic.Int64 // looks and batches of the fetch loop
	leases     atomic.Bool  // it holds by lease, always or at times
	othersHave atomic.Pointer[heldByOthers]
	lookout    lookout

	warned bool // of a pool that closes idle connections; for signs alone

	mu      sync.Mutex // guards what follows
	max     int        // readers
	unfit   error      // why it stopped by itself
	turn    int        // of turns
	batches map[*batch]struct{}
	slots   []backend.ID // of records of batches that are not in use
}

// New makes a Consumer, which works until ctx ends. Run starts it.
func New(ctx context.Context, config Config) *Consumer {
	c := &Consumer{
		Config: config, id: backend.NewID(), max: config.Readers, turns: turns(config.Weights),
		events: make(chan func(*fetcher)), poke: make(chan struct{}, 1),
		gone: make(chan struct{}), ended: make(chan struct{}),
		trouble: trouble{outage: newOutage(), slowdown: newSlowdown()},
		batches: make(map[*batch]struct{}), alone: make(chan struct{}, 1),
	}
	for _, q := range config.Queues {
		c.sources = append(c.sources, &source{
			queue: q, id: backend.NewID(), claims: newClaimLimiter(c.maxClaims()), pace: newPace(c.MaxBatch, c.BatchTime),
		})
	}
	c.stop, c.halt = context.WithCancel(ctx)
	c.work, c.stopWork = context.WithCancelCause(context.WithoutCancel(ctx))
	return c
}

// name is the name of the first queue, for the log.
func (c *Consumer) name() string { return c.sources[0].queue.Name }

// SetMax changes how many readers there are at most.
func (c *Consumer) SetMax(n int) {
	c.mu.Lock()
	c.max = n
	c.mu.Unlock()
	c.nudge()
}

// most is how many readers there may be.
func (c *Consumer) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.max
}

// Batches returns how many batches are at work.
func (c *Consumer) Batches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.batches)
}

// atWork returns the batches that are at work.
func (c *Consumer) atWork() []*batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.batches))
}

// may reports whether there is to be more work, as of now.
func (c *Consumer) may() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop.Err() == nil && int(c.readers.Load()) <= c.max
}

// Run works until the Consumer is stopped, or its queues are drained.
func (c *Consumer) Run() error {
	defer c.end()
	defer c.unregister()
	if err := Insist(c.stop, c.Can, c.Log, c.name(), func() error { return c.register(c.stop) }); err != nil {
		if c.stop.Err() != nil {
			return nil // it was stopped while it began
		}
		return err
	}
	if c.leases.Store(c.ByLease); c.needsOthers() {
		c.readOthers(c.stop)
	}
	c.Log.Info("parley: worker started", "event", "worker.started", "queue", c.name(), "readers", c.most())
	go c.fetch()
	beating, silence := context.WithCancel(c.Life)
	var silent sync.WaitGroup
	silent.Go(func() { c.heartbeats(beating) })
	silent.Go(func() { c.signs(beating) })
	if !c.Consume {
		silent.Go(func() { c.watchRequests(beating) })
	}
	over := c.gone
	if !c.Drain {
		over = nil
	}
	select {
	case <-over:
	case <-c.stop.Done():
	}
	err := c.finish()
	silence()
	silent.Wait()
	c.mu.Lock()
	err = errors.Join(err, c.unfit)
	c.mu.Unlock()
	c.Log.Info("parley: worker stopped", "event", "worker.stopped", "queue", c.name())
	return err
}

// refuse stops the Consumer for a reason that Run returns.
func (c *Consumer) refuse(err error) {
	c.mu.Lock()
	c.unfit = err
	c.mu.Unlock()
	c.halt()
}

func (c *Consumer) end() {
	c.halt()
	c.stopWork(nil)
	close(c.ended)
}

// Handlers have so long to return after their contexts ended, and less while the store is
// being closed.
const (
	unresponsive        = 5 * time.Second
	unresponsiveAtClose = time.Second
)

// finish stops claiming and sees handlers to their end.
func (c *Consumer) finish() error {
	c.halt()
	patience := unresponsive
	select {
	case <-c.gone:
		return nil
	case <-time.After(max(c.Grace, 0)):
	case <-c.work.Done(): // the store is being closed
		patience = unresponsiveAtClose
	}
	c.stopWork(c.Stopped)
	select {
	case <-c.gone:
		return nil
	case <-time.After(patience):
	}
	left := c.atWork()
	for _, t := range left {
		t.abandon()
	}
	if len(left) == 0 {
		<-c.gone
		return nil
	}
	c.Log.Error("parley: handlers did not return; what they held was given back",
		"event", "worker.abandoned", "queue", c.name(), "handlers", len(left))
	return fmt.Errorf("%d handlers did not return %v after their contexts had ended: %w", len(left), patience, c.Stopped)
}

// Shut stops the Consumer without grace, for a reason that handlers get, and waits a while
// until it is done with the store.
func (c *Consumer) Shut(cause error) {
	c.stopWork(cause)
	c.halt()
	select {
	case <-c.ended:
	case <-time.After(5 * time.Second):
	}
}
