package parley

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
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
	// MaxReaders is how many handlers run at once. Default 10. In transaction mode
	// each has a connection of the pool while it works.
	MaxReaders int

	// Also are further queues that the same handler serves, with the same
	// readers. They take turns.
	Also []string

	// Hold says how groups are held while handlers work. By default, where the
	// store can, in the transaction in which they are acknowledged, as long as the
	// pool has connections for that, else by lease; a handler that takes more than
	// a second and has not asked for Message.Tx goes on by lease. Choose HoldLease
	// for longer work. With HoldTransaction a pool that is too small is ErrPool.
	Hold Hold

	// Lease is how long a lease lasts without a heartbeat. Default Options.Lease.
	Lease time.Duration

	// Release BeforeWork takes messages out, one by one, before they are handled:
	// at most once. A crash, and a handler's error, lose them.
	Release Release

	// MaxBatch limits how many messages are handled in one transaction. Default
	// 100; the worker takes fewer as long as that is fast enough, or handlers
	// are slow. 1 is for handlers with effects outside the database, which are
	// repeated when a batch has to be done again.
	MaxBatch int

	// BatchTime is how long a batch may take before what is left of it is given
	// back, its wait for the store's only writer not counted. Default 50 ms. Where
	// it takes longer to claim and settle a batch, handling it may take as long as
	// that, up to ten times BatchTime.
	BatchTime time.Duration

	// Isolation is what a failing handler takes down with it. Default: itself.
	Isolation Isolation

	// MaxAttempts is how often a message is tried before Poison. Default 20, which
	// with the default Backoff takes about two hours; below zero: without end, though
	// processes die with it.
	MaxAttempts int

	// Backoff says how long the group of a message waits after so many failures.
	// Default Backoff(time.Second, 10*time.Minute).
	Backoff func(attempt int) time.Duration

	// CountTransient has deadlocks, lost connections and the like count as
	// attempts. By default ten of them in a row count as one.
	CountTransient bool

	// UnknownTypes is how long a message is put off, again and again, whose type
	// the Mux has no handler for, before it is dealt with as poison. Default 24
	// hours, which should be longer than a new version takes to reach all workers;
	// below zero: no time at all.
	UnknownTypes time.Duration

	// Poison is what is done with a message that has failed MaxAttempts times or
	// is poison by its nature. Default ActionPark.
	Poison Action

	// OnPoison, if set, decides instead of Poison.
	OnPoison func(ctx context.Context, p PoisonMessage) Action

	// Grace is how long handlers may go on after the worker was told to stop,
	// before their contexts end. Default 10 s; below zero: no time at all.
	Grace time.Duration

	// Observer hears what the worker does.
	Observer Observer
}

func (o *WorkerOptions) withDefaults(b *Broker) (WorkerOptions, error) {
	var v WorkerOptions
	if o != nil {
		v = *o
	}
	_, canHold := b.be.(backend.TransactionHolder)
	why := ""
	switch {
	case v.MaxReaders < 0:
		why = "MaxReaders is not below zero"
	case v.MaxBatch < 0 || v.MaxBatch > 1000:
		why = "MaxBatch: want 1 to 1000"
	case v.BatchTime < 0:
		why = "BatchTime is not below zero"
	case v.Hold < HoldDefault || v.Hold > HoldLease || v.Release < AfterCommit || v.Release > BeforeWork:
		why = "Hold or Release is out of range"
	case v.Hold == HoldTransaction && !canHold:
		why = "this store has a single writer: hold by lease"
	case v.Lease != 0 && v.Lease < 100*time.Millisecond:
		why = "Lease: want at least 100 ms"
	case v.Isolation < IsolateEach || v.Isolation > IsolateBatch:
		why = "Isolation is out of range"
	case !v.Poison.valid():
		why = "Poison is out of range"
	}
	if why != "" {
		return v, &Error{Op: "new worker", Err: ErrInvalidOption, Hint: why}
	}
	if v.MaxReaders == 0 {
		v.MaxReaders = 10
	}
	if v.Hold == HoldDefault {
		v.Hold = HoldLease
		if canHold {
			v.Hold = HoldTransaction
		}
	}
	if v.Lease == 0 {
		v.Lease = b.opt.Lease
	}
	if v.Release == BeforeWork {
		v.MaxBatch = 1 // so that a crash loses no more
	}
	if v.MaxBatch == 0 {
		v.MaxBatch = 100
	}
	if v.BatchTime == 0 {
		v.BatchTime = 50 * time.Millisecond
	}
	if v.MaxAttempts == 0 {
		v.MaxAttempts = defaultAttempts
	}
	if v.Backoff == nil {
		v.Backoff = defaultBackoff
	}
	if v.UnknownTypes == 0 {
		v.UnknownTypes = 24 * time.Hour
	}
	if v.Grace == 0 {
		v.Grace = 10 * time.Second
	}
	if v.Observer == nil {
		v.Observer = NopObserver{}
	}
	v.Observer = calmObserver{v.Observer, b.log}
	return v, nil
}

// Worker receives from queues and calls a handler for each message, with many
// readers at once. Nobody is told to start one twice: it sleeps while there is
// nothing to do, has all its readers at work as soon as there is enough for
// them, and handles many messages in one transaction when they come fast.
type Worker struct {
	b       *Broker
	h       Handler
	all     GroupHandler // h, if it is one
	insists bool         // on HoldTransaction
	opt     WorkerOptions
	id      ID

	sources []*source
	poke    chan time.Time // has the waiting reader look

	outage, slump *lull       // pauses of the whole worker
	unwritten     atomic.Bool // the last thing that was to be settled could not be written
	tally         tally
	strikes       strikes
	limit         time.Duration // of the server's for transactions
	wariness      wariness
	leases        atomic.Bool // it holds by lease, always or at times
	elsewhere     atomic.Pointer[elsewhere]

	mu      sync.Mutex
	running bool
	drain   bool
	stopped bool  // no more claims
	unfit   error // why it stopped by itself
	max     int
	readers int
	brief   int  // batches that are expected to be over soon
	waiting bool // one of the readers waits for messages
	turn    int  // of the sources
	batches map[*batch]struct{}
	slots   []ID          // of records of batches that are not in use
	alone   chan struct{} // has room for the one reader that handles a suspect
	gone    chan struct{} // closed when the last reader is gone
	ended   chan struct{} // closed when Run is done with the store

	stop     context.Context // ends with the wish to stop
	halt     context.CancelFunc
	work     context.Context // ends when handlers have to
	stopWork context.CancelCauseFunc
}

// source is a queue of a worker.
type source struct {
	name   string
	id     ID    // of the record that the worker serves it
	queue  Queue // as last seen
	claims *turnstile
	pace   *pace

	mu  sync.Mutex
	off time.Time // nothing to be had until then: the queue is disabled
}

// NewWorker makes a worker for a queue. Run starts it.
func (b *Broker) NewWorker(queue string, h Handler, o *WorkerOptions) *Worker {
	w := &Worker{b: b, h: h, id: NewID(), poke: make(chan time.Time, 1), alone: make(chan struct{}, 1), outage: newOutage(), slump: newSlump()}
	w.all, _ = h.(GroupHandler)
	if o == nil {
		o = new(WorkerOptions)
	}
	w.insists = o.Hold == HoldTransaction
	w.opt = *o
	w.max = o.MaxReaders
	if w.max == 0 {
		w.max = 10
	}
	for _, name := range append([]string{queue}, o.Also...) {
		w.sources = append(w.sources, &source{name: name, id: NewID(), claims: newTurnstile(b.maxClaims())})
	}
	return w
}

// SetMaxReaders changes how many handlers run at once. More start at once where
// there is work; what runs comes to its end.
func (w *Worker) SetMaxReaders(n int) {
	w.mu.Lock()
	w.max = max(n, 0)
	w.mu.Unlock()
	w.spawn(0, false)
	w.nudge()
}

// most is how many handlers may run at once.
func (w *Worker) most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.max
}

// Readers returns how many handlers, or batches of them, are at work.
func (w *Worker) Readers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.batches)
}

// Run works until ctx ends. Then nothing more is received, handlers have
// WorkerOptions.Grace to come to their end, their contexts end, and what they
// have not handled is given back, which does not count as a failure. Run returns
// nil when all of that is done, and an error if handlers do not return; what they
// hold is then given back without them. Run stops in the same way, and returns
// ErrNewerSchema, when the database has become one of a newer Parley.
func (w *Worker) Run(ctx context.Context) error { return w.run(ctx, false) }

// Drain works until there is nothing more to receive, and returns when that is
// done. What waits for a later time stays: delayed posts, deferred groups,
// retries.
func (w *Worker) Drain(ctx context.Context) error { return w.run(ctx, true) }

func (w *Worker) run(ctx context.Context, drain bool) error {
	const op = "run worker"
	obj := objQueue(w.sources[0].name)
	opt, err := w.opt.withDefaults(w.b)
	if err == nil && w.h == nil {
		err = &Error{Op: op, Object: obj, Err: ErrInvalidOption, Hint: "the handler is nil"}
	}
	if err == nil {
		err = w.b.check()
	}
	if err == nil {
		err = w.ready(ctx, &opt)
	}
	if err == nil {
		err = w.begin(ctx, opt, drain)
	}
	if err != nil {
		return fail(op, obj, err)
	}
	defer w.end()
	if err := w.register(ctx); err != nil {
		return fail(op, obj, err)
	}
	defer w.unregister()
	if w.leases.Store(w.opt.Hold == HoldLease); w.looksElsewhere() {
		w.lookElsewhere(ctx)
	}
	w.b.log.Info("parley: worker started", "event", "worker.started", "queue", w.sources[0].name, "readers", w.most())
	w.spawn(0, false)
	beating, silence := context.WithCancel(w.b.life)
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		w.heartbeats(beating)
	}()
	if drain {
		select {
		case <-w.gone:
		case <-w.stop.Done():
		}
	} else {
		<-w.stop.Done()
	}
	err = w.finish()
	silence()
	<-silent
	w.mu.Lock()
	err = errors.Join(err, w.unfit)
	w.mu.Unlock()
	w.b.log.Info("parley: worker stopped", "event", "worker.stopped", "queue", w.sources[0].name)
	return fail(op, obj, err)
}

// ready checks what would otherwise show as a worker that does nothing.
func (w *Worker) ready(ctx context.Context, opt *WorkerOptions) error {
	err := w.b.withCatalog(ctx, func(v *catalogView) error {
		for _, s := range w.sources {
			q, ok := v.queues[s.name]
			if !ok {
				return fmt.Errorf("%s: %w", objQueue(s.name), ErrUnknownQueue)
			}
			s.queue = q
		}
		return nil
	})
	if err == nil {
		err = w.limited(ctx, opt)
	}
	if err != nil {
		return err
	}
	p, ok := w.b.be.(backend.Pool)
	if !ok || !w.insists || opt.Release == BeforeWork {
		return nil
	}
	w.mu.Lock()
	need := w.max + spareConns
	w.mu.Unlock()
	if n := p.MaxConns(); n > 0 && n < need {
		return &Error{Op: "run worker", Object: objQueue(w.sources[0].name), Err: ErrPool,
			Hint: fmt.Sprintf("it has %d connections, and %d readers that hold in transactions need %d: raise the pool's limit, lower MaxReaders, or hold by lease", n, need-spareConns, need)}
	}
	return nil
}

func (w *Worker) begin(ctx context.Context, opt WorkerOptions, drain bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return ErrWorking
	}
	w.opt, w.running, w.drain, w.stopped, w.unfit = opt, true, drain, false, nil
	w.batches = make(map[*batch]struct{})
	w.gone, w.ended = make(chan struct{}), make(chan struct{})
	w.stop, w.halt = context.WithCancel(ctx)
	w.work, w.stopWork = context.WithCancelCause(context.WithoutCancel(ctx))
	for _, s := range w.sources {
		s.pace = newPace(opt.MaxBatch, opt.BatchTime)
	}
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if w.b.closed {
		w.running = false
		return ErrClosed
	}
	w.b.workers[w] = struct{}{}
	return nil
}

// refuse stops the worker for a reason that Run returns.
func (w *Worker) refuse(err error) {
	w.mu.Lock()
	w.unfit = err
	w.mu.Unlock()
	w.halt()
}

func (w *Worker) end() {
	w.halt()
	w.stopWork(nil)
	w.b.mu.Lock()
	delete(w.b.workers, w)
	w.b.mu.Unlock()
	w.mu.Lock()
	w.running = false
	close(w.ended)
	w.mu.Unlock()
}

// unresponsive is how long handlers have to return after their contexts ended.
const unresponsive = 5 * time.Second

// finish stops claiming and sees handlers to their end.
func (w *Worker) finish() error {
	w.mu.Lock()
	w.stopped = true
	if w.readers == 0 {
		w.close()
	}
	gone := w.gone
	w.mu.Unlock()
	w.halt()
	select {
	case <-gone:
		return nil
	case <-after(w.opt.Grace):
	case <-w.work.Done(): // the broker is being closed
	}
	w.stopWork(ErrStopped)
	select {
	case <-gone:
		return nil
	case <-after(unresponsive):
	}
	w.mu.Lock()
	var left []*batch
	for t := range w.batches {
		left = append(left, t)
	}
	w.mu.Unlock()
	for _, t := range left {
		t.abandon()
	}
	if len(left) == 0 {
		<-gone
		return nil
	}
	w.b.log.Error("parley: handlers did not return; what they held was given back", "event", "worker.abandoned", "queue", w.sources[0].name, "handlers", len(left))
	return fmt.Errorf("%d handlers did not return %v after their contexts had ended: %w", len(left), unresponsive, ErrStopped)
}

// close tells that the last reader is gone, and that there shall be no other. w.mu
// is held.
func (w *Worker) close() {
	w.stopped = true
	select {
	case <-w.gone:
	default:
		close(w.gone)
	}
}

func after(d time.Duration) <-chan time.Time { return time.After(max(d, 0)) }

// shut is for Broker.Close: it stops the worker without grace.
func (w *Worker) shut() {
	w.mu.Lock()
	ended := w.ended
	w.stopped = true
	w.mu.Unlock()
	w.stopWork(ErrClosed)
	w.halt()
	select {
	case <-ended:
	case <-after(2 * time.Second):
	}
}

// heartbeats prolong the leases of all batches until ctx ends.
func (w *Worker) heartbeats(ctx context.Context) {
	tick, sign, look := time.NewTicker(w.opt.Lease/3), time.NewTicker(aliveFor/3), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer sign.Stop()
	defer look.Stop()
	for {
		select {
		case <-tick.C:
			w.heartbeat(ctx)
		case <-sign.C:
			sign, cancel := context.WithTimeout(ctx, aliveFor/3)
			if err := w.b.be.Alive(sign, w.id, aliveFor); err != nil && !gone(err) && ctx.Err() == nil {
				w.b.log.Warn("parley: the records of a worker could not be prolonged", "event", "worker.alive", "error", err)
			}
			cancel()
		case <-look.C:
			if w.looksElsewhere() {
				begun := time.Now()
				w.lookElsewhere(ctx)
				look.Reset(max(lookEvery, 20*time.Since(begun)))
			}
		case <-ctx.Done():
			return
		}
	}
}

func (w *Worker) heartbeat(ctx context.Context) {
	w.mu.Lock()
	var batches []*batch
	for t := range w.batches {
		batches = append(batches, t)
	}
	w.mu.Unlock()
	var all []*backend.Hold
	var which []*batch
	for _, t := range batches {
		if holds := t.leased(); len(holds) > 0 {
			all, which = append(all, holds...), append(which, t)
		}
	}
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.opt.Lease/3)
	defer cancel()
	now := time.Now()
	err := w.b.be.Extend(ctx, all, w.opt.Lease)
	if err == nil {
		for _, t := range which {
			t.extended(now)
		}
		return
	}
	for _, t := range which { // find out which one is lost
		holds := t.leased()
		if len(holds) == 0 {
			continue
		}
		if errors.Is(err, ErrFenced) {
			if e := w.b.be.Extend(ctx, holds, w.opt.Lease); e == nil {
				t.extended(now)
				continue
			} else if errors.Is(e, ErrFenced) {
				t.lose()
				continue
			}
		}
		t.expire(time.Now())
	}
	if !errors.Is(err, ErrFenced) {
		w.b.log.Warn("parley: a heartbeat failed", "event", "lease.heartbeat", "queue", w.sources[0].name, "error", err)
	}
}
