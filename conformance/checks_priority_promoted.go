package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "P06", Name: "a promoted group is the next one", Run: checkPrioPromoted},
		Check{ID: "P06", Name: "levels of promotion", Run: checkPrioLevels},
		Check{ID: "P06", Name: "promoted posts and groups have one order", Run: checkPrioMixed},
		Check{ID: "P08", Name: "equal promotions in their order, and a second one replaces the first", Run: checkPrioEqual},
		Check{ID: "P08", Name: "a promotion that is replaced while the group is received stays", Run: checkPrioReplaced},
		Check{ID: "P10", Name: "one shot and sticky", Run: checkPrioOneShot},
		Check{ID: "P10", Name: "a promotion is part of its transaction", Run: checkPrioRolledBack},
	)
}

func checkPrioPromoted(e *Env) {
	w := invWorld(e, func(c *parley.Catalog) {
		c.Services = append(c.Services, parley.Service{Name: e.Name("low client"), Queue: c.Queues[0].Name}, parley.Service{Name: e.Name("high client"), Queue: c.Queues[0].Name})
		c.Priorities = []parley.PriorityRule{
			{Name: e.Name("low"), Remote: e.Name("low client"), Level: 1},
			{Name: e.Name("high"), Remote: e.Name("high client"), Level: 10},
		}
	})
	begin := func(from, body string) parley.ID {
		c := *w
		c.Client = e.Name(from)
		return prioLine(&c, body)[0]
	}
	for range 3 {
		begin("high client", "high")
	}
	low := begin("low client", "low")
	_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("key")}, parley.Key("k"), parley.Priority(1))
	e.Must(err)
	post, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("post")}, parley.Priority(1))
	e.Must(err)
	_, err = w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("another post")}, parley.Priority(10))
	e.Must(err)
	groups, err := w.B.Admin().Groups(e.Ctx, w.SQ, 0, 100)
	e.Must(err)
	key := groups[slices.IndexFunc(groups, func(g parley.GroupStatus) bool { return g.Key == "k" })].Group

	// Each is the youngest and lowest; by another process, which only commits.
	other := invOther(w)
	for _, p := range []struct {
		body  string
		group parley.ID
	}{{"low", low}, {"post", post}, {"key", key}} {
		e.Must(other.B.Promote(e.Ctx, p.group))
		groups, err := w.B.Admin().Groups(e.Ctx, w.SQ, 0, 1)
		e.Must(err)
		if g := groups[0]; g.Group != p.group || !g.Promoted || g.Level != parley.DefaultLevel {
			e.Errorf("%s was promoted, and the first group listed is %s, promoted %t to %d", p.body, g.Group, g.Promoted, g.Level)
		}
		d := w.Receive(w.SQ, nil)
		if got := Bodies(d.Messages); !slices.Equal(got, []string{p.body}) {
			e.Fatalf("%s was promoted, and %q is received", p.body, got)
		}
		if !d.Promoted || d.Level != parley.DefaultLevel {
			e.Errorf("%s was promoted, and its delivery says %t, %d, want true, %d", p.body, d.Promoted, d.Level, parley.DefaultLevel)
		}
		e.Must(d.Ack(e.Ctx))
	}
	prioOrder(w, w.SQ, "the rest", "high", "high", "high", "another post")
}

func checkPrioLevels(e *Env) {
	w := invWorld(e)
	line := prioLine(w, "a", "b", "c", "d", "e")
	for i, level := range []int{0, 255, 100, 7, -1} {
		if level >= 0 {
			e.Must(w.B.Promote(e.Ctx, line[i], parley.Level(level)))
		}
	}
	if err := w.B.Promote(e.Ctx, line[4], parley.Level(256)); !errors.Is(err, parley.ErrInvalidOption) {
		e.Errorf("a promotion to 256 returns %v, want ErrInvalidOption", err)
	}
	prioOrder(w, w.SQ, "a at 0, b at 255, c at 100, d at 7, e not promoted", "b", "c", "d", "a", "e")

	line = prioLine(w, "a", "b")
	e.Must(w.B.Promote(e.Ctx, line[1]))
	e.Must(w.B.Demote(e.Ctx, line[1]))
	e.Must(w.B.Demote(e.Ctx, line[1]))
	prioOrder(w, w.SQ, "promoted and demoted", "a", "b")
}

// checkPrioMixed: also where a claim asks for several at once, the first that it
// brings is the first of all.
func checkPrioMixed(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, hold := range e.Holds() {
		for _, first := range []string{"post", "conversation"} {
			ids := map[string]parley.ID{"conversation": prioLine(w, "conversation")[0]}
			var err error
			ids["post"], err = w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("post")})
			e.Must(err)
			for kind, id := range ids {
				e.Must(w.B.Promote(e.Ctx, id, parley.Level(map[bool]int{true: 2, false: 1}[kind == first])))
			}
			for _, n := range []int{5, 2, 1} {
				h, c := s.claimed(hold, backend.ClaimRequest{MaxGroups: n})
				if h == nil {
					e.Fatalf("nothing to claim")
				}
				if h.Group != ids[first] || h.Level != 2 {
					e.Errorf("%s: the %s is promoted to 2, the other to 1, and a claim of %d begins with %q at %d", invHoldName(hold), first, n, h.bodies(), h.Level)
				}
				if h.tx != nil {
					s.rollback(h.tx)
					continue
				}
				for _, one := range c.Holds {
					(&invHeld{s: s, Hold: one}).back()
				}
			}
			w.Drain(w.SQ)
		}
	}
}

func checkPrioEqual(e *Env) {
	w := invWorld(e)
	promote := func(g parley.ID, level int) { e.Must(w.B.Promote(e.Ctx, g, parley.Level(level))) }
	const pause = 2 * time.Millisecond // for stores whose clock is coarse

	line := prioLine(w, "a", "b", "c", "d")
	for _, i := range []int{2, 0, 3} {
		promote(line[i], 100)
		time.Sleep(pause)
	}
	prioOrder(w, w.SQ, "promoted c, a, d", "c", "a", "d", "b")

	line = prioLine(w, "a", "b", "c")
	for _, i := range []int{0, 1, 0} {
		promote(line[i], 100)
		time.Sleep(pause)
	}
	prioOrder(w, w.SQ, "promoted a, b, and a again", "b", "a", "c")

	line = prioLine(w, "a", "b", "c")
	promote(line[0], 50)
	promote(line[1], 100)
	promote(line[0], 200)
	prioOrder(w, w.SQ, "promoted a to 50, b to 100, and a to 200", "a", "b", "c")

	line = prioLine(w, "a", "b", "c")
	promote(line[0], 200)
	promote(line[1], 100)
	promote(line[0], 50)
	prioOrder(w, w.SQ, "promoted a to 200, b to 100, and a to 50", "b", "a", "c")
}

func checkPrioReplaced(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		what := "replaced while the group is " + invHoldName(hold)
		prioLine(w, "older")
		group := invPeer(w, w.Dialog("m0", "m1", "m2"))
		e.Must(w.B.Promote(e.Ctx, group, parley.Level(7)))
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		if d.Group != group || !d.Promoted || d.Level != 7 {
			e.Fatalf("received %s, promoted %t to %d; want the promoted group, to 7", describe(d.Messages), d.Promoted, d.Level)
		}
		e.Must(other.B.Promote(e.Ctx, group, parley.Level(8)))
		e.Must(d.Ack(e.Ctx))
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		if got := Bodies(d.Messages); !slices.Equal(got, []string{"m1"}) || d.Level != 8 {
			e.Errorf("%s: then received %q at level %d, want m1 at 8", what, got, d.Level)
		}
		e.Must(d.Ack(e.Ctx))
		prioOrder(w, w.SQ, what+", and used up", "older", "m2")

		// Demoted and promoted anew is another promotion too.
		prioLine(w, "older")
		group = invPeer(w, w.Dialog("m0", "m1"))
		e.Must(w.B.Promote(e.Ctx, group, parley.Level(7)))
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		e.Must(other.B.Demote(e.Ctx, group))
		e.Must(other.B.Promote(e.Ctx, group, parley.Level(7)))
		e.Must(d.Ack(e.Ctx))
		prioOrder(w, w.SQ, what+" by demotion and promotion", "m1", "older")
	}
}

func checkPrioOneShot(e *Env) {
	w := invWorld(e)
	giveBack := []struct {
		name string
		do   func(d *parley.Delivery) error
	}{
		{"Rollback", func(d *parley.Delivery) error { return d.Rollback(e.Ctx) }},
		{"Close", func(d *parley.Delivery) error { return d.Close() }},
		{"Defer", func(d *parley.Delivery) error {
			return errors.Join(d.Defer(e.Ctx, time.Hour), w.B.Admin().Unpark(e.Ctx, d.Group))
		}},
		{"Park", func(d *parley.Delivery) error {
			return errors.Join(d.Park(e.Ctx, errors.New("a check")), w.B.Admin().Unpark(e.Ctx, d.Group))
		}},
		{"Ack of nothing", func(d *parley.Delivery) error {
			return errors.Join(d.Return(e.Ctx), d.Ack(e.Ctx))
		}},
	}
	for _, hold := range e.Holds() {
		for _, sticky := range []bool{false, true} {
			what := fmt.Sprintf("%s, sticky %t", invHoldName(hold), sticky)
			prioLine(w, "a", "b")
			group := invPeer(w, w.Dialog("m0", "m1", "m2"))
			var o []parley.PromoteOption
			if sticky {
				o = append(o, parley.Sticky())
			}
			e.Must(w.B.Promote(e.Ctx, group, o...))
			for _, back := range giveBack {
				d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
				if got := Bodies(d.Messages); !slices.Equal(got, []string{"m0"}) || !d.Promoted {
					e.Fatalf("%s: before %s received %q, promoted: %t; want m0, promoted", what, back.name, got, d.Promoted)
				}
				e.Must(back.do(d))
			}
			undo := errors.New("undo")
			e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				_, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
				return errors.Join(err, undo)
			}), undo)
			if sticky {
				prioOrder(w, w.SQ, what, "m0", "m1")
				e.Must(w.B.Demote(e.Ctx, group))
				prioOrder(w, w.SQ, what+", demoted", "a", "b", "m2")
			} else {
				prioOrder(w, w.SQ, what, "m0", "a", "b", "m1", "m2")
			}
		}
	}
	// In a transaction that receives.
	prioLine(w, "a")
	group := invPeer(w, w.Dialog("m0", "m1"))
	e.Must(w.B.Promote(e.Ctx, group))
	w.Tx(func(tx *parley.Tx) error {
		ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
		if got := Bodies(ms); err == nil && !slices.Equal(got, []string{"m0"}) {
			e.Errorf("a transaction received %q, want the promoted m0", got)
		}
		return err
	})
	prioOrder(w, w.SQ, "after a transaction received from the promoted group", "a", "m1")

	// A sticky one outlives a time in which the group is empty.
	h := w.Dialog("m0")
	e.Must(w.B.Promote(e.Ctx, invPeer(w, h), parley.Sticky()))
	prioOrder(w, w.SQ, "sticky", "m0")
	prioLine(w, "a")
	w.Send(h, w.Ask, "m1")
	prioOrder(w, w.SQ, "sticky, after the group was empty", "m1", "a")
	e.Must(w.B.Demote(e.Ctx, invPeer(w, h)))
}

func checkPrioRolledBack(e *Env) {
	w := invWorld(e)
	line := prioLine(w, "a", "b", "c")
	undo := errors.New("undo")
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		return errors.Join(tx.Promote(e.Ctx, line[2]), undo)
	}), undo)
	e.Must(w.B.Promote(e.Ctx, line[1]))
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		return errors.Join(tx.Demote(e.Ctx, line[1]), tx.Promote(e.Ctx, line[2], parley.Level(200)), undo)
	}), undo)
	prioOrder(w, w.SQ, "a promotion and a demotion were rolled back", "b", "a", "c")
}
