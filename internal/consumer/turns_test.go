package consumer

import (
	"slices"
	"testing"
)

// TestTurns: in each round each queue has as many turns as its weight, spread evenly. The turns of an empty queue
// go to the others in proportion.
func TestTurns(t *testing.T) {
	if got, want := turns([]int{5, 1, 1}), []int{0, 0, 1, 0, 2, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
	for _, weights := range [][]int{{1}, {1, 1, 1}, {6, 3, 1}, {100, 1}, {7, 7, 2}} {
		c := &Consumer{turns: turns(weights)}
		all := 0
		for _, w := range weights {
			c.sources = append(c.sources, &source{})
			all += w
		}
		for empty := -1; empty < len(weights); empty++ {
			if empty >= 0 && len(weights) == 1 {
				continue
			}
			const rounds = 10
			got := make([]int, len(weights))
			for range rounds * all {
				tried := c.inTurn()
				first := slices.Index(c.sources, tried[0])
				if first == empty {
					first = slices.Index(c.sources, tried[1])
				}
				if len(tried) != len(weights) || len(weights) != len(compact(c, tried)) {
					t.Fatalf("weights %v: a look tries %v", weights, compact(c, tried))
				}
				got[first]++
			}
			for i, w := range weights {
				want := rounds * w
				if empty >= 0 {
					want = rounds * all * w / (all - weights[empty])
				}
				if i == empty {
					want = 0
				}
				// What an empty queue leaves goes to the queue that comes next, which is nearly the proportion.
				if off := got[i] - want; empty < 0 && off != 0 || max(off, -off) > rounds*all/4 {
					t.Errorf("weights %v with queue %d empty: queue %d had %d turns of %d, want %d", weights, empty, i, got[i], rounds*all, want)
				}
			}
		}
	}
}

// compact returns the numbers of the sources, each once.
func compact(c *Consumer, list []*source) (numbers []int) {
	for _, s := range list {
		numbers = append(numbers, slices.Index(c.sources, s))
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}
