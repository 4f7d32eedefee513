package parley

import (
	"testing"
	"time"
)

// What it costs to claim and settle a batch lengthens the batch, but not without
// end, and only as long as it lasts.
func TestPaceOfCostlyBatches(t *testing.T) {
	const d, each = 50 * time.Millisecond, 20 * time.Millisecond
	p := newPace(1000, d)
	feed := func(cost time.Duration) (budget time.Duration, messages int) {
		for range 50 {
			_, n := p.next(false)
			p.did(paced{n, n, n, n, time.Duration(n) * each, cost, false})
		}
		_, messages = p.next(false)
		return p.budget(), messages
	}
	for _, x := range []struct {
		cost, budget time.Duration
		messages     int
	}{
		{time.Millisecond, d, 2},
		{200 * time.Millisecond, 200 * time.Millisecond, 10},
		{time.Minute, 10 * d, 25},
		{time.Millisecond, d, 2},
	} {
		budget, messages := feed(x.cost)
		if budget.Round(time.Millisecond) != x.budget || messages < x.messages-1 || messages > x.messages {
			t.Errorf("with batches that cost %v: %d messages in %v, want %d in %v", x.cost, messages, budget, x.messages, x.budget)
		}
	}
}

// TestPaceFull: where a transaction holds fewer messages than its time would
// allow, no more are asked for than it holds.
func TestPaceFull(t *testing.T) {
	const holds = 50
	p := newPace(100, 50*time.Millisecond)
	for range 20 {
		n, _ := p.next(false)
		handled := min(n, holds)
		p.did(paced{n, n, n, handled, time.Duration(handled) * 100 * time.Microsecond, 0, handled == holds})
	}
	if n, _ := p.next(false); n != holds {
		t.Errorf("asks for %d, want %d", n, holds)
	}
	n := holds // what is over sooner may be more again
	for range 3 {
		p.did(paced{n, n, n, n, time.Duration(n) * 100 * time.Microsecond, 0, false})
		n, _ = p.next(false)
	}
	if n != 100 {
		t.Errorf("asks for %d, want 100", n)
	}
}
