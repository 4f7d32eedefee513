package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

// waits are how long messages waited that this process has handled lately, by queue.
type waits struct {
	parley.NopObserver
	mu     sync.Mutex
	queues map[string]*ring
}

// ring keeps what was heard last.
type ring struct {
	list []handled
	next int
}

type handled struct {
	at     time.Time
	age    time.Duration
	failed bool
}

// How many calls of handlers are kept of a queue, and how old they may be.
const (
	handledKept = 2000
	lately      = 5 * time.Minute
)

// Observer returns an Observer for WorkerOptions. With it, the console shows the waiting times of messages that the
// workers of this process handled in the last five minutes.
func (h *Handler) Observer() parley.Observer { return &h.waits }

// Handled implements parley.Observer.
func (w *waits) Handled(_ context.Context, e parley.HandleEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues == nil {
		w.queues = make(map[string]*ring)
	}
	r := w.queues[e.Queue]
	if r == nil {
		r = &ring{}
		w.queues[e.Queue] = r
	}
	x := handled{time.Now(), e.Age, e.Err != nil}
	if len(r.list) < handledKept {
		r.list = append(r.list, x)
		return
	}
	r.list[r.next] = x
	r.next = (r.next + 1) % handledKept
}

// waited is what is known of a queue's waits. Half of the messages waited for at most P50, and 99 of 100 for at most P99.
type waited struct {
	P50, P99 time.Duration
	N        int
	Failed   int
}

// of sums up what was heard lately of a queue; nil if that is nothing.
func (w *waits) of(queue string, now time.Time) *waited {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.queues[queue]
	if r == nil {
		return nil
	}
	var ages []time.Duration
	sum := waited{}
	for _, x := range r.list {
		if now.Sub(x.at) > lately {
			continue
		}
		ages = append(ages, x.age)
		if x.failed {
			sum.Failed++
		}
	}
	if sum.N = len(ages); sum.N == 0 {
		return nil
	}
	slices.Sort(ages)
	sum.P50, sum.P99 = ages[(sum.N-1)/2], ages[(sum.N-1)*99/100]
	return &sum
}
