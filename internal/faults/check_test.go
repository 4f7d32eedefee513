package main

import (
	"testing"
	"time"
)

// step is an event at a number of seconds.
func step(second int, k kind, seq int, attempt string) event {
	return event{At: time.Unix(1000+int64(second), 0), Kind: k, Stream: "s", Seq: seq, Attempt: attempt}
}

// sound is a history without a violation, and its effects.
func sound() ([]event, []effect) {
	return []event{
		step(1, sending, 0, ""), step(2, sent, 0, ""), step(3, sending, 1, ""), step(4, sent, 1, ""),
		step(5, began, 0, "a"), step(6, returned, 0, "a"), step(7, began, 1, "b"), step(8, returned, 1, "b"),
	}, []effect{{"s", 0, "a"}, {"s", 1, "b"}}
}

// TestForgedHistories has each kind of violation found, and what is none let pass.
func TestForgedHistories(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(h []event, e []effect) ([]event, []effect)
		want  string
	}{
		"sound": {func(h []event, e []effect) ([]event, []effect) { return h, e },
			"lost 0, doubled 0, out of order 0, stuck 0, broken 0"},
		"lost": {func(h []event, e []effect) ([]event, []effect) { return h, e[:1] },
			"lost 1, doubled 0, out of order 0, stuck 0, broken 0"},
		"doubled": {func(h []event, e []effect) ([]event, []effect) {
			return append(h, step(9, began, 1, "c"), step(10, returned, 1, "c")), append(e, effect{"s", 1, "c"})
		}, "lost 0, doubled 1, out of order 0, stuck 0, broken 0"},
		"out of order": {func(h []event, e []effect) ([]event, []effect) {
			h[4], h[6] = step(5, began, 1, "b"), step(7, began, 0, "a")
			h[5], h[7] = step(6, returned, 1, "b"), step(8, returned, 0, "a")
			return h, []effect{e[1], e[0]}
		}, "lost 0, doubled 0, out of order 1, stuck 0, broken 0"},
		"stuck": {func(h []event, e []effect) ([]event, []effect) {
			h[7] = step(60, returned, 1, "b")
			return h, e
		}, "lost 0, doubled 0, out of order 0, stuck 1, broken 0"},
		"a fault excuses a stall": {func(h []event, e []effect) ([]event, []effect) {
			h[7] = step(60, returned, 1, "b")
			return append(h, event{At: time.Unix(1007, 1), Kind: fault, Name: "stop"},
				event{At: time.Unix(1059, 0), Kind: healed, Name: "stop"}), e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 0"},
		"rolled back and received": {func(h []event, e []effect) ([]event, []effect) {
			h[3] = step(4, undone, 1, "")
			return h, e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 1"},
		"never sent": {func(h []event, e []effect) ([]event, []effect) {
			return append(h, step(9, began, 5, "c"), step(10, returned, 5, "c")), append(e, effect{"s", 5, "c"})
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 1"},
		"unknown and absent": {func(h []event, e []effect) ([]event, []effect) {
			h[3] = step(4, unknown, 1, "")
			return h[:6], e[:1]
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 0"},
		"unknown and received": {func(h []event, e []effect) ([]event, []effect) {
			h[3] = step(4, unknown, 1, "")
			return h, e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 0"},
		"killed before the outcome": {func(h []event, e []effect) ([]event, []effect) {
			return append(h[:3:3], h[4:]...), e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 0"},
		"two holders": {func(h []event, e []effect) ([]event, []effect) {
			h[5] = step(9, returned, 0, "a")
			return h, e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 1"},
		"a fenced holder may overlap": {func(h []event, e []effect) ([]event, []effect) {
			return append(h, step(5, began, 1, "late"), step(20, returned, 1, "late")), e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 0"},
		"no handler was called": {func(h []event, e []effect) ([]event, []effect) {
			e[1].Attempt = "none"
			return h, e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 1"},
		"too early": {func(h []event, e []effect) ([]event, []effect) {
			h[2].After = int64(time.Minute)
			return h, e
		}, "lost 0, doubled 0, out of order 0, stuck 0, broken 1"},
	} {
		t.Run(name, func(t *testing.T) {
			h, e := c.forge(sound())
			v := check(h, e, 10*time.Second)
			if got := v.String(); got != c.want {
				t.Errorf("%s, want %s\n%q", got, c.want, v.Problems)
			}
		})
	}
}
