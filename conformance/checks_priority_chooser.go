package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "P12", Name: "the chooser sees the order and its choice is received", Run: checkPrioChooser},
		check{ID: "P12", Name: "a choice that is taken meanwhile", Run: checkPrioChoiceTaken},
	)
}

func checkPrioChooser(e *env) {
	w := invWorld(e)
	// More groups than one page of what a chooser is shown.
	const n = 130
	handles := make([]parley.ID, n)
	w.Tx(func(tx *parley.Tx) error {
		for i := range handles {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			handles[i] = c.Handle()
			if err := c.Send(e.Ctx, w.Ask, fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	})
	for i, hold := range e.Holds() {
		shown := map[parley.ID]int{}
		wanted := dlgPeer(w, handles[n-3-i])
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
			for g := range groups {
				shown[g.Group]++
			}
			return wanted, true
		}})
		if len(shown) != n-i {
			e.Errorf("%s: the chooser is shown %d groups of %d", invHoldName(hold), len(shown), n-i)
		}
		for g, times := range shown {
			if times != 1 {
				e.Errorf("%s: the chooser is shown group %s %d times", invHoldName(hold), g, times)
			}
		}
		if got := bodiesOf(d.Messages); !slices.Equal(got, []string{fmt.Sprint(n - 3 - i)}) {
			e.Errorf("%s: chose %d, received %q", invHoldName(hold), n-3-i, got)
		}
		e.Must(d.Ack(e.Ctx))
	}
	w.Drain(w.SQ)

	// In rank order, promoted ones first, without those that are held, parked
	// or deferred.
	line := prioLine(w, "a", "b", "c", "d", "e", "f", "g")
	hold := func(i int) *parley.Delivery {
		return w.Receive(w.SQ, &parley.ReceiveOptions{Group: line[i], Hold: parley.HoldLease})
	}
	leased := hold(1)
	e.Must(hold(3).Park(e.Ctx, errors.New("a check")))
	e.Must(hold(5).Defer(e.Ctx, time.Hour))
	e.Must(w.B.Promote(e.Ctx, line[4], parley.PromoteLevel(3)))
	e.Must(w.B.Promote(e.Ctx, line[6], parley.PromoteLevel(9)))
	names := func(groups iter.Seq[parley.GroupStatus]) (all []string) {
		for g := range groups {
			all = append(all, string(rune('a'+slices.Index(line, g.Group))))
		}
		return all
	}
	want := []string{"g", "e", "a", "c"}
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
		if got := names(groups); !slices.Equal(got, want) {
			e.Errorf("the chooser is shown %q, want %q", got, want)
		}
		for g := range groups { // it may look again, and stop early
			if g.Messages != 1 {
				e.Errorf("the chooser is shown a group with %d messages, want 1", g.Messages)
			}
			break
		}
		return line[2], true
	}})
	if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"c"}) {
		e.Errorf("chose c, received %q", got)
	}
	e.Must(d.Ack(e.Ctx))

	// It may leave the choice to the order; and GetGroup in a transaction asks
	// the chooser as well.
	d = w.Receive(w.SQ, &parley.ReceiveOptions{Choose: func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return parley.ID{}, false }})
	if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"g"}) {
		e.Errorf("left to the order, received %q, want g", got)
	}
	e.Must(d.Ack(e.Ctx))
	w.Tx(func(tx *parley.Tx) error {
		g, err := tx.GetGroup(e.Ctx, w.SQ, &parley.ReceiveOptions{Choose: func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return line[0], true }})
		if err == nil && g != line[0] {
			e.Errorf("GetGroup with a chooser that wants a returns another group")
		}
		return err
	})
	e.Must(leased.Rollback(e.Ctx))
	for _, i := range []int{3, 5} {
		e.Must(w.B.Admin().Unpark(e.Ctx, line[i]))
	}
	prioOrder(w, w.SQ, "the rest", "e", "a", "b", "d", "f")
}

func checkPrioChoiceTaken(e *env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		line := prioLine(w, "a", "b", "c")
		var taken []*parley.Delivery
		var shown [][]parley.ID
		// Each time it wants the last of those that it is shown. The first two choices are
		// taken by another receiver before they can be received.
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
			var all []parley.ID
			for g := range groups {
				all = append(all, g.Group)
			}
			shown = append(shown, all)
			if len(all) == 0 {
				return parley.ID{}, false
			}
			last := all[len(all)-1]
			if len(taken) < 2 {
				taken = append(taken, other.Receive(w.SQ, &parley.ReceiveOptions{Group: last, Hold: hold}))
			}
			return last, true
		}})
		if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"a"}) {
			e.Errorf("%s: c and b were chosen and taken meanwhile, then received %q, want a", invHoldName(hold), got)
		}
		for i, want := range [][]parley.ID{line, line[:2], line[:1]} {
			if i >= len(shown) || !slices.Equal(shown[i], want) {
				e.Errorf("%s: at the choices it was shown %d groups, want 3, 2 and 1", invHoldName(hold), prioLengths(shown))
				break
			}
		}
		e.Must(d.Ack(e.Ctx))
		for _, d := range taken {
			e.Must(d.Ack(e.Ctx))
		}
		w.Nothing(w.SQ, nil)

		// A chooser that insists on a held group gets nothing until it is free.
		line = prioLine(w, "a", "b")
		held := other.Receive(w.SQ, &parley.ReceiveOptions{Group: line[0], Hold: hold})
		insist := &parley.ReceiveOptions{Hold: hold, Choose: func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return line[0], true }}
		w.Nothing(w.SQ, insist)
		e.Must(held.Rollback(e.Ctx))
		if got := w.Take(w.SQ, insist); !slices.Equal(got, []string{"a"}) {
			e.Errorf("%s: insisted on a until it was free, received %q", invHoldName(hold), got)
		}
		w.Drain(w.SQ)
	}
}

func prioLengths(lists [][]parley.ID) (n []int) {
	for _, l := range lists {
		n = append(n, len(l))
	}
	return n
}
