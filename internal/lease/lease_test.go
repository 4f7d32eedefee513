package lease

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

type holder struct {
	has      []string
	expired  bool
	extended int
	lost     bool
}

func (h *holder) Leased() []string       { return h.has }
func (h *holder) Extended(time.Time)     { h.extended++ }
func (h *holder) Expired(time.Time) bool { return h.expired }
func (h *holder) Lost()                  { h.lost = true }

// TestBeat: one call extends all leases. What is lost is told to its holder alone, and what has run out is told while the
// store does not answer.
func TestBeat(t *testing.T) {
	down := errors.New("down")
	for _, c := range []struct {
		name   string
		answer func(names []string) error
		calls  int
		want   error
		states string // of the holder of a and b, of one of c that has expired, and of one of nothing
	}{
		{"all is well", func([]string) error { return nil }, 1, nil, "[extended extended -]"},
		{"b is lost", func(names []string) error {
			if slices.Contains(names, "b") {
				return fmt.Errorf("no: %w", backend.ErrFenced)
			}
			return nil
		}, 3, nil, "[lost extended -]"},
		{"no answer", func([]string) error { return down }, 1, down, "[- lost -]"},
		{"no second answer", func(names []string) error {
			if len(names) == 3 {
				return backend.ErrFenced
			}
			return down
		}, 3, nil, "[- lost -]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := []*holder{{has: []string{"a", "b"}}, {has: []string{"c"}, expired: true}, {}}
			calls := 0
			err := Beat([]Holder[string]{list[0], list[1], list[2]}, func(names []string) error {
				calls++
				return c.answer(names)
			})
			var states []string
			for _, h := range list {
				state := "-"
				switch {
				case h.lost:
					state = "lost"
				case h.extended > 0:
					state = "extended"
				}
				states = append(states, state)
			}
			if got := fmt.Sprint(states); got != c.states || calls != c.calls || !errors.Is(err, c.want) {
				t.Errorf("%s after %d calls, %v; want %s after %d, %v", got, calls, err, c.states, c.calls, c.want)
			}
		})
	}
	if err := Beat([]Holder[string]{&holder{}}, func([]string) error { return down }); err != nil {
		t.Errorf("a heartbeat of nothing: %v", err)
	}
}
