package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "P04", Name: "higher groups come first, as long as they are", Run: checkPrioHigherFirst},
		Check{ID: "P04", Name: "what somebody has in hand does not count", Run: checkPrioHeldCounts},
		Check{ID: "P05", Name: "a group ranks by its highest conversation with messages", Run: checkPrioHighestReady},
	)
}

func checkPrioHigherFirst(e *Env) {
	w := newPrioDuplex(e, 2, 3, 9)
	one, two := parley.NewID(), parley.NewID()
	high, low, middle := w.begin(9, one), w.begin(2, one), w.begin(3, two)
	w.tell(low, "2, oldest")
	w.tell(middle, "3")
	w.tell(high, "9, youngest")
	prioOrder(w.World, w.CQ, "groups of 9 with 2, and of 3", "9, youngest", "3", "2, oldest")

	// All levels, youngest first.
	x := newPrioDuplex(e, 1, 4, 5, 6, 7, 8, 10)
	var want []string
	for _, n := range []int{1, 4, 5, 6, 7, 8, 10} {
		x.tell(x.begin(n, parley.NewID()), fmt.Sprint(n))
		want = slices.Insert(want, 0, fmt.Sprint(n))
	}
	prioOrder(x.World, x.CQ, "groups of all levels", want...)
}

// checkPrioHeldCounts: the order is that of what can be had. What is in hand, of
// whatever kind and priority, helps nothing of its kind past others.
func checkPrioHeldCounts(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	post := func(body string, level int, o ...parley.PostOption) {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, append(o, parley.Priority(level))...)
		e.Must(err)
		time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
	}
	for i, hold := range e.Holds() {
		for _, kind := range []string{"post", "key"} {
			what := fmt.Sprintf("with a %s of 8 %s", kind, invHoldName(hold))
			like := func(name string) []parley.PostOption {
				if kind == "post" {
					return nil
				}
				return []parley.PostOption{parley.Key(fmt.Sprint(name, i))}
			}
			unlike := func(name string) []parley.PostOption {
				if kind == "post" {
					return []parley.PostOption{parley.Key(fmt.Sprint(name, i))}
				}
				return nil
			}
			post("8", 8, like("held")...)
			held := other.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			if got := Bodies(held.Messages); !slices.Equal(got, []string{"8"}) {
				e.Fatalf("received %q, want 8", got)
			}
			post("3", 3, like("a")...)
			post("5, old", 5, unlike("b")...)
			post("5, young", 5, like("c")...)
			post("4", 4, unlike("d")...)
			prioOrder(w, w.SQ, what, "5, old", "5, young", "4", "3")
			e.Must(held.Ack(e.Ctx))
		}
	}
}

func checkPrioHighestReady(e *Env) {
	w := newPrioDuplex(e, 2, 3, 9)
	one, two := parley.NewID(), parley.NewID()
	high, low, middle := w.begin(9, one), w.begin(2, one), w.begin(3, two)
	w.tell(low, "2")
	w.tell(middle, "3")
	prioOrder(w.World, w.CQ, "a group whose conversation of 9 has no message", "3", "2")

	w.tell(low, "2")
	w.tell(middle, "3")
	w.tell(high, "9")
	d := w.Receive(w.CQ, nil)
	if got := Bodies(d.Messages); d.Group != one || !slices.Equal(got, []string{"9", "2"}) {
		e.Errorf("once the conversation of 9 has a message the first group brings %q, want 9 and 2 of one group", got)
	}
	e.Must(d.Rollback(e.Ctx))
	prioOrder(w.World, w.CQ, "one by one", "9", "3", "2")

	// A conversation that is moved away takes its rank along.
	w.tell(middle, "3")
	w.tell(low, "2")
	w.tell(high, "9")
	ep := prioStatus(w.World, high)
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(ep.Peer).Move(e.Ctx, two) })
	d = w.Receive(w.CQ, nil)
	if got := Bodies(d.Messages); d.Group != two || !slices.Equal(got, []string{"9", "3"}) {
		e.Errorf("after the conversation of 9 was moved the first group brings %q, want 9 and 3", got)
	}
	e.Must(d.Ack(e.Ctx))
	prioOrder(w.World, w.CQ, "the group that it left", "2")
}
