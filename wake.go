package parley

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// hub wakes the receivers of this process that wait. A receiver takes a ticket
// before it looks at the store; if anything is announced after that, its wait
// returns at once, so that nothing falls between the look and the wait.
type hub struct {
	mu      sync.Mutex
	clock   uint64
	at      map[int64]uint64 // queue -> when it was last announced; 0: all queues
	waiting map[*waiter]struct{}
	closed  bool
}

type waiter struct {
	queues []int64
	wake   chan struct{}
}

func newHub() *hub {
	return &hub{at: make(map[int64]uint64), waiting: make(map[*waiter]struct{})}
}

func (h *hub) ticket() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock
}

// wake announces that a queue (0: any) may have something new.
func (h *hub) wake(queue int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	h.at[queue] = h.clock
	for w := range h.waiting {
		if queue == 0 || slices.Contains(w.queues, queue) {
			close(w.wake)
			delete(h.waiting, w)
		}
	}
}

// wakeSoon announces at once and again a little later: for changes whose
// commit cannot be seen.
func (h *hub) wakeSoon(queues map[int64]bool) {
	for q := range queues {
		h.wake(q)
		for _, d := range [...]time.Duration{2, 10, 50, 250} {
			time.AfterFunc(d*time.Millisecond, func() { h.wake(q) })
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.waiting {
		close(w.wake)
		delete(h.waiting, w)
	}
}

// wait returns when the queue is announced after the ticket, or after pause. It
// returns ErrNoMessage at the deadline.
func (h *hub) wait(ctx context.Context, ticket uint64, queue int64, pause time.Duration, deadline <-chan time.Time) error {
	if h.waitAny(ctx, ticket, []int64{queue}, pause, deadline) {
		return ErrNoMessage
	}
	return ctx.Err()
}

// waitAny is wait for any of the queues, or until something comes on end, which
// it reports.
func (h *hub) waitAny(ctx context.Context, ticket uint64, queues []int64, pause time.Duration, end <-chan time.Time) (ended bool) {
	woken, forget := h.watch(ticket, queues...)
	defer forget()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-end:
		return true
	case <-ctx.Done():
	}
	return false
}

// watch returns a channel that is closed when one of the queues is announced
// after the ticket, and what ends the watch.
func (h *hub) watch(ticket uint64, queues ...int64) (woken <-chan struct{}, forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &waiter{queues, make(chan struct{})}
	passed := func(q int64) bool { return h.at[q] > ticket }
	if h.closed || h.at[0] > ticket || slices.ContainsFunc(queues, passed) {
		close(w.wake)
		return w.wake, func() {}
	}
	h.waiting[w] = struct{}{}
	return w.wake, func() {
		h.mu.Lock()
		delete(h.waiting, w)
		h.mu.Unlock()
	}
}

// jitter keeps processes from looking in step.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// wake announces queues here and tells the listeners of other processes.
func (b *Broker) wake(queues map[int64]bool) {
	for q := range queues {
		b.hub.wake(q)
	}
	b.listener.tell(queues)
}

// listening connects the hub with the store's notifications.
type listening struct {
	b      *Broker
	l      backend.Listener // nil: the store cannot
	mu     sync.Mutex
	to     map[int64]bool // queues to tell others about
	signal chan struct{}
	again  chan struct{}
}

// Telling costs the store something, so it is done at most so often.
const tellEvery = 5 * time.Millisecond

func (b *Broker) startListening(ctx context.Context) *listening {
	n := &listening{b: b, to: make(map[int64]bool), signal: make(chan struct{}, 1), again: make(chan struct{}, 1)}
	n.l, _ = b.be.(backend.Listener)
	if n.l == nil {
		return n
	}
	b.done.Add(2)
	go func() {
		defer b.done.Done()
		n.listen(ctx)
	}()
	go func() {
		defer b.done.Done()
		n.speak(ctx)
	}()
	return n
}

func (n *listening) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.l.Listen(ctx, n.b.hub.wake)
		if ctx.Err() != nil || errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if err != nil && !gone(err) {
			n.b.log.Warn("parley: listening for messages of other processes failed; polling meanwhile", "error", err)
		}
		select {
		case <-time.After(jitter(time.Second)):
		case <-n.again:
		case <-ctx.Done():
		}
	}
}

// kick tries at once what was waiting for better times.
func (n *listening) kick() {
	select {
	case n.again <- struct{}{}:
	default:
	}
}

func (n *listening) tell(queues map[int64]bool) {
	if n.l == nil {
		return
	}
	n.mu.Lock()
	for q := range queues {
		n.to[q] = true
	}
	n.mu.Unlock()
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

func (n *listening) speak(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			n.notify(context.WithoutCancel(ctx)) // what was committed before Close
			return
		case <-n.signal:
		}
		if err := n.notify(ctx); errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if sleep(ctx, tellEvery) != nil {
			continue
		}
	}
}

func (n *listening) notify(ctx context.Context) error {
	n.mu.Lock()
	queues := make([]int64, 0, len(n.to))
	for q := range n.to {
		queues = append(queues, q)
	}
	clear(n.to)
	n.mu.Unlock()
	if len(queues) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := n.l.Notify(ctx, queues)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && ctx.Err() == nil {
		n.b.log.Warn("parley: other processes could not be told of new messages; they will find them by polling", "error", err)
	}
	return err
}
