package consumer

import (
	"testing"
	"time"
)

// pacing feeds a pace with full batches, where each gives the time of a message in a batch of n. It
// returns the sizes of the last batches.
func pacing(cost time.Duration, batches, last int, each func(batch, n int) time.Duration) (sizes []int) {
	p := newPace(1000, 50*time.Millisecond)
	for i := range batches {
		_, n := p.next(false)
		if i >= batches-last {
			sizes = append(sizes, n)
		}
		p.did(paced{asked: n, groups: n, messages: n, handled: n, took: time.Duration(n) * each(i, n), cost: cost})
	}
	return sizes
}

// share is the share of batches whose size is in a range.
func share(sizes []int, from, to int) float64 {
	n := 0
	for _, s := range sizes {
		if s >= from && s <= to {
			n++
		}
	}
	return float64(n) / float64(len(sizes))
}

// TestPaceOfConvoys: handlers that wait for the row locks of other batches, the longer the
// longer those are, are called in short batches, though nothing deadlocks.
func TestPaceOfConvoys(t *testing.T) {
	sizes := pacing(2*time.Millisecond, 2000, 1500, func(_, n int) time.Duration { return time.Duration(n) * time.Millisecond })
	if s := share(sizes, 1, 3); s < 0.95 {
		t.Errorf("%.0f of 100 batches have three messages or fewer, want 95: %v", 100*s, sizes[len(sizes)-100:])
	}
	// With a message or two more it may be quicker than alone: that is found out as well.
	sizes = pacing(10*time.Millisecond, 4000, 1000, func(_, n int) time.Duration { return time.Duration(1+max(0, n-4)) * 8 * time.Millisecond })
	if s := share(sizes, 2, 5); s < 0.5 {
		t.Errorf("%.0f of 100 batches are of the best size, want 50: %v", 100*s, sizes[len(sizes)-100:])
	}
}

// TestPaceWithoutConvoys: batches keep their full length if a message takes as long in a batch as
// alone. This holds for short and long times, and even if everything becomes slower.
func TestPaceWithoutConvoys(t *testing.T) {
	for name, x := range map[string]struct {
		cost time.Duration
		each func(batch, n int) time.Duration
		size int
		want float64
	}{
		"cheap handlers": {3 * time.Millisecond, func(int, int) time.Duration { return 50 * time.Microsecond }, 900, 1},
		"slow handlers":  {2 * time.Millisecond, func(int, int) time.Duration { return 4 * time.Millisecond }, 11, 0.9},
		"handlers that become slower": {2 * time.Millisecond, func(batch, _ int) time.Duration {
			return time.Duration(1+batch/500) * time.Millisecond
		}, 9, 0.9},
		"a pause now and then": {2 * time.Millisecond, func(batch, n int) time.Duration {
			each := time.Millisecond / 2
			if batch%50 == 49 {
				each += time.Second / time.Duration(n)
			}
			return each
		}, 2, 0.7},
	} {
		sizes := pacing(x.cost, 2500, 2000, x.each)
		if s := share(sizes, x.size, 1000); s < x.want {
			t.Errorf("%s: %.0f of 100 batches have %d messages or more, want %.0f", name, 100*s, x.size, 100*x.want)
		}
	}
}
