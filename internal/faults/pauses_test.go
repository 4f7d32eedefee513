package main

import (
	"testing"
	"time"
)

// TestPauses: a pause is the longest time between handlers that committed, from a move to another server until the first
// one after it was healed.
func TestPauses(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(f *forged)
		want  pauses
	}{
		"between two handlers":     {func(f *forged) { f.add(move(6, fault), move(7, healed)) }, pauses{"failover": {2}}},
		"from the fault":           {func(f *forged) { f.add(move(3, fault), move(5, healed)) }, pauses{"failover": {3}}},
		"after it was healed":      {func(f *forged) { f.add(move(7, fault), move(8, healed)) }, pauses{"failover": {3}}},
		"it never ends":            {func(f *forged) { f.add(move(9, fault), move(15, healed)) }, pauses{}},
		"a handler without effect": {func(f *forged) { f.add(move(3, fault), move(4, healed)); f.effects = f.effects[1:] }, pauses{"failover": {5}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			f.add(step(10, sending, 2, ""), step(10, sent, 2, ""), step(10, began, 2, "c"), step(11, returned, 2, "c"))
			f.effects = append(f.effects, row(2, "c"))
			c.forge(f)
			got := check(f.history, f.rows, 10*time.Second, 0).Pauses
			if len(got) != len(c.want) || len(got) > 0 && (len(got["failover"]) != 1 || got["failover"][0] != c.want["failover"][0]) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func move(second int, k kind) event { return event{At: at(second), Kind: k, Name: "failover"} }
