package consumer

import (
	"testing"
	"testing/synctest"
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
			p.did(paced{asked: n, groups: n, messages: n, handled: n, took: time.Duration(n) * each, cost: cost})
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
		p.did(paced{asked: n, groups: n, messages: n, handled: handled, took: time.Duration(handled) * 100 * time.Microsecond, full: handled == holds})
	}
	if n, _ := p.next(false); n != holds {
		t.Errorf("asks for %d, want %d", n, holds)
	}
	n := holds // what is over sooner may be more again
	for range 3 {
		p.did(paced{asked: n, groups: n, messages: n, handled: n, took: time.Duration(n) * 100 * time.Microsecond})
		n, _ = p.next(false)
	}
	if n != 100 {
		t.Errorf("asks for %d, want 100", n)
	}
}

// TestPaceOfLimitedClaims: a store that gives less than it is asked for, since its
// claims come in sizes, does not keep batches from growing.
func TestPaceOfLimitedClaims(t *testing.T) {
	p := newPace(100, 50*time.Millisecond)
	for range 10 {
		n, _ := p.next(false)
		got := max(n*2/3, 1)
		p.did(paced{asked: n, more: got < n, groups: got, messages: got, handled: got, took: time.Duration(got) * 100 * time.Microsecond})
	}
	if n, _ := p.next(false); n != 100 {
		t.Errorf("asks for %d, want 100", n)
	}
}

// Batches that deadlock become single messages, and grow back the more slowly the more
// often that happens.
func TestPaceOfBatchesThatDeadlock(t *testing.T) {
	p := newPace(1000, 50*time.Millisecond)
	full := func() (size int) {
		_, n := p.next(false)
		p.did(paced{asked: n, groups: n, messages: n, handled: n, took: time.Duration(n) * time.Microsecond})
		_, size = p.next(false)
		return size
	}
	for range 10 {
		full()
	}
	if size := full(); size < 100 {
		t.Fatalf("quick batches have grown to %d messages only", size)
	}
	for _, batches := range []int{firstWary, 4 * firstWary, 16 * firstWary} {
		p.collided(0)
		for n := 1; n < batches; n++ {
			if size := full(); size != 1 {
				t.Fatalf("%d of %d batches after a deadlock there are %d messages in one", n, batches, size)
			}
		}
		if size := full(); size != 2 {
			t.Errorf("%d batches after a deadlock there are %d messages in one, want 2", batches, size)
		}
	}
}

// The more time a deadlock costs, the later batches grow again, so that deadlocks take a small part
// of the time.
func TestPaceOfDeadlocksThatTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(1000, 50*time.Millisecond)
		p.collided(time.Second)
		for start := time.Now(); p.size == 1; time.Sleep(time.Millisecond) {
			if time.Since(start) > forgiven {
				t.Fatal("batches have not grown a minute after a deadlock that took a second")
			}
			p.did(paced{asked: 1, groups: 1, messages: 1, handled: 1, took: time.Microsecond})
			if p.size > 1 && time.Since(start) < 950*time.Millisecond*firstWary/16 {
				t.Fatalf("batches have grown %v after a deadlock that took a second", time.Since(start))
			}
		}
	})
}
