package phases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// Wait returns when all tasks of the plan are over. It returns nil, or a *HaltedError when the plan
// is halted and none of its tasks runs any more. Any process may call it, any number of times. It
// fails with ErrNoPlan when the plan is deleted.
func (p *Plan) Wait(ctx context.Context) error {
	err := p.until(ctx, func(now Progress) (bool, error) {
		if now.Halted && now.Running == 0 {
			return true, p.halted(ctx)
		}
		return now.Over, nil
	})
	return fail("wait", p.name, err)
}

// until waits for progress.
func (p *Plan) until(ctx context.Context, done func(Progress) (bool, error)) error {
	for {
		if err := open(p.b); err != nil {
			return err
		}
		woken, forget := p.b.Watch(backend.TasksTopic)
		now, err := p.progress(ctx)
		over := false
		if err == nil {
			over, err = done(now)
		}
		if !over && err == nil {
			select {
			case <-woken:
			case <-time.After(wait.Jitter(p.b.Options().Poll)):
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		forget()
		if over || err != nil {
			return err
		}
	}
}

func (p *Plan) progress(ctx context.Context) (Progress, error) {
	now, err := p.b.Backend().Progress(ctx, p.name)
	if err == nil && now.ID != p.id {
		err = fmt.Errorf("it was deleted and created again: %w", ErrNoPlan)
	}
	return now, err
}

func (p *Plan) halted(ctx context.Context) error {
	e := &HaltedError{Plan: p.name}
	status, err := p.b.Backend().Plans(ctx, p.name)
	if err == nil && len(status) > 0 {
		e.Reason = status[0].Error
	}
	return e
}

// Progress returns how far the plan is. Its cost does not depend on the number of tasks.
func (p *Plan) Progress(ctx context.Context) (Progress, error) {
	return read(p.b, "progress", p.name, func() (Progress, error) { return p.progress(ctx) })
}

// Next waits for a finished task that no caller has received yet, and returns it. One caller in all
// processes gets each task, once. If the caller's process dies as Next returns, the task may be
// lost. NextTx returns the task in the transaction in which the caller acts on it. Next fails with
// ErrNoTask when all tasks are over and have been returned, and with a *HaltedError as Wait does.
func (p *Plan) Next(ctx context.Context) (*TaskStatus, error) {
	var task *TaskStatus
	err := p.until(ctx, func(now Progress) (bool, error) {
		err := p.b.InTx(ctx, func(tx *parley.Tx) (err error) {
			task, err = p.NextTx(ctx, tx)
			return err
		})
		switch {
		case errors.Is(err, parley.ErrSerialization):
			return false, nil
		case err != nil || task != nil:
			return true, err
		case now.Halted && now.Running == 0:
			return true, p.halted(ctx)
		case now.Over:
			return true, ErrNoTask
		}
		return false, nil
	})
	if err != nil {
		return nil, fail("next", p.name, err)
	}
	return task, nil
}

// NextTx returns a finished task that no caller has received yet, or nil if there is none now. The
// task counts as received when the transaction commits.
func (p *Plan) NextTx(ctx context.Context, tx *parley.Tx) (t *TaskStatus, err error) {
	be, err := tx.Backend()
	if err == nil {
		t, err = be.NextFinished(ctx, p.name, p.id)
	}
	return t, fail("next", p.name, err)
}

// Run works on the plan with a separate Pool until Wait returns, and returns the result of Wait: nil
// means that all tasks are over. When ctx ends first, Run returns its error, and the tasks go on in
// another process or in the next Run. When the pool has to stop, Run returns the pool's error.
func (p *Plan) Run(ctx context.Context, handlers Handlers, o *PoolOptions) error {
	var opt PoolOptions
	if o != nil {
		opt = *o
	}
	opt.Plans = []string{p.name}
	pool, err := NewPool(p.b, handlers, &opt)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer stop() // nothing is waited for that the pool does not do
		ended <- pool.Run(running)
	}()
	err = p.Wait(running)
	stop()
	if poolErr := <-ended; poolErr != nil && (err == nil || ctx.Err() == nil && errors.Is(err, context.Canceled)) {
		err = poolErr
	}
	return err
}
