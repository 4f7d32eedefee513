package conformance

import (
	"context"
	"fmt"
	"slices"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "P01", Name: "the most specific of all eight kinds of rules", Run: checkPrioRules},
		Check{ID: "P01", Name: "the rule that matches everything", Run: checkPrioRuleForAll},
		Check{ID: "P02", Name: "a rule that changes later", Run: checkPrioRuleChanges},
		Check{ID: "P03", Name: "each side has a priority of its own", Run: checkPrioSides},
	)
}

// checkPrioRules defines one rule of each of seven kinds about the same
// contract and services, and begins conversations that match some of it.
func checkPrioRules(e *Env) {
	level := []int{5, 1, 2, 3, 4, 6, 7, 8} // by what matches: 4 contract, 2 local, 1 remote
	var contract, local, remote [2]string
	w := invWorld(e, func(c *parley.Catalog) {
		for i := range 2 {
			contract[i], local[i], remote[i] = e.Name(fmt.Sprint("c", i)), e.Name(fmt.Sprint("l", i)), e.Name(fmt.Sprint("r", i))
			c.Contracts = append(c.Contracts, parley.Contract{Name: contract[i], Messages: c.Contracts[0].Messages})
		}
		for i := range 2 {
			c.Services = append(c.Services,
				parley.Service{Name: local[i], Queue: c.Queues[0].Name},
				parley.Service{Name: remote[i], Queue: c.Queues[1].Name, Contracts: contract[:]})
		}
		for mask := 1; mask < 8; mask++ {
			// A rule for each side: what is local to one is remote to the other.
			r := parley.PriorityRule{Name: e.Name(fmt.Sprint("rule ", mask)), Level: level[mask]}
			t := parley.PriorityRule{Name: e.Name(fmt.Sprint("target's rule ", mask)), Level: 11 - level[mask]}
			if mask&4 != 0 {
				r.Contract, t.Contract = contract[1], contract[1]
			}
			if mask&2 != 0 {
				r.Local, t.Local = local[1], remote[1]
			}
			if mask&1 != 0 {
				r.Remote, t.Remote = remote[1], local[1]
			}
			c.Priorities = append(c.Priorities, r)
			if mask != 4 { // the same criteria for both sides
				c.Priorities = append(c.Priorities, t)
			}
		}
	})
	def := prioDefault(w)
	want := func(mask int, target bool) int {
		switch {
		case mask == 0:
			return def
		case target && mask != 4:
			return 11 - level[mask]
		default:
			return level[mask]
		}
	}
	for mask := range 8 {
		c, l, r := mask>>2&1, mask>>1&1, mask&1
		var h parley.ID
		w.Tx(func(tx *parley.Tx) error {
			conv, err := tx.Begin(e.Ctx, local[l], remote[r], &parley.DialogOptions{Contract: contract[c]})
			if err != nil {
				return err
			}
			h = conv.Handle()
			return conv.Send(e.Ctx, w.Ask, nil)
		})
		what := fmt.Sprintf("contract matches %t, local %t, remote %t", c == 1, l == 1, r == 1)
		a := prioStatus(w, h)
		if a.Priority != want(mask, false) {
			e.Errorf("%s: the initiator's priority is %d, want %d", what, a.Priority, want(mask, false))
		}
		b := prioStatus(w, a.Peer)
		mirrored := mask&4 | mask&2>>1 | mask&1<<1
		if b.Priority != want(mirrored, true) {
			e.Errorf("%s: the target's priority is %d, want %d", what, b.Priority, want(mirrored, true))
		}
		d := w.Receive(w.SQ, nil)
		if d.Messages[0].Priority != b.Priority {
			e.Errorf("%s: the message says that its priority is %d, its conversation %d", what, d.Messages[0].Priority, b.Priority)
		}
		e.Must(d.Ack(e.Ctx))
	}
}

// prioDefault returns the level of what no other rule matches: 5, or that of a
// rule without criteria.
func prioDefault(w *World) int {
	c, err := w.B.Catalog(w.Ctx)
	w.Must(err)
	for _, r := range c.Priorities {
		if r.Contract == "" && r.Local == "" && r.Remote == "" {
			return r.Level
		}
	}
	return parley.DefaultPriority
}

// checkPrioRuleForAll: such a rule reaches beyond this check, so it has one name
// for all runs, and is left at the level of no rule.
func checkPrioRuleForAll(e *Env) {
	const name = "parley conformance: everything"
	w := invWorld(e)
	c, err := w.B.Catalog(e.Ctx)
	e.Must(err)
	for _, r := range c.Priorities {
		if r.Contract == "" && r.Local == "" && r.Remote == "" && r.Name != name {
			if got := prioStatus(w, w.Dialog()).Priority; got != r.Level {
				e.Errorf("the priority is %d, want that of the rule for everything, %d", got, r.Level)
			}
			return
		}
	}
	set := func(level int) {
		e.Must(w.B.Redefine(e.Ctx, parley.Catalog{Priorities: []parley.PriorityRule{{Name: name, Level: level}}}))
	}
	e.Cleanup(func() {
		w.B.Redefine(context.WithoutCancel(e.Ctx), parley.Catalog{Priorities: []parley.PriorityRule{{Name: name, Level: parley.DefaultPriority}}})
	})
	for _, level := range []int{7, parley.DefaultPriority} {
		set(level)
		if got := prioStatus(w, w.Dialog()).Priority; got != level {
			e.Errorf("the priority is %d, want that of the rule for everything, %d", got, level)
		}
	}
}

func checkPrioRuleChanges(e *Env) {
	rule := func(level int) parley.Catalog {
		return parley.Catalog{Priorities: []parley.PriorityRule{{Name: e.Name("rule"), Local: e.Name("server"), Level: level}}}
	}
	w := invWorld(e, func(c *parley.Catalog) { c.Priorities = rule(3).Priorities })
	other := invOther(w) // which learns of the change by itself
	old := w.Dialog("old")
	other.Dialog("old too")
	e.Must(w.B.Define(e.Ctx, rule(8)))
	if got := prioStatus(w, invPeer(w, old)).Priority; got != 3 {
		e.Errorf("after the rule went from 3 to 8 an existing conversation has %d", got)
	}
	fresh := other.Dialog("new")
	if got := prioStatus(w, invPeer(w, fresh)).Priority; got != 8 {
		e.Errorf("after the rule went from 3 to 8 a new conversation has %d", got)
	}
	// Order and messages go by it, also of messages sent later.
	w.Send(old, w.Ask, "old again")
	d := w.Receive(w.SQ, nil)
	if got := d.Messages[0]; string(got.Body) != "new" || got.Priority != 8 {
		e.Errorf("received %s with priority %d first, want new with 8", got.Body, got.Priority)
	}
	e.Must(d.Ack(e.Ctx))
	d = w.Receive(w.SQ, nil)
	if got := Bodies(d.Messages); !slices.Equal(got, []string{"old", "old again"}) || d.Messages[1].Priority != 3 {
		e.Errorf("then received %q with priority %d, want old and old again with 3", got, d.Messages[len(d.Messages)-1].Priority)
	}
	e.Must(d.Ack(e.Ctx))

	// The target's priority is that of the time when its side came into being.
	e.Must(w.B.Define(e.Ctx, rule(2)))
	h := w.Dialog()
	e.Must(w.B.Define(e.Ctx, rule(9)))
	w.Send(h, w.Ask, "begun before, sent after")
	if got := prioStatus(w, invPeer(w, h)).Priority; got != 9 {
		e.Errorf("the first message was sent under a rule of 9, and the target's priority is %d", got)
	}
}

func checkPrioSides(e *Env) {
	w := invWorld(e, func(c *parley.Catalog) {
		c.Services = append(c.Services, parley.Service{Name: e.Name("plain"), Queue: c.Queues[0].Name}, parley.Service{Name: e.Name("plain server"), Queue: c.Queues[1].Name, Contracts: c.Services[1].Contracts})
		c.Priorities = []parley.PriorityRule{
			{Name: e.Name("initiator"), Local: c.Services[0].Name, Remote: c.Services[1].Name, Level: 10},
			{Name: e.Name("target"), Local: c.Services[1].Name, Remote: c.Services[0].Name, Level: 1},
		}
	})
	first := w.Dialog("ask of the first")
	var second parley.ID
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, e.Name("plain"), e.Name("plain server"), &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		second = c.Handle()
		return c.Send(e.Ctx, w.Ask, []byte("ask of the second"))
	})
	if a, b := prioStatus(w, first).Priority, prioStatus(w, invPeer(w, first)).Priority; a != 10 || b != 1 {
		e.Errorf("the sides have the priorities %d and %d, want 10 and 1", a, b)
	}
	w.Send(invPeer(w, second), w.Tell, "tell of the second")
	w.Send(invPeer(w, first), w.Tell, "tell of the first")
	prioOrder(w, w.SQ, "at the target, 1 before 5 in age", "ask of the second", "ask of the first")
	prioOrder(w, w.CQ, "at the initiator, 5 before 10 in age", "tell of the first", "tell of the second")
}
