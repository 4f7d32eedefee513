package conformance

import (
	"slices"
	"strings"

	"github.com/parleymq/parley"
)

func init() {
	add(check{ID: "P16", Name: "by a function", Run: checkPromotedWhere})
}

// checkPromotedWhere promotes more groups than one transaction does: keys, and posts without keys. Then it promotes
// only the promoted ones again, which changes their level and not their order.
func checkPromotedWhere(e *env) {
	w := e.World()
	w.posts([]string{"x"}, "x")
	w.posts(nil, numbered("y%03d", 130)...)
	w.posts([]string{"a", "x/1", "b", "x/2"}, "a", "x/1", "b", "x/2")
	chosen := func(g parley.GroupStatus) bool { return g.Post || strings.HasPrefix(g.Key, "x/") }

	admin := w.B.Admin()
	list, err := admin.Groups(e.Ctx, w.SQ, parley.Place{}, 1000)
	e.Must(err)
	var want []parley.ID
	for _, g := range list {
		if chosen(g) {
			want = append(want, g.Group)
		}
	}
	all := len(list)
	for _, is := range []func(parley.GroupStatus) bool{chosen, func(g parley.GroupStatus) bool { return g.Promoted }} {
		n, err := admin.PromoteWhere(e.Ctx, w.SQ, is, parley.PromoteLevel(42))
		e.Must(err)
		if n != len(want) || n != 132 {
			e.Errorf("%d groups were promoted, of %d that were chosen, want 132", n, len(want))
		}
		list, err = admin.Groups(e.Ctx, w.SQ, parley.Place{}, 1000)
		e.Must(err)
		if len(list) != all {
			e.Fatalf("there are %d groups, want %d", len(list), all)
		}
		for i, g := range list {
			if g.Promoted != (i < len(want)) || g.Promoted && (g.Group != want[i] || g.Level != 42) {
				e.Fatalf("group %d of %d is %s, promoted: %t, of level %d; want those that were chosen, in their order: %v",
					i, len(list), g.Group, g.Promoted, g.Level, want)
			}
		}
	}
	for i, id := range want {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
		if d.Group != id || !d.Promoted {
			e.Fatalf("group %d to be received is %s, want %s", i, d.Group, id)
		}
		e.Must(d.Ack(e.Ctx))
	}
	rest := w.Drain(w.SQ)
	if slices.ContainsFunc(rest, func(m *parley.Message) bool { return m.Body[0] == 'y' || len(m.Body) > 1 }) || len(rest) != 3 {
		e.Errorf("at last came %s, want a, b and x", describe(rest))
	}
	for _, bad := range []func() (int, error){
		func() (int, error) { return admin.PromoteWhere(e.Ctx, w.SQ, nil) },
		func() (int, error) { return admin.PromoteWhere(e.Ctx, w.SQ, chosen, parley.PromoteLevel(256)) },
	} {
		n, err := bad()
		e.Is(err, parley.ErrInvalidOption)
		if n != 0 {
			e.Errorf("%d groups were promoted with an option out of range", n)
		}
	}
	_, err = admin.PromoteWhere(e.Ctx, e.Name("none"), chosen)
	e.Is(err, parley.ErrUnknownQueue)
}
