package consumer

import (
	"context"
	"runtime"
	"sync"
	"testing"
)

// TestClaimLimiter counts who is inside, with claims of all sizes at the door.
func TestClaimLimiter(t *testing.T) {
	for _, most := range []int{1, 4} {
		s := newClaimLimiter(most)
		var mu sync.Mutex
		all, large, seen, seenLarge := 0, 0, 0, 0
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				groups := []int{1, largeClaim - 1, largeClaim, 10 * largeClaim}[i%4]
				if !s.enter(t.Context(), groups) {
					t.Error("not let in")
					return
				}
				mu.Lock()
				all++
				seen = max(seen, all)
				if groups >= largeClaim {
					large++
					seenLarge = max(seenLarge, large)
				}
				mu.Unlock()
				for range 100 {
					runtime.Gosched() // others come in, if they may
				}
				mu.Lock()
				all--
				if groups >= largeClaim {
					large--
				}
				mu.Unlock()
				s.leave(groups)
			})
		}
		wg.Wait()
		if seen > most || seenLarge > min(most, 2) {
			t.Errorf("%d claims at once, %d of them large; at most %d and %d may be", seen, seenLarge, most, min(most, 2))
		}
	}
	s := newClaimLimiter(4)
	for _, groups := range []int{largeClaim, largeClaim, 1, 1} {
		if !s.enter(t.Context(), groups) {
			t.Error("not let in, though there is room")
		}
	}
}

// TestClaimLimiterGivesUp has a large claim wait until its context ends: it leaves no
// place behind as taken.
func TestClaimLimiterGivesUp(t *testing.T) {
	s := newClaimLimiter(1)
	s.enter(t.Context(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if s.enter(ctx, largeClaim) {
			t.Fatal("let in, though another claim has the only place")
		}
	}
	s.leave(1)
	for range 3 {
		if !s.enter(t.Context(), largeClaim) {
			t.Fatal("not let in")
		}
		s.leave(largeClaim)
	}
}
