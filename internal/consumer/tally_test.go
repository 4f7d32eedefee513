package consumer

import (
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestTally: a worker slows down when most handlers fail for one reason in many groups. It does not
// if a few groups fail repeatedly, or for many reasons.
func TestTally(t *testing.T) {
	group := make([]backend.ID, tallied)
	for i := range group {
		group[i] = backend.NewID()
	}
	for _, c := range []struct {
		name string
		call func(i int) called
		want bool
	}{
		{"one reason", func(i int) called { return called{"down", group[i%tallied]} }, true},
		{"one reason, now and then a success", func(i int) called { return called{[]string{"down", ""}[(i+1)%10/9], group[i%tallied]} }, true},
		{"few groups", func(i int) called { return called{"down", group[i%5]} }, false},
		{"many reasons", func(i int) called { return called{string(rune('a' + i%4)), group[i%tallied]} }, false},
		{"half", func(i int) called { return called{[]string{"down", ""}[i%2], group[i%tallied]} }, false},
		{"successes", func(i int) called { return called{"", group[i%tallied]} }, false},
	} {
		var y tally
		got := false
		for i := range 100 {
			got = y.add(c.call(i)) || got
		}
		if got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
