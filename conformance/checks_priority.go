package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "P01", Name: "the most specific of all eight kinds of rules", Run: checkPrioRules},
		Check{ID: "P01", Name: "the rule that matches everything", Run: checkPrioRuleForAll},
		Check{ID: "P02", Name: "a rule that changes later", Run: checkPrioRuleChanges},
		Check{ID: "P03", Name: "each side has a priority of its own", Run: checkPrioSides},
		Check{ID: "P04", Name: "higher groups come first, as long as they are", Run: checkPrioHigherFirst},
		Check{ID: "P04", Name: "what somebody has in hand does not count", Run: checkPrioHeldCounts},
		Check{ID: "P05", Name: "a group ranks by its highest conversation with messages", Run: checkPrioHighestReady},
		Check{ID: "P06", Name: "a promoted group is the next one", Run: checkPrioPromoted},
		Check{ID: "P06", Name: "levels of promotion", Run: checkPrioLevels},
		Check{ID: "P06", Name: "promoted posts and groups have one order", Run: checkPrioMixed},
		Check{ID: "P07", Name: "the peer overtakes the backlog", Run: checkPrioPeer},
		Check{ID: "P08", Name: "equal promotions in their order, and a second one replaces the first", Run: checkPrioEqual},
		Check{ID: "P08", Name: "a promotion that is replaced while the group is received stays", Run: checkPrioReplaced},
		Check{ID: "P09", Name: "a promotion of a held group", Run: checkPrioHeld},
		Check{ID: "P09", Name: "a promotion of a group without messages", Run: checkPrioEmpty},
		Check{ID: "P09", Name: "a promotion of a group whose first message is withheld", Run: checkPrioWithheld},
		Check{ID: "P09", Name: "a promotion of a parked group", Run: checkPrioParked},
		Check{ID: "P10", Name: "one shot and sticky", Run: checkPrioOneShot},
		Check{ID: "P10", Name: "a promotion is part of its transaction", Run: checkPrioRolledBack},
		Check{ID: "P11", Name: "a promotion of an ended group is removed", Run: checkPrioEnded},
		Check{ID: "P11", Name: "a promotion of an unknown group is refused", Run: checkPrioUnknown},
		Check{ID: "P12", Name: "the chooser sees the order and its choice is received", Run: checkPrioChooser},
		Check{ID: "P12", Name: "a choice that is taken meanwhile", Run: checkPrioChoiceTaken},
		Check{ID: "P13", Name: "a peer promotes no further than allowed", Run: checkPrioPeerRefused},
		Check{ID: "P13", Name: "a peer promotes its own conversation only", Run: checkPrioPeerOwn},
	)
}

// prioOrder takes messages one by one and ends the check unless they come in
// this order.
func prioOrder(w *World, queue, what string, want ...string) {
	var got []string
	for i := range want {
		d := w.TryReceive(queue, &parley.ReceiveOptions{MaxMessages: 1, Hold: w.Holds()[i%len(w.Holds())]}, time.Second)
		if d == nil {
			break
		}
		got = append(got, Bodies(d.Messages)...)
		w.Must(d.Ack(w.Ctx))
	}
	if !slices.Equal(got, want) {
		w.fail(fmt.Sprintf("%s: received %q, want %q", what, got, want))
		runtime.Goexit()
	}
}

// prioLine begins a conversation for each body, and returns the groups in which
// their messages wait in the world's queue SQ, oldest first.
func prioLine(w *World, bodies ...string) (groups []parley.ID) {
	for _, body := range bodies {
		groups = append(groups, invPeer(w, w.Dialog(body)))
		time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
	}
	return groups
}

// prioStatus reads one side of a conversation.
func prioStatus(w *World, h parley.ID) (ep backend.Endpoint) {
	w.Tx(func(tx *parley.Tx) error {
		p, err := tx.Conversation(h).Status(w.Ctx)
		if err == nil {
			ep = *p
		}
		return err
	})
	return ep
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
		e.Must(w.B.Define(e.Ctx, parley.Catalog{Priorities: []parley.PriorityRule{{Name: name, Level: level}}}))
	}
	e.Cleanup(func() {
		w.B.Define(context.WithoutCancel(e.Ctx), parley.Catalog{Priorities: []parley.PriorityRule{{Name: name, Level: parley.DefaultPriority}}})
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

// prioDuplex is a world in which conversations of one client service have the
// priority that the name of the server says, so that groups of the client's
// queue can have conversations of several priorities.
type prioDuplex struct{ *World }

func newPrioDuplex(e *Env, levels ...int) prioDuplex {
	return prioDuplex{invWorld(e, func(c *parley.Catalog) {
		for _, n := range levels {
			server := parley.Service{Name: e.Name(fmt.Sprint("server ", n)), Queue: c.Queues[1].Name, Contracts: c.Services[1].Contracts}
			c.Services = append(c.Services, server)
			c.Priorities = append(c.Priorities, parley.PriorityRule{Name: e.Name(fmt.Sprint("rule ", n)), Local: c.Services[0].Name, Remote: server.Name, Level: n})
		}
	})}
}

// begin begins a conversation of that priority in a group of the client, and
// returns the target's handle.
func (w prioDuplex) begin(level int, group parley.ID) (peer parley.ID) {
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(w.Ctx, w.Client, w.Name(fmt.Sprint("server ", level)), &parley.DialogOptions{Contract: w.Contract, RelatedGroup: group})
		if err != nil {
			return err
		}
		if err := c.Send(w.Ctx, w.Ask, nil); err != nil {
			return err
		}
		ep, err := c.Status(w.Ctx)
		if err == nil {
			peer = ep.Peer
		}
		return err
	})
	return peer
}

// tell sends to the client.
func (w prioDuplex) tell(peer parley.ID, body string) {
	w.Send(peer, w.Tell, body)
	time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
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
	groups, err := w.B.Groups(e.Ctx, w.SQ, 0, 100)
	e.Must(err)
	key := groups[slices.IndexFunc(groups, func(g parley.GroupStatus) bool { return g.Key == "k" })].Group

	// Each is the youngest and lowest; by another process, which only commits.
	other := invOther(w)
	for _, p := range []struct {
		body  string
		group parley.ID
	}{{"low", low}, {"post", post}, {"key", key}} {
		e.Must(other.B.Promote(e.Ctx, p.group))
		groups, err := w.B.Groups(e.Ctx, w.SQ, 0, 1)
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

func checkPrioPeer(e *Env) {
	w := invWorld(e, func(c *parley.Catalog) { c.Services[1].PeerPromotion = parley.DefaultLevel })
	var backlog []string
	for i := range 15 {
		backlog = append(backlog, fmt.Sprint("backlog ", i))
	}
	prioLine(w, backlog...)
	h := w.Dialog("mine 0", "mine 1")
	prioOrder(w, w.SQ, "before the promotion", backlog[:2]...)
	client := invOther(w)
	client.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).Promote(e.Ctx) })
	d := w.Receive(w.SQ, nil)
	if got := Bodies(d.Messages); !slices.Equal(got, []string{"mine 0", "mine 1"}) || !d.Promoted {
		e.Errorf("the peer promoted its conversation, and received is %q (promoted: %t), want mine 0 and mine 1", got, d.Promoted)
	}
	e.Must(d.Ack(e.Ctx))
	prioOrder(w, w.SQ, "after the promoted ones", backlog[2:]...)

	// With the message and in its transaction; and where the conversation has
	// been moved to.
	prioLine(w, "a", "b")
	peer := invPeer(w, h)
	group := parley.NewID()
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, group) })
	client.Tx(func(tx *parley.Tx) error {
		c := tx.Conversation(h)
		if err := c.Send(e.Ctx, w.Ask, []byte("urgent")); err != nil {
			return err
		}
		return c.Promote(e.Ctx, parley.Level(1))
	})
	prioOrder(w, w.SQ, "sent and promoted in one transaction", "urgent", "a", "b")
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

func checkPrioHeld(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		for _, end := range []string{"Rollback", "Ack"} {
			what := fmt.Sprintf("promoted while it was %s, then %s", invHoldName(hold), end)
			prioLine(w, "a", "b")
			h := w.Dialog("m0", "m1", "m2")
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1, Group: invPeer(w, h)})
			invPrompt(e, "promote a group "+invHoldName(hold), func(ctx context.Context) error {
				return other.B.Promote(ctx, d.Group)
			})
			if hold == parley.HoldLease && e.HoldsInTransaction() { // by GetGroup's way of looking too
				other.Tx(func(tx *parley.Tx) error {
					if g, err := tx.GetGroup(e.Ctx, w.SQ, nil); err != nil || g == d.Group {
						e.Errorf("with the promoted group held GetGroup returns %s (%v)", g, err)
					}
					return nil
				})
			}
			// The others are not kept from their work by it.
			invPrompt(e, "receive behind a promoted group that is "+invHoldName(hold), func(ctx context.Context) error {
				next, err := other.B.Receive(ctx, w.SQ, &parley.ReceiveOptions{Hold: hold})
				if err != nil {
					return err
				}
				if got := Bodies(next.Messages); !slices.Equal(got, []string{"a"}) {
					return fmt.Errorf("received %q, want a", got)
				}
				return next.Ack(ctx)
			})
			w.Send(h, w.Ask, "m3")
			if end == "Ack" {
				e.Must(d.Ack(e.Ctx))
				prioOrder(w, w.SQ, what, "m1", "b", "m2", "m3")
			} else {
				e.Must(d.Rollback(e.Ctx))
				prioOrder(w, w.SQ, what, "m0", "b", "m1", "m2", "m3")
			}
		}
	}
}

func checkPrioEmpty(e *Env) {
	w := invWorld(e)
	h := w.Dialog("m0")
	prioOrder(w, w.SQ, "first", "m0")
	group := invPeer(w, h)
	prioLine(w, "a", "b")
	e.Must(w.B.Promote(e.Ctx, group))
	prioOrder(w, w.SQ, "with an empty group promoted", "a")
	s := invUnder(w)
	for duty := range backend.Duty(backend.DutyCount) { // no clean-up takes it away
		s.tend(duty)
	}
	w.Send(h, w.Ask, "m1")
	w.Send(h, w.Ask, "m2")
	prioOrder(w, w.SQ, "once the promoted group has a message", "m1", "b", "m2")
}

func checkPrioWithheld(e *Env) {
	w := e.World()
	prioLine(w, "a", "b")
	e.Must(w.B.DisableQueue(e.Ctx, w.SQ))
	h := w.Dialog("withheld 0", "withheld 1")
	group := invPeer(w, h)
	if streams, err := w.B.Withheld(e.Ctx, 1000); err != nil || !slices.ContainsFunc(streams, func(s parley.WithheldStream) bool { return s.From.Handle == h }) {
		e.Fatalf("the queue is disabled, and what was sent to it is not withheld (%v)", err)
	}
	e.Must(w.B.Promote(e.Ctx, group))
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	if !e.Soon(20*time.Second, func() bool {
		groups, err := w.B.Groups(e.Ctx, w.SQ, 0, 100)
		e.Must(err)
		return slices.ContainsFunc(groups, func(g parley.GroupStatus) bool { return g.Group == group })
	}) {
		e.Fatalf("the queue was enabled 20 s ago, and what was withheld is not delivered")
	}
	prioOrder(w, w.SQ, "promoted while its messages were withheld", "withheld 0", "a", "b", "withheld 1")
}

func checkPrioParked(e *Env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		for _, way := range []string{"park", "defer"} {
			prioLine(w, "m")
			prioLine(w, "a")
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			if way == "park" {
				e.Must(d.Park(e.Ctx, errors.New("a check")))
			} else {
				e.Must(d.Defer(e.Ctx, time.Hour))
			}
			e.Must(w.B.Promote(e.Ctx, d.Group))
			prioOrder(w, w.SQ, way+", "+invHoldName(hold)+": with the promoted group hidden", "a")
			w.Nothing(w.SQ, nil)
			prioLine(w, "b")
			time.Sleep(2 * time.Millisecond)
			e.Must(w.B.Unpark(e.Ctx, d.Group))
			d = w.Receive(w.SQ, nil)
			if got := Bodies(d.Messages); !slices.Equal(got, []string{"m"}) || !d.Promoted {
				e.Errorf("%s, %s: promoted and unparked, then received %q, promoted: %t", way, invHoldName(hold), got, d.Promoted)
			}
			e.Must(d.Ack(e.Ctx))
			prioOrder(w, w.SQ, way+", "+invHoldName(hold)+": the rest", "b")
		}
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
			return errors.Join(d.Defer(e.Ctx, time.Hour), w.B.Unpark(e.Ctx, d.Group))
		}},
		{"Park", func(d *parley.Delivery) error {
			return errors.Join(d.Park(e.Ctx, errors.New("a check")), w.B.Unpark(e.Ctx, d.Group))
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

func checkPrioEnded(e *Env) {
	w := newPrioDuplex(e, 5)
	s := invUnder(w.World)
	group := parley.NewID() // the client's, so that it can be made again
	peer := w.begin(5, group)
	w.tell(peer, "never received")
	e.Must(w.B.Promote(e.Ctx, group, parley.Sticky()))
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(prioStatus(w.World, peer).Peer).End(e.Ctx) })
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).End(e.Ctx) })

	// Others are received beside it, and nothing goes wrong again and again.
	second := w.begin(5, parley.NewID())
	w.tell(second, "a")
	prioOrder(w.World, w.CQ, "beside a promotion of an ended group", "a")
	w.Nothing(w.CQ, nil)
	if err := w.B.Promote(e.Ctx, group); err != nil && !errors.Is(err, parley.ErrUnknownGroup) {
		e.Errorf("a promotion of the ended group returns %v, want none or ErrUnknownGroup", err)
	}

	gone := func() bool {
		for _, duty := range []backend.Duty{backend.DutyMarkers, backend.DutyClosed, backend.DutyGroups} {
			s.tend(duty)
		}
		tx := s.begin()
		defer s.rollback(tx)
		err := tx.LockGroup(e.Ctx, group)
		return errors.Is(err, backend.ErrNoGroup)
	}
	if !e.Soon(10*time.Second, gone) {
		e.Fatalf("the clean-up does not remove a promoted group that has ended")
	}
	if err := w.B.Promote(e.Ctx, group); !errors.Is(err, parley.ErrUnknownGroup) {
		e.Errorf("a promotion of the removed group returns %v, want ErrUnknownGroup", err)
	}
	// Its promotion went with it: made again, the group has none.
	w.tell(second, "older")
	w.tell(w.begin(5, group), "younger, in a group made again")
	prioOrder(w.World, w.CQ, "the group was made again", "older", "younger, in a group made again")
}

func checkPrioUnknown(e *Env) {
	w := invWorld(e)
	prioLine(w, "a")
	for _, promote := range map[string]func(g parley.ID) error{
		"Broker": func(g parley.ID) error { return w.B.Promote(e.Ctx, g) },
		"Tx": func(g parley.ID) (err error) {
			w.Tx(func(tx *parley.Tx) error {
				err = tx.Promote(e.Ctx, g)
				return tx.Demote(e.Ctx, g) // it can still be used
			})
			return err
		},
	} {
		for _, g := range []parley.ID{parley.NewID(), {}} {
			err := promote(g)
			if !errors.Is(err, parley.ErrUnknownGroup) {
				e.Errorf("a promotion of an unknown group returns %v, want ErrUnknownGroup", err)
			} else if !g.IsZero() && !strings.Contains(err.Error(), g.String()) {
				e.Errorf("the error %q does not name the group %s", err, g)
			}
		}
	}
	prioOrder(w, w.SQ, "after refused promotions", "a")
}

func checkPrioChooser(e *Env) {
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
		wanted := invPeer(w, handles[n-3-i])
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
		if got := Bodies(d.Messages); !slices.Equal(got, []string{fmt.Sprint(n - 3 - i)}) {
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
	e.Must(w.B.Promote(e.Ctx, line[4], parley.Level(3)))
	e.Must(w.B.Promote(e.Ctx, line[6], parley.Level(9)))
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
	if got := Bodies(d.Messages); !slices.Equal(got, []string{"c"}) {
		e.Errorf("chose c, received %q", got)
	}
	e.Must(d.Ack(e.Ctx))

	// It may leave the choice to the order; and nobody is asked by what is
	// received in a transaction either.
	d = w.Receive(w.SQ, &parley.ReceiveOptions{Choose: func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return parley.ID{}, false }})
	if got := Bodies(d.Messages); !slices.Equal(got, []string{"g"}) {
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
		e.Must(w.B.Unpark(e.Ctx, line[i]))
	}
	prioOrder(w, w.SQ, "the rest", "e", "a", "b", "d", "f")
}

func checkPrioChoiceTaken(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		line := prioLine(w, "a", "b", "c")
		var taken []*parley.Delivery
		var shown [][]parley.ID
		// Each time it wants the last of those that it is shown; the first two
		// choices are taken by another receiver before they can be received.
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
		if got := Bodies(d.Messages); !slices.Equal(got, []string{"a"}) {
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

func checkPrioPeerRefused(e *Env) {
	w := invWorld(e, func(c *parley.Catalog) {
		strict := c.Services[1]
		strict.Name = e.Name("strict")
		c.Services = append(c.Services, strict)
		c.Services[1].PeerPromotion = 50
	})
	var strict parley.ID
	w.Dialog("older")
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, e.Name("strict"), &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		strict = c.Handle()
		return c.Send(e.Ctx, w.Ask, []byte("strict"))
	})
	time.Sleep(2 * time.Millisecond)
	allowed := w.Dialog("allowed")
	w.Tx(func(tx *parley.Tx) error {
		for _, try := range []struct {
			what string
			h    parley.ID
			o    []parley.PromoteOption
		}{
			{"at a service that does not allow it", strict, nil},
			{"to level 0 at a service that does not allow it", strict, []parley.PromoteOption{parley.Level(0)}},
			{"to 51 where 50 is allowed", allowed, []parley.PromoteOption{parley.Level(51)}},
			{"to the default level where 50 is allowed", allowed, nil},
			{"by the target, of its initiator that does not allow it", invPeerIn(e, tx, allowed), []parley.PromoteOption{parley.Level(1)}},
		} {
			if err := tx.Conversation(try.h).Promote(e.Ctx, try.o...); !errors.Is(err, parley.ErrPromotionRefused) {
				e.Errorf("a promotion %s returns %v, want ErrPromotionRefused", try.what, err)
			}
		}
		if err := tx.Conversation(allowed).Promote(e.Ctx, parley.Level(300)); !errors.Is(err, parley.ErrInvalidOption) {
			e.Errorf("a promotion to 300 returns %v, want ErrInvalidOption", err)
		}
		return tx.Conversation(strict).Send(e.Ctx, w.Ask, []byte("strict too")) // all goes on
	})
	groups, err := w.B.Groups(e.Ctx, w.SQ, 0, 10)
	e.Must(err)
	for _, g := range groups {
		if g.Promoted {
			e.Errorf("a refused promotion is there, of level %d", g.Level)
		}
	}
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(allowed).Promote(e.Ctx, parley.Level(50)) })
	prioOrder(w, w.SQ, "only the promotion to 50 was allowed", "allowed", "older", "strict", "strict too")
}

// invPeerIn is invPeer within a transaction.
func invPeerIn(e *Env, tx *parley.Tx, h parley.ID) parley.ID {
	ep, err := tx.Conversation(h).Status(e.Ctx)
	e.Must(err)
	return ep.Peer
}

func checkPrioPeerOwn(e *Env) {
	w := invWorld(e, func(c *parley.Catalog) { c.Services[1].PeerPromotion = parley.MaxLevel })
	prioLine(w, "other 0", "other 1")
	h := w.Dialog("mine")
	ep := prioStatus(w, h)
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).Promote(e.Ctx, parley.Level(parley.MaxLevel)) })
	groups, err := w.B.Groups(e.Ctx, w.SQ, 0, 10)
	e.Must(err)
	for i, g := range groups {
		if g.Promoted != (g.Group == ep.Peer) || g.Promoted != (i == 0) {
			e.Errorf("group %d of the order is promoted: %t, and the peer's: %t", i, g.Promoted, g.Group == ep.Peer)
		}
	}
	prioOrder(w, w.SQ, "the peer promoted its own conversation", "mine", "other 0", "other 1")

	// By the handle of its own side only, and only while it may send.
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Conversation(parley.NewID()).Promote(e.Ctx); !errors.Is(err, parley.ErrNoConversation) {
			e.Errorf("a promotion on an unknown handle returns %v, want ErrNoConversation", err)
		}
		return tx.Conversation(h).End(e.Ctx)
	})
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Promote(e.Ctx); !errors.Is(err, parley.ErrEnded) {
			e.Errorf("a promotion on a conversation that this side ended returns %v, want ErrEnded", err)
		}
		return nil
	})
}
