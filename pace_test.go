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
			p.did(n, n, n, n, time.Duration(n)*each, cost)
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
