package phases

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
)

// A pool looks for requests to cancel its tasks while a task is in hand for longer than most take. It
// does so at least once a second. A wake-up has it look sooner. Heartbeats find tasks whose rows say
// that they are to stop; a request reaches a task whose row is locked by the handler's own transaction.
const (
	requestAge   = 500 * time.Millisecond
	requestEvery = time.Second
	requestPause = 100 * time.Millisecond // between two looks, however often the pool is woken
)

// watchRequests ends the contexts of tasks that are to be cancelled until ctx ends.
func (p *Pool) watchRequests(ctx context.Context) {
	tick := time.NewTicker(requestAge)
	defer tick.Stop()
	for last := time.Now(); ; {
		woken, forget := p.b.Watch(backend.CancelTopic)
		look := false
		select {
		case <-woken:
			look = time.Since(last) > requestPause && p.inHandFor(requestPause)
		case <-tick.C:
			look = time.Since(last) > requestEvery-requestAge/2 && p.inHandFor(requestAge)
		case <-ctx.Done():
		}
		forget()
		if ctx.Err() != nil {
			return
		}
		if look {
			last = time.Now()
			if errors.Is(p.lookForRequests(ctx), errors.ErrUnsupported) {
				return
			}
		}
	}
}

// inHandFor reports whether a task has been in hand for a time.
func (p *Pool) inHandFor(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.held {
		if time.Since(t.since) >= d {
			return true
		}
	}
	return false
}

func (p *Pool) lookForRequests(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.opt.Lease)
	defer cancel()
	list, err := p.b.Backend().CancelRequests(ctx)
	if err != nil {
		return err // heartbeats tell of what is wrong
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range list {
		if t := p.held[r.ID]; t != nil {
			t.cancel(ErrCancelled)
		}
	}
	return nil
}
