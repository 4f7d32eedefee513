// Package failures counts failures that are no fault of a message's, until they count after all.
package failures

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
)

// Count counts how often messages or tasks have failed through no fault of their own, by an
// error of their handlers or because they could not be acknowledged. Such a failure
// does not count by itself, since losing against another transaction says nothing
// about a message. A message that always loses would be tried for ever.
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

// Add counts a failure of a message's, and reports how many there are by now.
func (s *Count) Add(m backend.ID, err error) int { return s.count(m, 1, err) }

// Charge has the message charged by the reader that gets it next.
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

// Due returns why a message is to be charged instead of being handled, nil if it is
// not, and begins to count anew. It has the text of the failure only: of whatever kind
// that was, it counts.
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

// Forget forgets the failures of messages that are settled.
func (s *Count) Forget(settled []backend.Outcome) {
	if !s.some.Load() {
		return
	}
	for _, o := range settled {
		for _, m := range o.Done {
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
