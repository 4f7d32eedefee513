// Package wake tells receivers that there may be something for them: those of this process
// by a Hub, those of others by the store's notifications.
package wake

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Hub wakes the receivers of this process that wait. A receiver takes a ticket before
// it looks at the store. If anything is announced after that, its wait returns at once,
// so that nothing falls between the look and the wait. Topics are the numbers of
// queues; zero is all of them.
type Hub struct {
	mu      sync.Mutex
	clock   uint64
	at      map[int64]uint64 // topic -> when it was last announced
	waiting map[*waiter]struct{}
	begun   chan struct{} // closed when the next one waits; nil if no one asks
	closed  bool
}

type waiter struct {
	topics []int64
	wake   chan struct{}
	only   bool // an announcement of all topics does not count
}

// NewHub returns a Hub that announces nothing.
func NewHub() *Hub {
	return &Hub{at: make(map[int64]uint64), waiting: make(map[*waiter]struct{})}
}

// Ticket returns the time of the hub, for Watch and Wait.
func (h *Hub) Ticket() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock
}

// Wake announces that a topic may have something new.
func (h *Hub) Wake(topic int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	h.at[topic] = h.clock
	for w := range h.waiting {
		if topic == 0 && !w.only || slices.Contains(w.topics, topic) {
			close(w.wake)
			delete(h.waiting, w)
		}
	}
}

// WakeSoon announces topics at once and again a little later: for changes whose
// commit cannot be seen.
func (h *Hub) WakeSoon(topics map[int64]bool) {
	for t := range topics {
		h.Wake(t)
		for _, d := range [...]time.Duration{2, 10, 50, 250} {
			time.AfterFunc(d*time.Millisecond, func() { h.Wake(t) })
		}
	}
}

// Close wakes all, now and from now on.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.waiting {
		close(w.wake)
		delete(h.waiting, w)
	}
}

// Wait returns when one of the topics is announced after the ticket, after pause, or when ctx ends.
// It also returns, and reports that, when end receives.
func (h *Hub) Wait(ctx context.Context, ticket uint64, topics []int64, pause time.Duration, end <-chan time.Time) (ended bool) {
	woken, forget := h.Watch(ticket, topics...)
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

// Watch returns a channel that is closed when one of the topics is announced
// after the ticket, and what ends the watch.
func (h *Hub) Watch(ticket uint64, topics ...int64) (woken <-chan struct{}, forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watch(ticket, &waiter{topics: topics, wake: make(chan struct{})})
}

// WatchOnly is Watch for a topic that is announced by its name.
func (h *Hub) WatchOnly(ticket uint64, topic int64) (woken <-chan struct{}, forget func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watch(ticket, &waiter{topics: []int64{topic}, wake: make(chan struct{}), only: true})
}

// watch adds a waiter. h.mu is held.
func (h *Hub) watch(ticket uint64, w *waiter) (woken <-chan struct{}, forget func()) {
	passed := func(t int64) bool { return h.at[t] > ticket }
	if h.closed || h.at[0] > ticket && !w.only || slices.ContainsFunc(w.topics, passed) {
		close(w.wake)
		return w.wake, func() {}
	}
	h.waiting[w] = struct{}{}
	if h.begun != nil {
		close(h.begun)
		h.begun = nil
	}
	return w.wake, func() {
		h.mu.Lock()
		delete(h.waiting, w)
		h.mu.Unlock()
	}
}

// waited returns the queues that are waited for, and a channel that is closed when the next
// wait begins.
func (h *Hub) waited() (queues []int64, begun <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting {
		for _, t := range w.topics {
			if t > 0 && !slices.Contains(queues, t) {
				queues = append(queues, t)
			}
		}
	}
	if h.begun == nil {
		h.begun = make(chan struct{})
	}
	return queues, h.begun
}
