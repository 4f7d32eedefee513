package phases

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/failures"
	"github.com/parleymq/parley/internal/wait"
)

// Handler runs a task. If it returns nil, the task is done. If it returns an error, the task has
// failed, and is tried again or is dead. Its context ends when the pool stops, when the task is
// cancelled, or when another worker has taken the task; context.Cause tells these apart.
type Handler func(ctx context.Context, t *Running) error

// Handlers are handlers by the type of task. The handler of the empty name is for all
// other types. A task without a handler is dead at once.
type Handlers map[string]Handler

// PoolOptions are the options of a Pool. Nil means all the defaults.
type PoolOptions struct {
	// Workers is how many tasks run at once. Zero means 8.
	Workers int

	// Plans narrows the pool to some plans. Empty means all, in turn.
	Plans []string

	// Lease is how long a task stays with this process without a heartbeat, and so how long
	// the next phase waits when the process dies. Zero means the lease of the Broker. It is
	// at least 100 ms.
	Lease time.Duration

	// Backoff returns the pause after a number of failed attempts. Nil means 1, 2, 4 … 60
	// seconds, give or take a fifth.
	Backoff func(failed int) time.Duration

	// MaxDeaths is how many further attempts a task gets because its worker died. Zero means three.
	MaxDeaths int
}

// Pool runs the tasks of plans in turn, so that a plan with many tasks does not starve others.
// Tasks that wait for their phase occupy no worker.
type Pool struct {
	b        *parley.Broker
	handlers Handlers
	opt      PoolOptions
	running  atomic.Bool

	stopped <-chan struct{} // closed when it stops

	work  chan *Running // to workers
	ends  chan taskEnd  // from workers
	known bool          // how long tasks take; for the dispatcher only
	usual time.Duration

	failures failures.Count
	refused  error // the store is not one for this program any more; for the dispatcher only

	mu   sync.Mutex
	held map[parley.ID]*Running
}

// backoff is the pause before the next attempt of a task.
func backoff(attempt int) time.Duration {
	return wait.Jitter(min(time.Second<<min(attempt-1, 10), time.Minute))
}

// taskEnd is what a worker says of a task.
type taskEnd struct {
	t       *Running
	outcome backend.TaskOutcome
	settled bool // in the handler's own transaction
	took    time.Duration
}

// NewPool makes a pool; Run runs it.
func NewPool(b *parley.Broker, handlers Handlers, o *PoolOptions) (*Pool, error) {
	var opt PoolOptions
	if o != nil {
		opt = *o
	}
	if opt.Workers == 0 {
		opt.Workers = 8
	}
	if opt.Lease == 0 {
		opt.Lease = b.Options().Lease
	}
	if opt.Backoff == nil {
		opt.Backoff = backoff
	}
	if opt.MaxDeaths == 0 {
		opt.MaxDeaths = 3
	}
	bad := ""
	switch {
	case opt.Workers < 1 || opt.Workers > 1000:
		bad = "Workers: want 1 to 1000"
	case opt.Lease < 100*time.Millisecond:
		bad = "Lease: want at least 100ms"
	case opt.MaxDeaths < 0:
		bad = "MaxDeaths: want a number above zero"
	case len(handlers) == 0:
		bad = "no handlers"
	}
	if bad != "" {
		return nil, &parley.Error{Op: "task pool", Err: parley.ErrInvalidOption, Hint: bad}
	}
	return &Pool{b: b, handlers: handlers, opt: opt, held: make(map[parley.ID]*Running)}, nil
}

// Run runs tasks until ctx ends, and then returns nil. It returns parley.ErrClosed when the Broker
// is closed, and parley.ErrNewerSchema when the database's schema has become that of a newer
// Parley. If handlers return an error because of that, their tasks are released and have not
// failed. A handler that continues for another five seconds loses its task, too. Tasks of a dead
// process are released after Lease.
func (p *Pool) Run(ctx context.Context) error {
	if !p.running.CompareAndSwap(false, true) {
		return parley.WrapError("task pool", "", parley.ErrWorking)
	}
	defer p.running.Store(false)
	// Close waits until what the pool has in hand is given back.
	over := make(chan struct{})
	defer close(over)
	if !p.b.Go(func(context.Context) { <-over }) {
		return parley.WrapError("task pool", "", parley.ErrClosed)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(p.b.Context(), func() { end(parley.ErrClosed) })()
	p.stopped = ctx.Done()
	p.work = make(chan *Running, p.opt.Workers*(1+maxAhead))
	p.ends = make(chan taskEnd, p.opt.Workers*(2+maxAhead))
	var workers sync.WaitGroup
	for range p.opt.Workers {
		workers.Go(func() {
			for t := range p.work {
				p.ends <- p.do(ctx, t)
			}
		})
	}
	beat, stop := context.WithCancel(context.WithoutCancel(ctx))
	var heart sync.WaitGroup
	heart.Go(func() { p.heartbeat(beat) })
	heart.Go(func() { p.watchRequests(beat) })
	err := p.dispatch(ctx)
	workers.Wait()
	stop()
	heart.Wait()
	return err
}

// maxAhead is how many tasks are claimed ahead for each worker when they are
// short, which is when handlers take less than short.
const (
	maxAhead = 8
	short    = 2 * time.Millisecond
)

// claimMany is how many tasks are claimed at once.
const claimMany = 200

// dispatch claims tasks and stores their outcomes, both in one transaction.
func (p *Pool) dispatch(ctx context.Context) error {
	defer close(p.work)
	var ends []taskEnd // to be stored
	running := 0       // in workers' hands or on their way
	collect := func(e taskEnd) {
		running--
		p.took(e)
		if !e.settled {
			ends = append(ends, e)
		}
	}
	for trouble := 0; ; {
		want := p.want(running)
		if err := cmp.Or(context.Cause(ctx), p.refused); err != nil {
			want = 0
			if running == 0 && (len(ends) == 0 || trouble > 3) { // what cannot be stored comes back after its lease
				return p.why(ctx)
			}
		}
		woken, forget := p.b.Watch(backend.TasksTopic)
		again := false
		if want > 0 || len(ends) > 0 {
			holds, err := p.cycle(ctx, &ends, want)
			for _, h := range holds {
				running++
				p.take(ctx, h)
			}
			again = err == nil && len(holds) == want && p.want(running) > 0
			if err != nil {
				again = true
				if trouble++; trouble == 2 {
					p.b.Logger().Warn("parley: task pool: trying again", "error", err)
				}
				time.Sleep(wait.Jitter(min(time.Millisecond<<min(trouble, 10), time.Second)))
			} else {
				trouble = 0
			}
		}
		if !again {
			p.idle(ctx, woken, collect)
		}
		forget()
		for more := true; more; {
			select {
			case e := <-p.ends:
				collect(e)
			default:
				more = false
			}
		}
	}
}

// why is what Run returns.
func (p *Pool) why(ctx context.Context) error {
	if p.refused == nil && !errors.Is(context.Cause(ctx), parley.ErrClosed) {
		return nil // its context has ended
	}
	return parley.WrapError("task pool", "", cmp.Or(p.refused, parley.ErrClosed))
}

// idle waits until there may be something to do.
func (p *Pool) idle(ctx context.Context, woken <-chan struct{}, collect func(taskEnd)) {
	timer := time.NewTimer(wait.Jitter(p.b.Options().Poll))
	defer timer.Stop()
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil // workers are coming to an end
	}
	select {
	case e := <-p.ends:
		collect(e)
	case <-woken:
	case <-timer.C:
	case <-done:
	}
}

// want is how many tasks to claim: one for each idle worker. When tasks are short it is some more,
// so that no worker waits for a claim.
func (p *Pool) want(running int) int {
	room := p.opt.Workers
	if p.known && p.usual < short {
		room *= 1 + maxAhead
		if running > room/2 {
			return 0 // many at a time
		}
	}
	return min(max(0, room-running), claimMany)
}

// took learns how long tasks take.
func (p *Pool) took(e taskEnd) {
	if !p.known {
		p.usual, p.known = e.took, true
		return
	}
	p.usual += (e.took - p.usual) / 8
}

// cycle stores the outcome of tasks and claims others. What it has stored is
// taken out of ends.
func (p *Pool) cycle(ctx context.Context, ends *[]taskEnd, want int) ([]backend.TaskHold, error) {
	ctx, cancel := wait.Cleanup(ctx) // what has ended is stored though the pool ends
	defer cancel()
	tx, err := p.b.Backend().Begin(ctx) // also while the Broker is being closed
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) // unless it has been committed
	batch := make([]backend.TaskEnd, len(*ends))
	for i, e := range *ends {
		batch[i] = backend.TaskEnd{Hold: e.t.hold, Outcome: e.outcome}
	}
	if len(batch) > 0 {
		lost, err := tx.FinishTasks(ctx, batch)
		if err != nil {
			return nil, err
		}
		for _, id := range lost {
			p.b.Logger().Warn("parley: the lease of a finished task was lost to another worker", "task", id)
		}
	}
	var holds []backend.TaskHold
	if want > 0 {
		holds, err = tx.ClaimTasks(ctx, backend.TaskClaim{Plans: p.opt.Plans, Max: want, Lease: p.opt.Lease, Owner: p.b.Options().Owner})
		switch {
		case errors.Is(err, parley.ErrNewerSchema) || errors.Is(err, parley.ErrUnknownSchema): // what has ended is stored anyway
			p.refused = err
		case err != nil:
			return nil, err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, err
	}
	if len(*ends) > 0 {
		p.b.Wake(backend.TasksTopic)
	}
	for _, e := range *ends {
		if e.outcome.State == StateFailed {
			time.AfterFunc(e.outcome.Delay, func() { p.b.Wake(backend.TasksTopic) })
		}
	}
	*ends = (*ends)[:0]
	return holds, nil
}

// take hands a claimed task to the workers.
func (p *Pool) take(ctx context.Context, h backend.TaskHold) {
	t := &Running{
		ID: h.Task, Plan: h.Plan, Phase: h.Phase, Type: h.Type, Body: h.Body, Attempt: h.Attempt,
		pool: p, hold: h, since: time.Now(),
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	p.mu.Lock()
	p.held[t.ID] = t
	p.mu.Unlock()
	p.work <- t
}
