// Package failures counts failures that are no fault of a message's, until they count after all.
package failures

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
)

// Count counts failures that are not the fault of a message or task: an error of its handler, or an
// acknowledgement that failed. A single such failure does not count as an attempt, because losing a
// conflict with another transaction says nothing about a message. But a message that always loses
// must not be tried for ever.
type Count struct {
	some atomic.Bool
	mu   sync.Mutex
	of   map[backend.ID]failure
}

// failure is how often a message has failed, and how at last.
type failure struct {
	times int
	err   error
}

// Charged is how many such failures count as one attempt.
const Charged = 10

// Add counts a failure of a message, and returns how many there are by now.
func (s *Count) Add(m backend.ID, err error) int { return s.count(m, 1, err) }

// Charge makes the next reader of the message charge it.
func (s *Count) Charge(m backend.ID, err error) { s.count(m, Charged, err) }

func (s *Count) count(m backend.ID, times int, err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= 10000 { // most of these have been handled elsewhere
		s.of = make(map[backend.ID]failure)
	}
	s.some.Store(true)
	times += s.of[m].times
	s.of[m] = failure{times, err}
	return times
}

// Due returns the reason if a message is to be charged instead of being handled, otherwise nil, and
// restarts the count. The reason has only the text of the failure, so that it counts whatever its
// kind was.
func (s *Count) Due(m backend.ID) error {
	if !s.some.Load() {
		return nil
	}
	s.mu.Lock()
	last := s.of[m]
	s.mu.Unlock()
	if last.times < Charged {
		return nil
	}
	s.Clear(m)
	return fmt.Errorf("it could not be acknowledged: %v", last.err)
}

// Any reports whether a message has failures.
func (s *Count) Any(m backend.ID) bool {
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[m].times > 0
}

// Forget forgets the failures of messages that are settled.
func (s *Count) Forget(settled []backend.Outcome) {
	if !s.some.Load() {
		return
	}
	for _, o := range settled {
		for _, m := range slices.Concat(o.Done, o.Cancelled) {
			s.Clear(m.ID)
		}
	}
}

// Clear forgets a message's failures.
func (s *Count) Clear(m backend.ID) {
	if !s.some.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, m)
	s.some.Store(len(s.of) > 0)
}
