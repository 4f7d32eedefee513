package conformance

import (
	"context"
	"fmt"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "P01", Name: "the most specific of all eight kinds of rules", Run: checkPrioRules},
		check{ID: "P01", Name: "the rule that matches everything", Run: checkPrioRuleForAll},
		scripted("P02", "a rule that changes later", `
			define rule rule local Server level 3
			broker other // which learns of the change by itself
			begin old "old"
			other: begin oldtoo "old too"
			define rule rule local Server level 8
			equal old.peer.priority 3
			other: begin fresh "new"
			equal fresh.peer.priority 8

			send old "old again" // order and messages go by it, also of messages sent later
			receive SQ as r -> "new"
			equal r.priority 8
			ack r
			receive SQ as r -> "old", "old again"
			equal r.1.priority 3
			ack r

			define rule rule local Server level 2 // the target's priority is that of the time when its side came into being
			begin d
			define rule rule local Server level 9
			send d "begun before, sent after"
			equal d.peer.priority 9
		`, alone),
		scripted("P03", "each side has a priority of its own", `
			define service plain on CQ
			define service other on SQ lists Contract
			define rule initiator local Client remote Server level 10
			define rule target local Server remote Client level 1
			begin first "ask of the first"
			begin second from plain to other "ask of the second"
			equal first.priority 10
			equal first.peer.priority 1
			send second.peer "tell of the second"
			send first.peer "tell of the first"
			order SQ "ask of the second" "ask of the first" // 1 before 5 in age
			order CQ "tell of the first" "tell of the second" // 5 before 10 in age
		`, alone),
	)
}

// checkPrioRules defines one rule of each of seven kinds about the same
// contract and services, and begins conversations that match some of it.
func checkPrioRules(e *env) {
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
		a := dlgStatus(w, h)
		if a.Priority != want(mask, false) {
			e.Errorf("%s: the initiator's priority is %d, want %d", what, a.Priority, want(mask, false))
		}
		b := dlgStatus(w, a.FarHandle)
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
func prioDefault(w *world) int {
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
func checkPrioRuleForAll(e *env) {
	const name = "parley conformance: everything"
	w := invWorld(e)
	c, err := w.B.Catalog(e.Ctx)
	e.Must(err)
	for _, r := range c.Priorities {
		if r.Contract == "" && r.Local == "" && r.Remote == "" && r.Name != name {
			if got := dlgStatus(w, w.Dialog()).Priority; got != r.Level {
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
		if got := dlgStatus(w, w.Dialog()).Priority; got != level {
			e.Errorf("the priority is %d, want that of the rule for everything, %d", got, level)
		}
	}
}
