package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/parleymq/parley"
)

// Promotions move a group. What is promoted comes before all that is not, by level, and equal levels in the order in
// which they were promoted. So if a group moves behind groups that are not promoted, these are promoted with it. If
// it moves between groups of one level, the later ones are promoted again.

// nearby is how far down its queue a group can be moved to.
const nearby = 100

// errMoved is the error of a move that what happened meanwhile has overtaken.
var errMoved = errors.New("nothing was moved")

// promotion is one of those that a move is made of.
type promotion struct {
	group  parley.ID
	level  int
	sticky bool
}

// promotionsFor returns the promotions, one after the other, by which a group comes just before another one. The list has
// the groups in the order in which they will be received.
func promotionsFor(list []parley.GroupStatus, group, before parley.ID) ([]promotion, error) {
	from := slices.IndexFunc(list, func(g parley.GroupStatus) bool { return g.Group == group })
	to := slices.IndexFunc(list, func(g parley.GroupStatus) bool { return g.Group == before })
	switch {
	case from < 0:
		return nil, fmt.Errorf("group %s is no longer among the first %d: %w", group, nearby, errMoved)
	case list[from].State != "ready":
		return nil, fmt.Errorf("group %s is %s: %w", group, list[from].State, errMoved)
	case to < 0:
		return nil, fmt.Errorf("group %s, before which it should come, is no longer among the first %d: %w", before, nearby, errMoved)
	case from == to:
		return nil, badInput("before: a group cannot come before itself")
	}
	others := func(list []parley.GroupStatus) []parley.GroupStatus { // held ones are being received, wherever they stand
		return slices.DeleteFunc(slices.Clone(list), func(g parley.GroupStatus) bool { return g.Group == group || g.State != "ready" })
	}
	ahead, behind := others(list[:to]), others(list[to:])
	moved := promotion{group, parley.DefaultLevel, list[from].Sticky}
	var all []promotion
	switch n := len(ahead); {
	case n > 0 && !ahead[n-1].Promoted:
		moved.level = 0
		for _, g := range ahead {
			if !g.Promoted {
				all = append(all, promotion{g.Group, moved.level, false})
			}
		}
	case n > 0:
		moved.level = ahead[n-1].Level
	case len(behind) > 0 && behind[0].Promoted:
		moved.level = behind[0].Level
	}
	all = append(all, moved)
	for _, g := range behind {
		if g.Promoted && g.Level == moved.level {
			all = append(all, promotion{g.Group, g.Level, g.Sticky})
		}
	}
	return all, nil
}

// move looks again before it moves a group: groups may have been received meanwhile.
func (h *Handler) move(ctx context.Context, q url.Values) (string, error) {
	all, err := h.promotionsOf(ctx, q)
	if err != nil {
		return "", err
	}
	err = h.b.InTx(ctx, func(tx *parley.Tx) error {
		for _, p := range all {
			o := []parley.PromoteOption{parley.PromoteLevel(p.level)}
			if p.sticky {
				o = append(o, parley.Sticky())
			}
			if err := tx.Promote(ctx, p.group, o...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is moved.", q.Get("id")) + h.placeNow(ctx, q), nil
}

// promotionsOf are those of a request, by the state of the queue as it is now.
func (h *Handler) promotionsOf(ctx context.Context, q url.Values) ([]promotion, error) {
	id, err := parseID(q.Get("id"))
	if err != nil {
		return nil, err
	}
	before, err := parseID(q.Get("before"))
	if err != nil {
		return nil, err
	}
	list, _, err := h.groupsAfter(ctx, q.Get("queue"), "", parley.Place{}, nearby)
	if err != nil {
		return nil, err
	}
	return promotionsFor(list, id, before)
}

// placeNow says which place a group has, if it is among the first.
func (h *Handler) placeNow(ctx context.Context, q url.Values) string {
	list, _, err := h.groupsAfter(ctx, q.Get("queue"), "", parley.Place{}, nearby)
	if i := slices.IndexFunc(list, func(g parley.GroupStatus) bool { return g.Group.String() == q.Get("id") }); err == nil && i >= 0 {
		return fmt.Sprintf(" Its place is %d now.", i+1)
	}
	return ""
}

// choice is a group before which another one can come.
type choice struct {
	ID, Name string
	Chosen   bool
}

// choices are the groups before which one can come, and what a move before the chosen one takes.
func (h *Handler) choices(ctx context.Context, q url.Values) (list []choice, known []fact, err error) {
	groups, _, err := h.groupsAfter(ctx, q.Get("queue"), "", parley.Place{}, nearby)
	if err != nil {
		return nil, nil, err
	}
	for i, g := range groups {
		if id := g.Group.String(); id != q.Get("id") {
			list = append(list, choice{id, fmt.Sprintf("%d. %s", i+1, nameOf(g)), id == q.Get("before")})
		}
	}
	if q.Get("before") == "" {
		return list, nil, nil
	}
	all, err := h.promotionsOf(ctx, q)
	if n := len(all) - 1; err == nil && n > 0 {
		known = append(known, fact{"Promoted with it", plural(n, "group")})
	}
	return list, known, err
}

// nameOf is what people call a group.
func nameOf(g parley.GroupStatus) string {
	switch {
	case g.Key != "":
		return g.Key
	case g.Post:
		return "post " + short(g.Group)
	}
	return g.Service + " " + short(g.Group)
}
