package phases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/failures"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// Running is a task in its handler's hands.
type Running struct {
	// ID is the same at every attempt: use it as the key of effects outside the database (Tx.Once).
	ID      parley.ID
	Plan    string
	Phase   int
	Type    string
	Body    []byte
	Attempt int // 1 at first

	pool    *Pool
	hold    backend.TaskHold
	ctx     context.Context
	cancel  context.CancelCauseFunc
	since   time.Time    // when the pool got it
	open    atomic.Value // of tx
	settled bool

	mu    sync.Mutex // guards what follows
	tx    *parley.OwnTx
	leave func() // what goes with tx
	over  bool   // the handler has returned, or the pool waits for it no longer
}

// inside returns the transaction that the handler has opened.
func (t *Running) inside(context.Context) backend.Tx {
	tx, _ := t.open.Load().(backend.Tx)
	return tx
}

// Tx opens the transaction in which the task becomes done when its handler returns nil. The
// handler's writes in it commit together with that: exactly once. Tx fails with parley.ErrFenced if
// another worker has taken the task. On a store with a single writer all other writers wait for the
// transaction, so call Tx last.
func (t *Running) Tx(ctx context.Context) (*parley.Tx, error) {
	t.mu.Lock()
	opened, over := t.tx, t.over
	t.mu.Unlock()
	switch {
	case over:
		return nil, failTask(t.ID, parley.ErrStopped)
	case opened != nil:
		return opened.Tx, nil
	}
	leave, err := t.pool.b.Admit(ctx)
	if err != nil {
		return nil, failTask(t.ID, err)
	}
	tx, err := t.pool.b.Begin(ctx)
	if err != nil {
		leave()
		return nil, failTask(t.ID, err)
	}
	be, err := tx.Backend()
	if err == nil {
		err = be.LockTask(ctx, t.hold)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.over {
		err = parley.ErrStopped
	}
	if err != nil {
		tx.Rollback(ctx)
		leave()
		return nil, failTask(t.ID, err)
	}
	t.tx, t.leave = tx, leave
	t.open.Store(be)
	return tx.Tx, nil
}

// end takes the transaction from the handler, if it has opened one.
func (t *Running) end() (tx *parley.OwnTx, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.tx, t.leave
}

func failTask(id parley.ID, err error) error {
	if errors.Is(err, parley.ErrFenced) {
		return &parley.Error{Op: "task", Object: id.String(), Err: err, Hint: "it belongs to another worker now, or its plan was deleted"}
	}
	return parley.WrapError("task", id.String(), err)
}

// Dead marks an error of a handler: the task is not tried again.
func Dead(err error) error {
	if err = guard.Sound(err); err == nil {
		err = errors.New("its handler gave it up")
	}
	return &dead{err}
}

type dead struct{ err error }

func (e *dead) Error() string { return e.err.Error() }
func (e *dead) Unwrap() error { return e.err }

// do has a task done by its handler.
func (p *Pool) do(ctx context.Context, t *Running) taskEnd {
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

// errStopped is why a task was not tried to the end: the pool stops. With errDeaf its handler
// goes on anyway.
var (
	errStopped = errors.New("the task pool stops")
	errDeaf    = fmt.Errorf("%w, and its handler does not return", errStopped)
)

// run calls the handler and ends its transaction, if it has one.
func (p *Pool) run(ctx context.Context, t *Running) (err error) {
	if t.ctx.Err() != nil {
		return errStopped // or another cause: see outcome
	}
	if deaths := t.hold.Attempt - t.hold.MaxAttempts; deaths > p.opt.MaxDeaths {
		return Dead(fmt.Errorf("its worker has died %d times", deaths))
	}
	handler := p.handlers[t.Type]
	if handler == nil {
		handler = p.handlers[""]
	}
	if handler == nil {
		return Dead(fmt.Errorf("there is no handler for tasks of type %q", t.Type))
	}
	err = p.call(handler, t)
	ctx, cancel := wait.Cleanup(ctx)
	defer cancel()
	tx, leave := t.end()
	if tx == nil {
		return err
	}
	defer leave()
	if errors.Is(err, errDeaf) { // its handler may be using tx: nothing else of it is touched
		_ = t.inside(ctx).Rollback(ctx)
		return err
	}
	defer tx.Rollback(ctx) // unless it has been committed
	if err != nil {
		return err
	}
	be, err := tx.Backend()
	if err == nil {
		err = be.FinishTask(ctx, t.hold, backend.TaskOutcome{State: StateDone})
	}
	if err == nil {
		err = tx.Notify(ctx, backend.TasksTopic)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	switch {
	case err == nil:
		t.settled = true
		p.failures.Clear(t.ID)
	case errors.Is(err, parley.ErrFenced):
		t.cancel(parley.ErrFenced)
	case (parley.IsRetryable(err) || errors.Is(err, parley.ErrConnection)) && p.failures.Add(t.ID, err) < failures.Charged, p.b.Unavailable(err):
		// The task has not failed. If it was committed anyway, giving it
		// back does nothing.
		err = fmt.Errorf("%w: %w", errStopped, err)
	}
	return err
}

// Handlers have so long to return after the pool was stopped, and less while the Broker is
// being closed.
const (
	unresponsive        = 5 * time.Second
	unresponsiveAtClose = time.Second
)

// call calls a handler in a separate goroutine, which the handler may end. It does not wait
// without limit for a handler that does not look at its context when the pool stops.
func (p *Pool) call(handler Handler, t *Running) error {
	ctx := backend.InsideWork(t.ctx, t.inside)
	done := make(chan error, 1)
	go func() {
		err := guard.ErrExited
		defer func() { done <- err }()
		err = guard.Call(func() error { return handler(ctx, t) })
	}()
	select {
	case err := <-done:
		return err
	case <-p.stopped:
	}
	patience := unresponsive
	if p.b.Context().Err() != nil {
		patience = unresponsiveAtClose
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
	}
	p.b.Logger().Error("parley: the handler of a task did not return; the task was given back",
		"event", "pool.abandoned", "task", t.ID, "plan", t.Plan)
	return errDeaf
}

// outcome is what is stored of a task that did not end in its own transaction.
func (p *Pool) outcome(ctx context.Context, t *Running, err error) backend.TaskOutcome {
	o := backend.TaskOutcome{State: StateDone}
	if err == nil {
		return o
	}
	o.Error = guard.Text(err)
	var d *dead
	switch cause := context.Cause(t.ctx); {
	case errors.Is(cause, ErrCancelled):
		o.State = StateCancelled
	case errors.Is(err, errStopped), t.ctx.Err() != nil:
		o.State = StateQueued
	case errors.As(err, &d), t.Attempt >= t.hold.MaxAttempts:
		o.State = StateDead
	default:
		o.State, o.Delay = StateFailed, p.backoff(t.Attempt)
	}
	if o.State == StateDead || o.State == StateFailed {
		p.b.Logger().Warn("parley: a task has failed", append(guard.Stack(err), "task", t.ID, "plan", t.Plan,
			"attempt", t.Attempt, "state", o.State, "error", guard.FirstLine(o.Error))...)
	}
	return o
}

// backoff is the pause after a number of failed attempts.
func (p *Pool) backoff(failed int) time.Duration {
	var d time.Duration
	if !guard.Hook(p.b.Logger(), "Backoff", func() { d = p.opt.Backoff(failed) }) {
		d = backoff(failed)
	}
	return max(0, d)
}
