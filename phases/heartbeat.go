package phases

import (
	"context"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/lease"
	"github.com/parleymq/parley/internal/wait"
)

// heartbeat keeps the tasks in hand ours, and ends the contexts of those that an
// operator has cancelled or that were lost.
func (p *Pool) heartbeat(ctx context.Context) {
	for wait.Sleep(ctx, wait.Jitter(min(p.opt.Lease/3, 2*time.Second))) == nil {
		p.mu.Lock()
		tasks := make([]lease.Holder[backend.TaskHold], 0, len(p.held))
		for _, t := range p.held {
			tasks = append(tasks, leased{t})
		}
		p.mu.Unlock()
		err := lease.Beat(tasks, func(holds []backend.TaskHold) error { return p.extend(ctx, holds) })
		if err != nil && ctx.Err() == nil {
			p.b.Logger().Warn("parley: the leases of tasks could not be extended; trying again", "error", err)
		}
	}
}

func (p *Pool) extend(ctx context.Context, holds []backend.TaskHold) error {
	stop, err := p.b.Backend().ExtendTasks(ctx, holds, p.opt.Lease)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range stop {
		if t := p.held[id]; t != nil {
			t.cancel(ErrCancelled)
		}
	}
	return err
}

// leased is what extends the lease of a task. A task continues if its lease expired while the store did not
// answer. It belongs to this worker until another one takes it.
type leased struct{ t *Running }

// Leased implements lease.Holder.
func (l leased) Leased() []backend.TaskHold { return []backend.TaskHold{l.t.hold} }

// Extended implements lease.Holder.
func (leased) Extended(time.Time) {}

// Expired implements lease.Holder.
func (leased) Expired(time.Time) bool { return false }

// Lost implements lease.Holder.
func (l leased) Lost() { l.t.cancel(parley.ErrFenced) }
