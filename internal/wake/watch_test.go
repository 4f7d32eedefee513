package wake

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/internal/slow"
)

// told is a store that others write to.
type told struct {
	mu     sync.Mutex
	newest map[int64]int64
	looks  int
	err    error
}

func (s *told) Newest(_ context.Context, queues []int64) (map[int64]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	found := make(map[int64]int64)
	for _, q := range queues {
		if n, ok := s.newest[q]; ok {
			found[q] = n
		}
	}
	return found, s.err
}

func (s *told) set(queue, n int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest[queue], s.err = n, err
	if n == 0 {
		delete(s.newest, queue)
	}
}

func (s *told) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

// TestWatch: what is new wakes the receivers of its queue, once, and nothing is looked at while
// no receiver waits.
func TestWatch(t *testing.T) {
	store := &told{newest: map[int64]int64{1: 10, 2: 10}}
	hub := NewHub()
	w := &Watch{Hub: hub, Watcher: store, Log: slog.New(slog.DiscardHandler), Expected: func(error) bool { return true }}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); w.Run(ctx) }()
	defer func() { stop(); <-over }()

	woken := func(what string, queue int64, change func()) {
		t.Helper()
		c, forget := hub.Watch(hub.Ticket(), queue)
		defer forget()
		change()
		slow.Eventually(t, 15*time.Second, what, func() (any, bool) {
			select {
			case <-c:
				return nil, true
			default:
				return store.count(), false
			}
		})
	}
	still := func(what string, queue int64, change func()) {
		t.Helper()
		c, forget := hub.Watch(hub.Ticket(), queue)
		defer forget()
		change()
		from := store.count()
		slow.Eventually(t, 15*time.Second, "three looks", func() (any, bool) { return store.count(), store.count() >= from+3 })
		select {
		case <-c:
			t.Errorf("%s wakes a receiver", what)
		default:
		}
	}
	if n := store.count(); n != 0 {
		t.Errorf("%d looks while no receiver waits", n)
	}
	woken("what came before the first look", 1, func() {})
	still("what has been there", 1, func() {})
	woken("what is new", 1, func() { store.set(1, 11, nil) })
	still("what is new in another queue", 1, func() { store.set(2, 11, nil) })
	still("what leaves", 1, func() { store.set(1, 5, nil) })
	woken("what comes while looks fail", 1, func() {
		store.set(1, 12, errors.New("gone"))
		from := store.count()
		slow.Eventually(t, 15*time.Second, "a look", func() (any, bool) { return nil, store.count() > from })
		store.set(1, 13, nil)
	})
	still("a queue that is empty", 1, func() { store.set(1, 0, nil) })
	woken("the first in an empty queue, whatever its number", 1, func() { store.set(1, 7, nil) })
}
