package console

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parleymq/parley"
)

// TestPromotionsFor: wherever a group is dropped, it comes just before the other one, and the rest keeps its order.
func TestPromotionsFor(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		list := make([]parley.GroupStatus, 2+r.IntN(8))
		for i := range list {
			list[i] = parley.GroupStatus{Group: parley.ID{1, byte(i)}, State: "ready"}
		}
		level := []int{255, 255, 254, 100, 100, 1, 0, 0}[r.IntN(8):]
		for i := range min(r.IntN(len(list)+1), len(level)) {
			list[i].Promoted, list[i].Level, list[i].Sticky = true, level[i], r.IntN(3) == 0
		}
		for i := range list {
			if r.IntN(6) == 0 {
				list[i].State = "held"
			}
		}
		ready := slices.DeleteFunc(slices.Clone(list), func(g parley.GroupStatus) bool { return g.State != "ready" })
		if len(ready) < 2 {
			continue
		}
		from := r.IntN(len(ready))
		to := (from + 1 + r.IntN(len(ready)-1)) % len(ready)
		group, before := ready[from], ready[to].Group
		all, err := promotionsFor(list, group.Group, before)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := slices.Delete(slices.Clone(ready), from, from+1)
		want = slices.Insert(want, slices.IndexFunc(want, func(g parley.GroupStatus) bool { return g.Group == before }), group)
		got := promoteAll(ready, all)
		for i := range want {
			if got[i].Group != want[i].Group {
				t.Fatalf("seed %d: place %d of %d before %d\nhad %v\ngot %v\nby %v", seed, i, from, to, ready, got, all)
			}
			if want[i].Sticky && !got[i].Sticky {
				t.Fatalf("seed %d: a promotion that was to stay does not", seed)
			}
		}
	}
}

// promoteAll is the order after promotions, as stores have it: by level, then in the order of their promotion.
func promoteAll(list []parley.GroupStatus, all []promotion) []parley.GroupStatus {
	list = slices.Clone(list)
	for _, p := range all {
		i := slices.IndexFunc(list, func(g parley.GroupStatus) bool { return g.Group == p.group })
		g := list[i]
		g.Promoted, g.Level, g.Sticky = true, p.level, p.sticky
		list = slices.Delete(list, i, i+1)
		behind := slices.IndexFunc(list, func(o parley.GroupStatus) bool { return !o.Promoted || o.Level < g.Level })
		if behind < 0 {
			behind = len(list)
		}
		list = slices.Insert(list, behind, g)
	}
	return list
}

func TestNoPromotionsFor(t *testing.T) {
	a, b, c := parley.ID{1}, parley.ID{2}, parley.ID{3}
	list := []parley.GroupStatus{{Group: a, State: "ready"}, {Group: b, State: "held"}}
	for _, pair := range [][2]parley.ID{{a, a}, {b, a}, {c, a}, {a, c}} {
		if all, err := promotionsFor(list, pair[0], pair[1]); err == nil {
			t.Errorf("%v is moved before %v by %v", pair[0], pair[1], all)
		}
	}
	if all, err := promotionsFor(list, a, b); err != nil || len(all) != 1 {
		t.Errorf("before a held group: %v, %v", all, err)
	}
}
