package phases

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// heartbeat keeps the tasks in hand ours, and ends the contexts of those that an
// operator has cancelled or that were lost.
func (p *Pool) heartbeat(ctx context.Context) {
	for wait.Sleep(ctx, wait.Jitter(min(p.opt.Lease/3, 2*time.Second))) == nil {
		p.mu.Lock()
		tasks := make([]*Running, 0, len(p.held))
		for _, t := range p.held {
			tasks = append(tasks, t)
		}
		p.mu.Unlock()
		err := p.extend(ctx, tasks)
		if errors.Is(err, parley.ErrFenced) {
			for _, t := range tasks {
				if err := p.extend(ctx, []*Running{t}); errors.Is(err, parley.ErrFenced) {
					t.cancel(parley.ErrFenced)
				}
			}
		} else if err != nil && ctx.Err() == nil {
			p.b.Logger().Warn("parley: the leases of tasks could not be extended; trying again", "error", err)
		}
	}
}

func (p *Pool) extend(ctx context.Context, tasks []*Running) error {
	if len(tasks) == 0 {
		return nil
	}
	holds := make([]backend.TaskHold, len(tasks))
	for i, t := range tasks {
		holds[i] = t.hold
	}
	stop, err := p.b.Backend().ExtendTasks(ctx, holds, p.opt.Lease)
	for _, t := range tasks {
		for _, id := range stop {
			if t.ID == id {
				t.cancel(ErrCancelled)
			}
		}
	}
	return err
}
