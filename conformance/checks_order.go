package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "O01", Name: "several receivers handle one conversation in order", Run: checkOrdManyReceivers},
		Check{ID: "O02", Name: "the next message waits while one is handled", Run: checkOrdNextWaits},
		Check{ID: "O03", Name: "a rolled back message comes again first", Run: checkOrdRollback},
		Check{ID: "O04", Name: "conversations received together stand together", Run: checkOrdTogether},
		Check{ID: "O05", Name: "groups come in the order of their oldest message", Run: checkOrdArrival},
		Check{ID: "O05", Name: "groups whose messages came at one instant are all received", Run: checkOrdSameInstant},
		Check{ID: "O05", Name: "a group that keeps messages ranks by the oldest of them", Run: checkOrdRest},
		Check{ID: "O05", Name: "a group that was hidden keeps the place of its oldest message", Run: checkOrdHidden},
		Check{ID: "O06", Name: "timer, error, messages, and the end in its place", Run: checkOrdKinds},
		Check{ID: "O07", Name: "a receive takes at most as many as asked for, of one group", Run: checkOrdLimit},
		Check{ID: "O08", Name: "a message of a receiver that crashed comes again first", Run: checkOrdCrash},
		Check{ID: "O08", Name: "a message of a process that was killed comes again first", Run: checkOrdKilled},
	)
	addRole("receive and hold", roleReceiveAndHold)
	addRole("receive in a transaction", roleReceiveInTx)
}

func checkOrdManyReceivers(e *Env) {
	w := invWorld(e)
	const n = 60
	for _, hold := range e.Holds() {
		h := w.Dialog()
		var mu sync.Mutex
		var handled []string
		over := make(chan struct{})
		var wg sync.WaitGroup
		for r := range 4 {
			b := invOther(w).B
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-e.Ctx.Done():
						return
					default:
					}
					d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1 + r%3, Wait: 50 * time.Millisecond})
					if errors.Is(err, parley.ErrNoMessage) {
						continue
					}
					if err != nil {
						e.Errorf("receive: %v", err)
						return
					}
					mu.Lock() // still held by the group's lock, so this is the order of handling
					handled = append(handled, Bodies(d.Messages)...)
					done := len(handled) >= n
					mu.Unlock()
					if err := d.Ack(e.Ctx); err != nil {
						e.Errorf("acknowledge: %v", err)
						return
					}
					if done {
						close(over)
						return
					}
				}
			})
		}
		for i := 0; i < n; {
			w.Tx(func(tx *parley.Tx) error {
				for range 1 + i%3 {
					if i == n {
						break
					}
					if err := tx.Conversation(h).Send(e.Ctx, w.Ask, fmt.Append(nil, i)); err != nil {
						return err
					}
					i++
				}
				return nil
			})
		}
		wg.Wait()
		for i, body := range handled {
			if body != fmt.Sprint(i) {
				e.Fatalf("%s: handled %q as number %d; all: %q", invHoldName(hold), body, i, handled)
			}
		}
		if len(handled) != n {
			e.Fatalf("%s: handled %d messages of %d", invHoldName(hold), len(handled), n)
		}
	}
}

func checkOrdNextWaits(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		invHeldFromAll(other, d, what)
		// Nor when more is sent meanwhile.
		if h := d.Messages[0].Conversation; !h.IsZero() {
			other.Send(invPeer(other, h), w.Ask, "m2")
		} else {
			_, err := other.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("m2")}, parley.Key("k"))
			e.Must(err)
		}
		invHeldFromAll(other, d, what+", with another message sent")
		e.Must(d.Ack(e.Ctx))
		if got := other.Take(w.SQ, nil); !slices.Equal(got, []string{"m1", "m2"}) {
			e.Errorf("%s: after the first was acknowledged %q was received, want m1 and m2", what, got)
		}
	})
}

func checkOrdRollback(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		for i := range 4 {
			if i%2 == 1 {
				tx, err := d.Tx(e.Ctx)
				e.Must(err)
				_, err = tx.Once(e.Ctx, e.Name(fmt.Sprint(what, i)))
				e.Must(err)
			}
			id := d.Messages[0].ID
			e.Must(d.Rollback(e.Ctx))
			by := []*World{w, other}[i%2]
			d = by.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1 + i%2})
			if got := Bodies(d.Messages); got[0] != "m0" || len(got) > 1 && got[1] != "m1" {
				e.Fatalf("%s: after rollback %d received %q, want m0 first", what, i, got)
			}
			if d.Messages[0].ID != id {
				e.Errorf("%s: the message has another ID at its next delivery", what)
			}
		}
		e.Must(d.Rollback(e.Ctx))
		var all []string
		for range 2 {
			all = append(all, w.Take(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})...)
		}
		if !slices.Equal(all, []string{"m0", "m1"}) {
			e.Errorf("%s: in the end received %q", what, all)
		}
	})
}

func checkOrdTogether(e *Env) {
	w := invWorld(e)
	group := parley.NewID()
	var peers []parley.ID
	for range 3 {
		peers = append(peers, invPeer(w, w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "hello")))
	}
	w.Drain(w.SQ)
	for i := range 5 {
		for c, peer := range peers {
			w.Send(peer, w.Tell, fmt.Sprint(c, " ", i))
		}
	}
	// All at once, and then piece by piece.
	check := func(ms []*parley.Message, what string) {
		next := map[string]int{}
		seen := map[string]bool{}
		last := ""
		for _, m := range ms {
			var conv string
			var n int
			fmt.Sscan(string(m.Body), &conv, &n)
			if conv != last && seen[conv] {
				e.Fatalf("%s: conversation %s is not in one piece: %q", what, conv, Bodies(ms))
			}
			if n != next[conv] {
				e.Fatalf("%s: conversation %s is out of order: %q", what, conv, Bodies(ms))
			}
			next[conv]++
			seen[conv], last = true, conv
			if m.Group != group {
				e.Errorf("%s: message of group %s, want %s", what, m.Group, group)
			}
		}
	}
	for _, hold := range e.Holds() {
		d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold})
		if len(d.Messages) != 15 {
			e.Fatalf("%s: received %d messages of the group, want 15: %s", invHoldName(hold), len(d.Messages), describe(d.Messages))
		}
		check(d.Messages, invHoldName(hold))
		e.Must(d.Rollback(e.Ctx))
	}
	next, total := map[string]int{}, 0
	for range 4 {
		d := w.Receive(w.CQ, &parley.ReceiveOptions{MaxMessages: 4})
		last, seen := "", map[string]bool{}
		for _, m := range d.Messages {
			var conv string
			var n int
			fmt.Sscan(string(m.Body), &conv, &n)
			if n != next[conv] || conv != last && seen[conv] {
				e.Fatalf("piece by piece: after %v came %q", next, Bodies(d.Messages))
			}
			next[conv]++
			seen[conv], last = true, conv
		}
		total += len(d.Messages)
		e.Must(d.Ack(e.Ctx))
	}
	if total != 15 {
		e.Errorf("piece by piece %d messages were received, want 15", total)
	}
	w.Nothing(w.CQ, nil)
}

func checkOrdArrival(e *Env) {
	w := invWorld(e)
	const n = 12
	handles := make([]parley.ID, n)
	for i := range handles {
		handles[i] = w.Dialog()
	}
	for _, hold := range e.Holds() {
		// Sent in another order than begun, and by two processes.
		sender := invOther(w)
		var want []string
		for i := range n {
			k := (i*5 + 3) % n
			by := []*World{w, sender}[i%2]
			by.Send(handles[k], w.Ask, fmt.Sprint(k))
			want = append(want, fmt.Sprint(k))
			time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
		}
		// Later messages of an older group do not change its place.
		w.Send(handles[3], w.Ask, "3 again")
		want = slices.Insert(want, 1, "3 again")
		var got []string
		for len(got) < len(want) {
			got = append(got, w.Take(w.SQ, &parley.ReceiveOptions{Hold: hold})...)
		}
		if !slices.Equal(got, want) {
			e.Errorf("%s: received %q, want the order of arrival %q", invHoldName(hold), got, want)
		}
	}
}

func checkOrdSameInstant(e *Env) {
	w := invWorld(e)
	const n = 40
	handles := make([]parley.ID, n)
	w.Tx(func(tx *parley.Tx) error {
		for i := range handles {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			handles[i] = c.Handle()
		}
		return nil
	})
	for _, hold := range e.Holds() {
		w.Dialog("before")
		time.Sleep(2 * time.Millisecond)
		w.Tx(func(tx *parley.Tx) error {
			var to []*parley.Conversation
			for _, h := range handles {
				to = append(to, tx.Conversation(h))
			}
			return tx.SendTo(e.Ctx, to, w.Ask, []byte("x"))
		})
		time.Sleep(2 * time.Millisecond)
		w.Dialog("after")

		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"before"}) {
			e.Fatalf("%s: received %q first, want before", invHoldName(hold), got)
		}
		seen := map[parley.ID]bool{}
		var ds []*parley.Delivery
		for i := range n {
			d := w.TryReceive(w.SQ, &parley.ReceiveOptions{Hold: hold}, 0)
			if d == nil {
				e.Fatalf("%s: %d of %d groups that became ready at one instant are received", invHoldName(hold), i, n)
			}
			if got := Bodies(d.Messages); !slices.Equal(got, []string{"x"}) || seen[d.Group] {
				e.Fatalf("%s: as number %d of %d group %s was received, again %t, with %q", invHoldName(hold), i, n, d.Group, seen[d.Group], got)
			}
			seen[d.Group] = true
			if i%4 != 0 || len(ds) == 5 { // some stay in hand, so that the walk has to pass them
				e.Must(d.Ack(e.Ctx))
			} else {
				ds = append(ds, d)
			}
		}
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"after"}) {
			e.Errorf("%s: received %q last, want after", invHoldName(hold), got)
		}
		for _, d := range ds {
			e.Must(d.Ack(e.Ctx))
		}
		w.Nothing(w.SQ, nil)
	}
}

func checkOrdRest(e *Env) {
	w := invWorld(e)
	a := w.Dialog("a0")
	time.Sleep(2 * time.Millisecond)
	b := w.Dialog("b0")
	time.Sleep(2 * time.Millisecond)
	w.Send(a, w.Ask, "a1")
	time.Sleep(2 * time.Millisecond)
	w.Send(b, w.Ask, "b1")
	var got []string
	for i := range 4 {
		hold := e.Holds()[i%len(e.Holds())]
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		e.Must(d.Rollback(e.Ctx)) // which does not cost the group its place
		got = append(got, w.Take(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})...)
	}
	if want := []string{"a0", "b0", "a1", "b1"}; !slices.Equal(got, want) {
		e.Errorf("received %q, want %q", got, want)
	}
}

// checkOrdHidden: what is sent to a hidden group does not make it younger.
func checkOrdHidden(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, way := range []string{"parked", "deferred"} {
		for _, clean := range []bool{true, false} {
			for _, back := range []string{"unparked", "moved to a new group"} {
				what := fmt.Sprintf("%s, cleaned up %t, %s", way, clean, back)
				h := w.Dialog("m0")
				d := w.Receive(w.SQ, nil)
				if way == "parked" {
					e.Must(d.Park(e.Ctx, errors.New("a check")))
				} else {
					e.Must(d.Defer(e.Ctx, time.Hour))
				}
				if clean {
					s.tend(backend.DutyMarkers)
				}
				prioLine(w, "x")
				w.Send(h, w.Ask, "m1")
				if back == "unparked" {
					e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
				} else {
					w.Tx(func(tx *parley.Tx) error {
						return tx.Conversation(d.Messages[0].Conversation).Move(e.Ctx, parley.NewID())
					})
				}
				prioOrder(w, w.SQ, what, "m0", "x", "m1")
			}
		}
	}
}

func checkOrdKinds(e *Env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, errored := range []bool{true, false} {
		h := w.Dialog("hello")
		peer := invPeer(w, h)
		w.Drain(w.SQ)
		waiting := func(n int, what string) {
			if !e.Soon(10*time.Second, func() bool {
				s.tend(backend.DutyTimers)
				groups, err := w.B.Admin().Groups(e.Ctx, w.CQ, 0, 10)
				e.Must(err)
				return len(groups) == 1 && groups[0].Messages == n
			}) {
				e.Fatalf("%s does not wait in the initiator's queue", what)
			}
		}
		w.Send(peer, w.Tell, "m0")
		w.Send(peer, w.Tell, "m1")
		w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(e.Ctx, 20*time.Millisecond) })
		waiting(3, "the timer's message")
		want := []string{parley.DialogTimer, w.Tell, w.Tell, parley.EndDialog}
		w.Tx(func(tx *parley.Tx) error {
			if errored {
				want = []string{parley.DialogTimer, parley.ErrorType, w.Tell, w.Tell}
				return tx.Conversation(peer).EndWithError(e.Ctx, 7, "x")
			}
			return tx.Conversation(peer).End(e.Ctx)
		})
		waiting(4, "the end's message")
		for _, hold := range e.Holds() {
			d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold})
			if got := grpTypes(d.Messages); !slices.Equal(got, want) {
				e.Errorf("%s: received together %q, want %q", invHoldName(hold), got, want)
			}
			e.Must(d.Rollback(e.Ctx))
		}
		var got []string
		for range want {
			d := w.Receive(w.CQ, &parley.ReceiveOptions{MaxMessages: 1})
			got = append(got, grpTypes(d.Messages)...)
			e.Must(d.Ack(e.Ctx))
		}
		if !slices.Equal(got, want) {
			e.Errorf("received one by one %q, want %q", got, want)
		}
	}
}

func grpTypes(ms []*parley.Message) (types []string) {
	for _, m := range ms {
		types = append(types, m.Type)
	}
	return types
}

func checkOrdLimit(e *Env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		for g := range 3 {
			var bodies []string
			for i := range 5 {
				bodies = append(bodies, fmt.Sprint(g, ".", i))
			}
			w.Dialog(bodies...)
		}
		next := map[parley.ID]int{}
		total := 0
		for _, n := range []int{1, 2, 3, 4, 100, 100} {
			d := w.TryReceive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: n}, 0)
			if d == nil {
				break
			}
			if len(d.Messages) > n {
				e.Fatalf("%s: asked for %d, received %s", invHoldName(hold), n, describe(d.Messages))
			}
			if left := 5 - next[d.Group]; len(d.Messages) != min(n, left) {
				e.Errorf("%s: asked for %d of %d, received %d", invHoldName(hold), n, left, len(d.Messages))
			}
			for _, m := range d.Messages {
				if m.Group != d.Group {
					e.Fatalf("%s: a delivery of group %s has a message of group %s", invHoldName(hold), d.Group, m.Group)
				}
				var g, i int
				fmt.Sscanf(string(m.Body), "%d.%d", &g, &i)
				if i != next[d.Group] {
					e.Fatalf("%s: received %q, want number %d of its group", invHoldName(hold), m.Body, next[d.Group])
				}
				next[d.Group]++
				total++
			}
			e.Must(d.Ack(e.Ctx))
		}
		total += len(w.Drain(w.SQ))
		if total != 15 {
			e.Errorf("%s: received %d messages, want 15", invHoldName(hold), total)
		}

		// Of a group with several conversations.
		group := parley.NewID()
		for range 3 {
			w.Send(invPeer(w, w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "hello")), w.Tell, "tell")
		}
		w.Drain(w.SQ)
		for _, want := range []int{2, 1} {
			d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
			if len(d.Messages) != want {
				e.Errorf("%s: asked for 2 of a group of three conversations, received %d, want %d", invHoldName(hold), len(d.Messages), want)
			}
			e.Must(d.Ack(e.Ctx))
		}
		w.Drain(w.CQ)

		// The same in a transaction.
		w.Dialog("a", "b", "c")
		w.Tx(func(tx *parley.Tx) error {
			ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 2})
			if got := Bodies(ms); err == nil && !slices.Equal(got, []string{"a", "b"}) {
				e.Errorf("a transaction that asked for 2 received %q", got)
			}
			return err
		})
		if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"c"}) {
			e.Errorf("what a transaction left is %q, want c", got)
		}
	}
}

func checkOrdCrash(e *Env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		for _, take := range []int{1, 2} {
			what := fmt.Sprintf("%s, %d in hand", invHoldName(hold), take)
			h := w.Dialog("m0", "m1", "m2")
			s := invUnder(w)
			r := backend.ClaimRequest{MaxMessages: take}
			if hold == parley.HoldLease {
				r.Lease = 200 * time.Millisecond // and nobody extends it
			}
			if s.claim(hold, r) == nil {
				e.Fatalf("%s: nothing to claim", what)
			}
			w.Send(h, w.Ask, "m3")
			w.Nothing(w.SQ, &parley.ReceiveOptions{Conversation: invPeer(w, h)})
			e.Must(s.be.Close())
			var got []string
			for len(got) < 4 {
				got = append(got, w.Take(w.SQ, &parley.ReceiveOptions{MaxMessages: 3})...)
			}
			if want := []string{"m0", "m1", "m2", "m3"}; !slices.Equal(got, want) {
				e.Errorf("%s: after the crash received %q, want %q", what, got, want)
			}
		}
	}
}

// roleReceiveAndHold receives one message and holds it until it is killed.
// Arguments: queue, "transaction" or "lease".
func roleReceiveAndHold(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	o := &parley.ReceiveOptions{MaxMessages: 1, Wait: 10 * time.Second, Hold: parley.HoldTransaction}
	if args[1] == "lease" {
		o.Hold, o.Lease = parley.HoldLease, time.Second
	}
	d, err := b.Receive(ctx, args[0], o)
	if err != nil {
		return err
	}
	say("holds %s", d.Messages[0].Body)
	hear.Scan()
	return errors.New("was not killed")
}

// roleReceiveInTx takes all messages of so many groups, and records a key, in
// one transaction, in which it stays until it is killed. Arguments: queue,
// number of groups, key.
func roleReceiveInTx(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	var n int
	fmt.Sscan(args[1], &n)
	return b.InTx(ctx, func(tx *parley.Tx) error {
		for range n {
			if _, err := tx.Receive(ctx, args[0], nil); err != nil {
				return err
			}
		}
		if _, err := tx.Once(ctx, args[2]); err != nil {
			return err
		}
		say("received")
		hear.Scan()
		return errors.New("was not killed")
	})
}

func checkOrdKilled(e *Env) {
	w := invWorld(e)
	ways := []string{"lease"}
	if e.HoldsInTransaction() {
		ways = append(ways, "transaction")
	}
	for _, way := range ways {
		h := w.Dialog("m0", "m1")
		c := e.Child("receive and hold", w.SQ, way)
		if got := c.Hear(); got != "holds m0" {
			e.Fatalf("%s: the child says %q, want that it holds m0", way, got)
		}
		w.Nothing(w.SQ, &parley.ReceiveOptions{Conversation: invPeer(w, h)})
		c.Kill()
		d := w.TryReceive(w.SQ, nil, 15*time.Second)
		if d == nil {
			e.Fatalf("%s: the process was killed 15 s ago, and its message is not received", way)
		}
		if got := Bodies(d.Messages); !slices.Equal(got, []string{"m0", "m1"}) {
			e.Errorf("%s: after the process was killed received %q, want m0 and m1", way, got)
		}
		e.Must(d.Ack(e.Ctx))
	}

	// In a transaction of the RECEIVE verb, on any store.
	w.Dialog("m0", "m1")
	key := e.Name("write")
	c := e.Child("receive in a transaction", w.SQ, "1", key)
	if got := c.Hear(); got != "received" {
		e.Fatalf("the child says %q, want that it received", got)
	}
	c.Kill()
	d := w.TryReceive(w.SQ, nil, 15*time.Second)
	if d == nil {
		e.Fatalf("the process was killed 15 s ago in its transaction, and its message is not received")
	}
	if got := Bodies(d.Messages); !slices.Equal(got, []string{"m0", "m1"}) {
		e.Errorf("after the process was killed in its transaction received %q, want m0 and m1", got)
	}
	e.Must(d.Ack(e.Ctx))
	if invWrote(w, key) {
		e.Errorf("the write of a process that was killed before its commit is there")
	}
}
