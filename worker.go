package parley

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/consumer"
	"github.com/parleymq/parley/internal/failures"
)

// Isolation says what a failing handler takes down with it.
type Isolation int

// The isolations.
const (
	// IsolateEach undoes what a failing handler wrote and nothing else, by
	// savepoints.
	IsolateEach Isolation = iota
	// IsolateBatch spares the savepoints: when a handler fails that wrote, its
	// batch is undone and done again one group at a time. For handlers that write
	// in Message.Tx and hardly ever fail.
	IsolateBatch
)

// WorkerOptions are the options of a Worker. Nil means all the defaults.
type WorkerOptions struct {
	// MaxReaders is how many handlers run at once. Default 10. In transaction mode each occupies a
	// connection of the pool while it works.
	MaxReaders int

	// Also are further queues that the same handler serves, with the same
	// readers. They take turns.
	Also []string

	// Weights says how many turns a queue has for each turn of the others, by its name. A turn is
	// a batch; a queue without messages leaves its turns to the others. Default 1, and at most 100.
	Weights map[string]int

	// Hold says how groups are held while handlers work. By default the transaction that
	// acknowledges them holds them, if the store supports that and the pool has connections for it;
	// otherwise a lease does. A handler that takes more than a second and has not asked for
	// Message.Tx continues by lease. Choose HoldLease for longer work. With HoldTransaction, a pool
	// that is too small is ErrPool.
	Hold Hold

	// Lease is how long a lease lasts without a heartbeat. Default Options.Lease.
	Lease time.Duration

	// Release BeforeWork takes messages out, one by one, before they are handled:
	// at most once. A crash, and a handler's error, lose them.
	Release Release

	// MaxBatch limits how many messages are handled in one transaction. Default 100. The worker
	// takes fewer if that is fast enough, or if handlers are slow. Use 1 for handlers with effects
	// outside the database, which a repeated batch would repeat.
	MaxBatch int

	// BatchTime is how long a batch may take before the rest of it is released. The wait for the
	// store's only writer does not count. Default 50 ms. If claiming and settling a batch takes
	// longer, handling it may take as long as that, up to ten times BatchTime.
	BatchTime time.Duration

	// Timeout is how long a handler may take. Its context ends then, with ErrHandlerTimeout as its
	// cause, and an error that it returns counts as a failed attempt. Zero means no limit. A
	// handler that ignores its context continues.
	Timeout time.Duration

	// Isolation is what a failing handler takes down with it. Default: itself.
	Isolation Isolation

	// MaxAttempts is how often a message is tried before Poison. Default 20, which with the default
	// Backoff takes about two hours. Below zero means no limit, even if processes die with the
	// message.
	MaxAttempts int

	// Backoff returns how long the group of a message waits after a number of failed
	// attempts. Nil means Backoff(time.Second, 10*time.Minute).
	Backoff func(attempt int) time.Duration

	// CountTransient makes deadlocks, lost connections and similar errors count as attempts. By
	// default ten of them in a row count as one.
	CountTransient bool

	// UnknownTypes is how long a message is deferred while the Mux has no handler
	// for its type. Then it is treated as poison. Default 24 hours, which should
	// be longer than a new version takes to reach all workers; below zero: no time
	// at all.
	UnknownTypes time.Duration

	// Poison is what is done with a message that has failed MaxAttempts times or
	// is poison by its nature. Default ActionPark.
	Poison Action

	// OnPoison, if set, decides instead of Poison.
	OnPoison func(ctx context.Context, p PoisonMessage) Action

	// Grace is how long handlers may continue after the worker was told to stop, before their
	// contexts end. Default 10 s; below zero means no time at all.
	Grace time.Duration

	// Observer hears what the worker does.
	Observer Observer
}

func (o *WorkerOptions) withDefaults(b *Broker, queues []string) (WorkerOptions, error) {
	var v WorkerOptions
	if o != nil {
		v = *o
	}
	canHold := b.caps.HoldsInTransaction
	why := ""
	switch {
	case v.MaxReaders < 0:
		why = fmt.Sprintf("MaxReaders is %d: want 1 or more, or 0 for %d", v.MaxReaders, defaultReaders)
	case v.MaxBatch < 0 || v.MaxBatch > 1000:
		why = fmt.Sprintf("MaxBatch is %d: want 1 to 1000, or 0 for 100", v.MaxBatch)
	case v.Timeout < 0:
		why = fmt.Sprintf("Timeout is %v: want 0 or more", v.Timeout)
	case v.BatchTime < 0:
		why = fmt.Sprintf("BatchTime is %v: want 0 or more", v.BatchTime)
	case v.Hold < HoldDefault || v.Hold > HoldLease || v.Release < AfterCommit || v.Release > BeforeWork:
		why = "Hold or Release is out of range"
	case v.Hold == HoldTransaction && !canHold:
		why = "this store has a single writer: hold by lease"
	case v.Lease != 0 && v.Lease < 100*time.Millisecond:
		why = fmt.Sprintf("Lease is %v: want at least 100ms", v.Lease)
	case v.Isolation < IsolateEach || v.Isolation > IsolateBatch:
		why = "Isolation is out of range"
	case !v.Poison.valid():
		why = "Poison is out of range"
	}
	if why = cmp.Or(why, badWeight(v.Weights, queues)); why != "" {
		return v, &Error{Op: "new worker", Err: ErrInvalidOption, Hint: why}
	}
	if v.Hold == HoldDefault {
		v.Hold = HoldLease
		if canHold {
			v.Hold = HoldTransaction
		}
	}
	if v.Release == BeforeWork {
		v.MaxBatch = 1 // so that a crash loses no more
	}
	v.MaxReaders = cmp.Or(v.MaxReaders, defaultReaders)
	v.Lease = cmp.Or(v.Lease, b.opt.Lease)
	v.MaxBatch = cmp.Or(v.MaxBatch, 100)
	v.BatchTime = cmp.Or(v.BatchTime, 50*time.Millisecond)
	v.MaxAttempts = cmp.Or(v.MaxAttempts, defaultAttempts)
	v.UnknownTypes = cmp.Or(v.UnknownTypes, 24*time.Hour)
	v.Grace = cmp.Or(v.Grace, 10*time.Second)
	if v.Backoff == nil {
		v.Backoff = defaultBackoff
	}
	if v.Observer == nil {
		v.Observer = NopObserver{}
	}
	v.Observer = calmObserver{v.Observer, b.log}
	return v, nil
}

// badWeight says which weight cannot be.
func badWeight(weights map[string]int, queues []string) string {
	for queue, n := range weights {
		switch {
		case n < 0 || n > 100:
			return fmt.Sprintf("the weight of %s is %d: want 1 to 100", objQueue(queue), n)
		case !slices.Contains(queues, queue):
			return fmt.Sprintf("there is a weight of %s, which the worker does not serve", objQueue(queue))
		}
	}
	return ""
}

const defaultReaders = 10

// Worker receives from queues and calls a handler for each message, with many concurrent readers.
// It sleeps while there is nothing to do, and starts more readers while there is work for them.
// When messages arrive fast, it handles many in one transaction.
type Worker struct {
	// Set by NewWorker.
	b        *Broker
	h        Handler
	all      GroupHandler // h, if it is one
	queues   []string
	given    WorkerOptions
	opt      WorkerOptions  // given, with defaults
	failures failures.Count // has its own lock

	mu      sync.Mutex // guards what follows
	max     int
	running *consumer.Consumer // nil: it does not run
}

// NewWorker makes a worker for a queue, or returns what is wrong with the options or the names. Run starts it, and looks
// whether the queues are defined.
func (b *Broker) NewWorker(queue string, h Handler, o *WorkerOptions) (*Worker, error) {
	w := &Worker{b: b, h: h, queues: []string{queue}}
	w.all, _ = h.(GroupHandler)
	if o != nil {
		w.given = *o
		w.queues = append(w.queues, o.Also...)
	}
	var err error
	if w.opt, err = o.withDefaults(b, w.queues); err == nil && h == nil {
		err = &Error{Op: "new worker", Object: objQueue(queue), Err: ErrInvalidOption, Hint: "the handler is nil"}
	}
	for _, name := range w.queues {
		if err == nil {
			err = checkName("queue", name)
		}
	}
	if err != nil {
		return nil, fail("new worker", objQueue(queue), err)
	}
	w.max = w.opt.MaxReaders
	return w, nil
}

// SetMaxReaders changes how many handlers run at once. A higher limit takes effect at once if there
// is work; running handlers finish in any case.
func (w *Worker) SetMaxReaders(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.max = max(n, 0)
	if w.running != nil {
		w.running.SetMax(w.max)
	}
}

// Readers returns how many handlers, or batches of them, are running.
func (w *Worker) Readers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		return 0
	}
	return w.running.Batches()
}

// Run works until ctx ends. Then nothing more is received, and handlers have WorkerOptions.Grace to
// return before their contexts end. Messages that are not handled by then are released, which does
// not count as a failure. Run returns nil when all of that is done. If handlers do not return, Run
// releases what they hold and returns an error. When the database's schema has become that of a
// newer Parley, Run stops in the same way and returns ErrNewerSchema. While the database cannot be
// reached, or accepts no writes, Run waits for it, also at its start.
func (w *Worker) Run(ctx context.Context) error { return w.run(ctx, false) }

// Drain works until there is nothing more to receive. It leaves what is due later: delayed posts,
// deferred groups, retries. It also leaves groups that other receivers hold for more than half a second.
func (w *Worker) Drain(ctx context.Context) error { return w.run(ctx, true) }

func (w *Worker) run(ctx context.Context, drain bool) error {
	err := w.b.check()
	if err == nil {
		err = w.work(ctx, w.opt, drain)
	}
	return fail("run worker", objQueue(w.queues[0]), err)
}

// work is what run does with a Broker that is open.
func (w *Worker) work(ctx context.Context, opt WorkerOptions, drain bool) error {
	starting, over := context.WithCancel(ctx)
	defer over()
	defer context.AfterFunc(w.b.life, over)()
	var config consumer.Config
	err := consumer.Insist(starting, w.b.caps, w.b.log, w.queues[0], func() (err error) {
		config, err = w.ready(ctx, &opt)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return nil // it was told to end while it began
	}
	if err != nil {
		return cmp.Or(w.b.check(), err)
	}
	config.Drain = drain
	c, err := w.begin(ctx, config)
	if err != nil {
		return err
	}
	defer w.end(c)
	return c.Run()
}

// ready checks what would otherwise show as a worker that does nothing.
func (w *Worker) ready(ctx context.Context, opt *WorkerOptions) (config consumer.Config, err error) {
	b := w.b
	var queues []backend.Queue
	var weights []int
	err = b.withCatalog(ctx, func(v *catalogView) error {
		queues, weights = nil, nil
		for _, name := range w.queues {
			q, err := v.queue(name)
			if err != nil {
				return err
			}
			queues, weights = append(queues, backend.Queue(q)), append(weights, cmp.Or(opt.Weights[name], 1))
		}
		return nil
	})
	if err != nil {
		return config, err
	}
	limit, err := w.limited(ctx, opt)
	if err != nil {
		return config, err
	}
	w.mu.Lock()
	need := w.max + consumer.SpareConns
	w.mu.Unlock()
	if p := b.caps.Pool; p != nil && w.given.Hold == HoldTransaction && opt.Release != BeforeWork {
		if n := p.MaxConns(); n > 0 && n < need {
			return config, &Error{Op: "run worker", Object: objQueue(w.queues[0]), Err: ErrPool, Hint: fmt.Sprintf(
				"it has %d connections, and %d readers that hold in transactions need %d: raise the pool's limit, lower MaxReaders, or hold by lease",
				n, need-consumer.SpareConns, need)}
		}
	}
	return consumer.Config{
		Shared: consumer.Shared{
			Backend: b.be, Can: b.caps, Hub: b.hub, Log: b.log, Admission: b.admitted, Life: b.life,
			Owner: b.opt.Owner, Poll: b.opt.Poll, NoMaintenance: b.opt.NoMaintenance,
		},
		Host: &host{w: w, b: b, opt: *opt}, Failures: &w.failures, Queues: queues, Weights: weights, Stopped: ErrStopped,
		ByLease: opt.Hold == HoldLease, Consume: opt.Release == BeforeWork, Together: w.together(),
		IsolateBatch: opt.Isolation == IsolateBatch, CountTransient: opt.CountTransient, Endless: opt.MaxAttempts < 0,
		Lease: opt.Lease, Limit: limit, MaxBatch: opt.MaxBatch, BatchTime: opt.BatchTime, Grace: opt.Grace,
	}, nil
}

// together returns how many messages of a group the handler gets in one call; nil: one.
func (w *Worker) together() func([]*backend.Message) int {
	if w.all != nil {
		return func(group []*backend.Message) int { return len(group) }
	}
	if x, ok := w.h.(*Mux); ok {
		return x.together
	}
	return nil
}

// limited has a worker hold by lease where the server ends transactions too soon for
// anything else, and returns the server's limit.
func (w *Worker) limited(ctx context.Context, opt *WorkerOptions) (time.Duration, error) {
	if opt.Hold != HoldTransaction || opt.Release != AfterCommit {
		return 0, nil
	}
	limit, setting, err := w.b.transactionLimit(ctx)
	if err != nil {
		return 0, err
	}
	insists := w.given.Hold == HoldTransaction
	text := ""
	switch {
	case tooShort(limit) && insists:
		return 0, limitError(limit, setting)
	case tooShort(limit):
		opt.Hold = HoldLease
		text = "the server ends transactions so soon that a worker holds by lease"
	case limit > 0 && (limit < opt.Lease && insists || limit < opt.Timeout):
		text = "the server ends transactions: a handler that takes longer in Message.Tx loses what it has written"
	}
	if text != "" {
		w.b.log.Warn("parley: "+text, "event", "worker.limit", "queue", w.queues[0], "setting", setting, "limit", limit.String())
	}
	return limit, nil
}

func (w *Worker) begin(ctx context.Context, config consumer.Config) (*consumer.Consumer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != nil {
		return nil, ErrWorking
	}
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.closed {
		return nil, ErrClosed
	}
	config.Readers = w.max
	w.running = consumer.New(ctx, config)
	w.b.workers[w.running] = struct{}{}
	return w.running, nil
}

func (w *Worker) end(c *consumer.Consumer) {
	w.b.mu.Lock()
	delete(w.b.workers, c)
	w.b.mu.Unlock()
	w.mu.Lock()
	w.running = nil
	w.mu.Unlock()
}
