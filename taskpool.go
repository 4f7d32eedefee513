package parley

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// TaskHandler does a task. If it returns nil the task is done; else it has
// failed, and is tried again or is dead. Its context ends when the pool stops,
// the task is cancelled, or somebody else has it by now (context.Cause says
// which).
type TaskHandler func(ctx context.Context, t *RunningTask) error

// TaskHandlers are handlers by the type of task; that of the empty name is for
// all other types. A task without a handler is dead at once.
type TaskHandlers map[string]TaskHandler

// TaskPoolOptions are the options of a TaskPool. Nil means all the defaults.
type TaskPoolOptions struct {
	// Workers is how many tasks run at once. Default 8.
	Workers int

	// Schedules narrows the pool to some schedules. Default: all, in turn.
	Schedules []string

	// Lease is for how long a task stays ours without a heartbeat, and so how
	// long the next phase waits when this process dies. Default: that of the
	// Broker; at least 100 ms.
	Lease time.Duration

	// BackOff is the pause before an attempt; the argument is the number of
	// those that failed. Default: 1, 2, 4 … 60 seconds, give or take a fifth.
	BackOff func(failed int) time.Duration

	// MaxDeaths is how often a task is tried again beyond its attempts because
	// its worker has died. Default 3.
	MaxDeaths int
}

// TaskPool runs the tasks of schedules, of all of them in turn, so that one with
// many tasks does not starve the others. Tasks that wait for their phase occupy
// no worker.
type TaskPool struct {
	b        *Broker
	handlers TaskHandlers
	opt      TaskPoolOptions
	running  atomic.Bool

	work  chan *RunningTask // to workers
	ends  chan taskEnd      // from workers
	known bool              // how long tasks take; for the dispatcher only
	usual time.Duration

	strikes strikes
	refused error // the store is not one for this program any more; for the dispatcher only

	mu   sync.Mutex
	held map[ID]*RunningTask
}

// taskEnd is what a worker says of a task.
type taskEnd struct {
	t       *RunningTask
	outcome backend.TaskOutcome
	settled bool // in the handler's own transaction
	took    time.Duration
}

// NewTaskPool makes a pool; Run runs it.
func (b *Broker) NewTaskPool(handlers TaskHandlers, o *TaskPoolOptions) (*TaskPool, error) {
	var opt TaskPoolOptions
	if o != nil {
		opt = *o
	}
	if opt.Workers == 0 {
		opt.Workers = 8
	}
	if opt.Lease == 0 {
		opt.Lease = b.opt.Lease
	}
	if opt.BackOff == nil {
		opt.BackOff = backOff
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
		return nil, &Error{Op: "task pool", Err: ErrInvalidOption, Hint: bad}
	}
	return &TaskPool{b: b, handlers: handlers, opt: opt, held: make(map[ID]*RunningTask)}, nil
}

// RunningTask is a task in its handler's hands.
type RunningTask struct {
	// ID is the same at every attempt: the key of effects outside the database
	// (Tx.Once).
	ID       ID
	Schedule string
	Phase    int
	Type     string
	Body     []byte
	Attempt  int // 1 at first

	pool    *TaskPool
	hold    backend.TaskHold
	ctx     context.Context
	cancel  context.CancelCauseFunc
	tx      *Tx
	open    atomic.Value // of tx
	settled bool
}

// inside returns the transaction that the handler has opened.
func (t *RunningTask) inside(context.Context) backend.Tx {
	tx, _ := t.open.Load().(backend.Tx)
	return tx
}

// Tx opens the transaction in which the task becomes done when its handler
// returns nil, together with what the handler writes in it: exactly once. It
// fails with ErrFenced if the task is somebody else's by now. On a store with a
// single writer everybody else waits for it, so call it last.
func (t *RunningTask) Tx(ctx context.Context) (*Tx, error) {
	if t.tx != nil {
		return t.tx, nil
	}
	if err := t.pool.b.admitted.wait(ctx); err != nil {
		return nil, failTask(t.ID, err)
	}
	tx, err := t.pool.b.begin(ctx)
	if err == nil {
		if err = tx.be.LockTask(ctx, t.hold); err != nil {
			tx.rollback(ctx)
		}
	}
	if err != nil {
		t.pool.b.admitted.leave()
		return nil, failTask(t.ID, err)
	}
	t.tx = tx
	t.open.Store(tx.be)
	return tx, nil
}

func failTask(id ID, err error) error {
	if errors.Is(err, ErrFenced) {
		return &Error{Op: "task", Object: id.String(), Err: err, Hint: "it belongs to another worker by now, or was released"}
	}
	return fail("task", id.String(), err)
}

// DeadTask makes an error of a handler one after which the task is not tried
// again.
func DeadTask(err error) error {
	if err = sound(err); err == nil {
		err = errors.New("its handler wants it dead")
	}
	return &deadTask{err}
}

type deadTask struct{ err error }

func (e *deadTask) Error() string { return e.err.Error() }
func (e *deadTask) Unwrap() error { return e.err }

// Run runs tasks until ctx ends or the Broker is closed, and returns the context's
// error or ErrClosed then. Handlers that end
// with an error because of that have not failed: their tasks are given back. So
// are tasks at once when the process dies, after Lease.
func (p *TaskPool) Run(ctx context.Context) error {
	if !p.running.CompareAndSwap(false, true) {
		return fail("task pool", "", ErrWorking)
	}
	defer p.running.Store(false)
	// Close waits until what the pool has in hand is given back.
	p.b.mu.Lock()
	if p.b.closed {
		p.b.mu.Unlock()
		return fail("task pool", "", ErrClosed)
	}
	p.b.done.Add(1)
	p.b.mu.Unlock()
	defer p.b.done.Done()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(p.b.life, func() { end(ErrClosed) })()
	p.work = make(chan *RunningTask, p.opt.Workers*(1+maxAhead))
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

// dispatch claims tasks and stores what became of them, both in one transaction.
func (p *TaskPool) dispatch(ctx context.Context) error {
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
				return fail("task pool", "", err)
			}
		}
		woken, forget := p.b.hub.watch(p.b.hub.ticket(), wakeTasks)
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
					p.b.log.Warn("parley: task pool: trying again", "error", err)
				}
				time.Sleep(jitter(min(time.Millisecond<<min(trouble, 10), time.Second)))
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

// idle waits until there may be something to do.
func (p *TaskPool) idle(ctx context.Context, woken <-chan struct{}, collect func(taskEnd)) {
	timer := time.NewTimer(jitter(p.b.opt.Poll))
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

// want is how many tasks to claim: as many as there are idle workers, and when
// tasks are short some more, so that no worker waits for a claim.
func (p *TaskPool) want(running int) int {
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
func (p *TaskPool) took(e taskEnd) {
	if !p.known {
		p.usual, p.known = e.took, true
		return
	}
	p.usual += (e.took - p.usual) / 8
}

// cycle stores what became of tasks and claims others. What it has stored is
// taken out of ends.
func (p *TaskPool) cycle(ctx context.Context, ends *[]taskEnd, want int) ([]backend.TaskHold, error) {
	ctx, cancel := cleanup(ctx) // what has ended is stored though the pool ends
	defer cancel()
	be, err := p.b.be.Begin(ctx) // also while the Broker is being closed
	if err != nil {
		return nil, err
	}
	tx := &Tx{b: p.b, be: be}
	defer tx.rollback(ctx)
	batch := make([]backend.TaskEnd, len(*ends))
	for i, e := range *ends {
		batch[i] = backend.TaskEnd{Hold: e.t.hold, Outcome: e.outcome}
	}
	if len(batch) > 0 {
		lost, err := tx.be.FinishTasks(ctx, batch)
		if err != nil {
			return nil, err
		}
		for _, id := range lost {
			p.b.log.Warn("parley: a task that has ended belongs to somebody else by now", "task", id)
		}
	}
	var holds []backend.TaskHold
	if want > 0 {
		holds, err = tx.be.ClaimTasks(ctx, backend.TaskClaim{Schedules: p.opt.Schedules, Max: want, Lease: p.opt.Lease, Owner: p.b.opt.Owner})
		switch {
		case tooOld(err): // what has ended is stored all the same
			p.refused = err
		case err != nil:
			return nil, err
		}
	}
	if len(*ends) > 0 {
		tx.touch(wakeTasks)
	}
	if err := tx.commit(ctx); err != nil {
		return nil, err
	}
	for _, e := range *ends {
		if e.outcome.State == TaskFailed {
			time.AfterFunc(e.outcome.Delay, func() { p.b.hub.wake(wakeTasks) })
		}
	}
	*ends = (*ends)[:0]
	return holds, nil
}

// take hands a claimed task to the workers.
func (p *TaskPool) take(ctx context.Context, h backend.TaskHold) {
	t := &RunningTask{
		ID: h.Task, Schedule: h.Schedule, Phase: h.Phase, Type: h.Type, Body: h.Body, Attempt: h.Attempt,
		pool: p, hold: h,
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	p.mu.Lock()
	p.held[t.ID] = t
	p.mu.Unlock()
	p.work <- t
}

// do has a task done by its handler.
func (p *TaskPool) do(ctx context.Context, t *RunningTask) taskEnd {
	start := time.Now()
	err := p.run(ctx, t)
	e := taskEnd{t: t, settled: t.settled, took: time.Since(start)}
	if !t.settled {
		e.outcome = p.outcome(ctx, t, err)
	}
	p.mu.Lock()
	delete(p.held, t.ID)
	p.mu.Unlock()
	t.cancel(nil)
	return e
}

// errStopped is why a task was not tried to the end: the pool stops.
var errStopped = errors.New("the task pool stops")

// run calls the handler and ends its transaction, if it has one.
func (p *TaskPool) run(ctx context.Context, t *RunningTask) (err error) {
	if t.ctx.Err() != nil {
		return errStopped // or another cause: see outcome
	}
	if deaths := t.hold.Attempt - t.hold.MaxAttempts; deaths > p.opt.MaxDeaths {
		return DeadTask(fmt.Errorf("its worker has died %d times", deaths))
	}
	handler := p.handlers[t.Type]
	if handler == nil {
		handler = p.handlers[""]
	}
	if handler == nil {
		return DeadTask(fmt.Errorf("there is no handler for tasks of type %q", t.Type))
	}
	defer func() {
		if t.tx != nil {
			t.tx.rollback(ctx) // unless it has been committed
			p.b.admitted.leave()
		}
	}()
	err = runTask(backend.InsideWork(t.ctx, t.inside), handler, t)
	if err != nil || t.tx == nil {
		return err
	}
	ctx, cancel := cleanup(ctx)
	defer cancel()
	if err = t.tx.be.FinishTask(ctx, t.hold, backend.TaskOutcome{State: TaskDone}); err == nil {
		t.tx.touch(wakeTasks)
		err = t.tx.commit(ctx)
	}
	switch {
	case err == nil:
		t.settled = true
		p.strikes.clear(t.ID)
	case errors.Is(err, ErrFenced):
		t.cancel(ErrFenced)
	case (IsRetryable(err) || errors.Is(err, ErrConnection)) && p.strikes.add(t.ID, err) < strikesCharged, p.b.halts(err):
		// The task has not failed. If it was committed all the same, giving it
		// back does nothing.
		err = fmt.Errorf("%w: %w", errStopped, err)
	}
	return err
}

// runTask calls a handler in a goroutine of its own, which the handler may end.
func runTask(ctx context.Context, handler TaskHandler, t *RunningTask) error {
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { done <- err }()
		err = guarded(func() error { return handler(ctx, t) })
	}()
	return <-done
}

// outcome is what is stored of a task that did not end in its own transaction.
func (p *TaskPool) outcome(ctx context.Context, t *RunningTask, err error) backend.TaskOutcome {
	o := backend.TaskOutcome{State: TaskDone}
	if err == nil {
		return o
	}
	o.Error = errorText(err)
	var dead *deadTask
	switch cause := context.Cause(t.ctx); {
	case errors.Is(cause, ErrTaskCancelled):
		o.State = TaskCancelled
	case errors.Is(err, errStopped), t.ctx.Err() != nil:
		o.State = TaskQueued
	case errors.As(err, &dead), t.Attempt >= t.hold.MaxAttempts:
		o.State = TaskDead
	default:
		o.State, o.Delay = TaskFailed, p.backOff(t.Attempt)
	}
	if o.State == TaskDead || o.State == TaskFailed {
		p.b.log.Warn("parley: a task has failed", append(stackOf(err), "task", t.ID, "schedule", t.Schedule,
			"attempt", t.Attempt, "state", o.State, "error", firstLine(o.Error))...)
	}
	return o
}

// backOff is the pause after so many failed attempts.
func (p *TaskPool) backOff(failed int) time.Duration {
	var d time.Duration
	if !calmly(p.b.log, "BackOff", func() { d = p.opt.BackOff(failed) }) {
		d = backOff(failed)
	}
	return max(0, d)
}

// heartbeat keeps the tasks in hand ours, and ends the contexts of those that an
// operator has cancelled or that were lost.
func (p *TaskPool) heartbeat(ctx context.Context) {
	for sleep(ctx, jitter(min(p.opt.Lease/3, 2*time.Second))) == nil {
		p.mu.Lock()
		tasks := make([]*RunningTask, 0, len(p.held))
		for _, t := range p.held {
			tasks = append(tasks, t)
		}
		p.mu.Unlock()
		err := p.extend(ctx, tasks)
		if errors.Is(err, ErrFenced) {
			for _, t := range tasks {
				if err := p.extend(ctx, []*RunningTask{t}); errors.Is(err, ErrFenced) {
					t.cancel(ErrFenced)
				}
			}
		} else if err != nil && ctx.Err() == nil {
			p.b.log.Warn("parley: the leases of tasks could not be extended; trying again", "error", err)
		}
	}
}

func (p *TaskPool) extend(ctx context.Context, tasks []*RunningTask) error {
	if len(tasks) == 0 {
		return nil
	}
	holds := make([]backend.TaskHold, len(tasks))
	for i, t := range tasks {
		holds[i] = t.hold
	}
	stop, err := p.b.be.ExtendTasks(ctx, holds, p.opt.Lease)
	for _, t := range tasks {
		for _, id := range stop {
			if t.ID == id {
				t.cancel(ErrTaskCancelled)
			}
		}
	}
	return err
}
