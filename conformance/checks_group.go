package conformance

import (
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
		Check{ID: "G01", Name: "the next receiver gets another group or nothing", Run: checkGrpNext},
		Check{ID: "G02", Name: "a held group asked for by name", Run: checkGrpByName},
		Check{ID: "G03", Name: "each side has a group of its own", Run: checkGrpSides},
		Check{ID: "G04", Name: "a message sent to a held group is received afterwards", Run: checkGrpSent},
		Check{ID: "G05", Name: "GetGroup takes the group for its transaction", Run: checkGrpGet},
		Check{ID: "G06", Name: "a transaction that receives twice holds both groups", Run: checkGrpTwice},
		Check{ID: "G07", Name: "the end of a transaction frees its groups", Run: checkGrpFree},
		Check{ID: "G07", Name: "a group is held until the commit, not until the settle", Run: checkGrpUntilCommit},
		Check{ID: "G07", Name: "the death of a process frees its groups", Run: checkGrpKilled},
		Check{ID: "G08", Name: "messages come under the group that the conversation was moved to", Run: checkGrpMove},
		Check{ID: "G08", Name: "a move to a group of another queue or service is refused", Run: checkGrpMoveRefused},
		Check{ID: "G08", Name: "opposite moves both end", Run: checkGrpMoveOpposite},
		Check{ID: "G09", Name: "after a rollback to a savepoint the group is still held", Run: checkGrpSavepoint},
		Check{ID: "G09", Name: "a delivery that returns its messages keeps the group", Run: checkGrpReturn},
	)
}

func checkGrpNext(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		w.Dialog("a0", "a1")
		w.Dialog("b0")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		var next *parley.Delivery
		invPrompt(e, "receive the next group, one being "+invHoldName(hold), func(ctx context.Context) (err error) {
			next, err = other.B.Receive(ctx, w.SQ, &parley.ReceiveOptions{Hold: hold})
			return err
		})
		defer next.Close()
		if got := Bodies(next.Messages); !slices.Equal(got, []string{"b0"}) {
			e.Errorf("with a0 %s, another receiver gets %q, want b0", invHoldName(hold), got)
		}
		third := invOther(w)
		invPrompt(e, "receive, all groups being "+invHoldName(hold), func(ctx context.Context) error {
			d, err := third.B.Receive(ctx, w.SQ, nil)
			if errors.Is(err, parley.ErrNoMessage) {
				return nil
			}
			if err == nil {
				err = fmt.Errorf("received %s", describe(d.Messages))
			}
			return err
		})
		e.Must(d.Ack(e.Ctx))
		if got := third.Take(w.SQ, nil); !slices.Equal(got, []string{"a1"}) {
			e.Errorf("after the first was acknowledged received %q, want a1", got)
		}
		e.Must(next.Ack(e.Ctx))
	}
}

func checkGrpByName(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		what := "a group " + invHoldName(hold)
		h := w.Dialog("m0", "m1")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		for _, o := range []parley.ReceiveOptions{{Group: d.Group}, {Conversation: invPeer(w, h)}} {
			invPrompt(e, "ask for "+what+" without a wait", func(ctx context.Context) error {
				if d, err := other.B.Receive(ctx, w.SQ, &o); !errors.Is(err, parley.ErrNoMessage) {
					return fmt.Errorf("returned %v (%v), want ErrNoMessage", d, err)
				}
				return nil
			})

			o.Wait = 200 * time.Millisecond
			start := time.Now()
			invPrompt(e, "ask for "+what+" with a wait of 200 ms", func(ctx context.Context) error {
				if d, err := other.B.Receive(ctx, w.SQ, &o); !errors.Is(err, parley.ErrNoMessage) {
					return fmt.Errorf("returned %v (%v), want ErrNoMessage", d, err)
				}
				return nil
			})
			if took := time.Since(start); took < 180*time.Millisecond {
				e.Errorf("a receive of %s with a wait of 200 ms returned nothing after %v", what, took)
			}
		}

		time.AfterFunc(100*time.Millisecond, func() {
			if err := d.Ack(e.Ctx); err != nil {
				e.Errorf("acknowledge: %v", err)
			}
		})
		rest := other.TryReceive(w.SQ, &parley.ReceiveOptions{Group: d.Group}, 15*time.Second)
		if rest == nil {
			e.Fatalf("%s was acknowledged after 100 ms, and a receive of it with a wait of 15 s gets nothing", what)
		}
		if got := Bodies(rest.Messages); !slices.Equal(got, []string{"m1"}) {
			e.Errorf("after the acknowledgement of m0 received %q, want m1", got)
		}
		e.Must(rest.Ack(e.Ctx))
	}
	// A group that is not there has no message; a handle that is not is a mistake.
	w.Nothing(w.SQ, &parley.ReceiveOptions{Group: parley.NewID()})
	_, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Conversation: parley.NewID()})
	e.Is(err, parley.ErrNoConversation)
}

func checkGrpSides(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	for _, hold := range e.Holds() {
		what := "with the other side's group " + invHoldName(hold)
		h := w.Dialog("ask")
		peer := invPeer(w, h)
		w.Send(peer, w.Tell, "tell")

		target := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		initiator := other.TryReceive(w.CQ, &parley.ReceiveOptions{Hold: hold}, 0)
		if initiator == nil {
			e.Fatalf("%s the initiator receives nothing", what)
		}
		if got := Bodies(initiator.Messages); !slices.Equal(got, []string{"tell"}) {
			e.Errorf("%s the initiator receives %q, want tell", what, got)
		}
		if target.Group == initiator.Group {
			e.Errorf("both sides are in group %s", target.Group)
		}
		e.Must(initiator.Ack(e.Ctx))
		invPrompt(e, "timer, move and end of the initiator "+what, func(ctx context.Context) error {
			return other.B.InTx(ctx, func(tx *parley.Tx) error {
				c := tx.Conversation(h)
				return errors.Join(c.SetTimer(ctx, time.Hour), c.Move(ctx, parley.NewID()), c.End(ctx))
			})
		})
		e.Must(target.Ack(e.Ctx))
		d := w.Receive(w.SQ, nil)
		if got := grpTypes(d.Messages); !slices.Equal(got, []string{parley.EndDialog}) {
			e.Errorf("then the target receives %q, want EndDialog", got)
		}
		e.Must(d.Messages[0].End(e.Ctx))
		e.Must(d.Ack(e.Ctx))
	}
}

func checkGrpSent(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		h := d.Messages[0].Conversation
		if kind == "conversation" {
			h = invPeer(other, h)
		}
		invPrompt(e, "send to a "+what, func(ctx context.Context) error {
			if kind == "key" {
				_, err := other.B.Post(ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("m2")}, parley.Key("k"))
				return err
			}
			return other.B.InTx(ctx, func(tx *parley.Tx) error {
				return tx.Conversation(h).Send(ctx, w.Ask, []byte("m2"))
			})
		})
		other.Nothing(w.SQ, nil)
		e.Must(d.Ack(e.Ctx))
		if got := other.Take(w.SQ, nil); !slices.Equal(got, []string{"m1", "m2"}) {
			e.Errorf("%s: sent while it was held: received %q, want m1 and m2", what, got)
		}
	})
}

// checkGrpGet works inside one transaction, so that it asks stores with a single
// writer as well.
func checkGrpGet(e *Env) {
	w := invWorld(e)
	w.Tx(func(tx *parley.Tx) error {
		if g, err := tx.GetGroup(e.Ctx, w.SQ, nil); !errors.Is(err, parley.ErrNoMessage) {
			e.Errorf("GetGroup of an empty queue returns %s (%v), want ErrNoMessage", g, err)
		}
		return nil
	})
	first, second := invPeer(w, w.Dialog("a0", "a1")), invPeer(w, w.Dialog("b0"))
	other := invOther(w)
	w.Tx(func(tx *parley.Tx) error {
		g, err := tx.GetGroup(e.Ctx, w.SQ, nil)
		if err != nil {
			return err
		}
		if g != first {
			e.Errorf("GetGroup returns %s, want the group of the oldest message, %s", g, first)
		}
		var got []string
		for range 2 {
			if e.HoldsInTransaction() {
				other.Nothing(w.SQ, &parley.ReceiveOptions{Group: g})
			}
			ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g, MaxMessages: 1})
			if err != nil {
				return fmt.Errorf("receive from the group taken: %w", err)
			}
			got = append(got, Bodies(ms)...)
		}
		if !slices.Equal(got, []string{"a0", "a1"}) {
			e.Errorf("from the group taken received %q, want a0 and a1", got)
		}
		if _, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g}); !errors.Is(err, parley.ErrNoMessage) {
			e.Errorf("the emptied group brings %v, want ErrNoMessage", err)
		}
		if e.HoldsInTransaction() {
			w.Send(invPeer(w, first), w.Ask, "a2") // by another transaction
			other.Nothing(w.SQ, &parley.ReceiveOptions{Group: g})
			d := other.Receive(w.SQ, nil)
			if d.Group != second {
				e.Errorf("with %s taken another receiver gets %s, want %s", g, d.Group, second)
			}
			e.Must(d.Rollback(e.Ctx))
		}
		return nil
	})
	if e.HoldsInTransaction() {
		if got := w.Take(w.SQ, &parley.ReceiveOptions{Group: first}); !slices.Equal(got, []string{"a2"}) {
			e.Errorf("sent while the group was taken: received %q, want a2", got)
		}
	}
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"b0"}) {
		e.Errorf("the other group brings %q, want b0", got)
	}
	w.Nothing(w.SQ, nil)

	// By name, and what is held by lease is not to be had.
	w.Dialog("c0")
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
	other.Tx(func(tx *parley.Tx) error {
		for _, o := range []*parley.ReceiveOptions{nil, {Group: d.Group}} {
			if g, err := tx.GetGroup(e.Ctx, w.SQ, o); !errors.Is(err, parley.ErrNoMessage) {
				e.Errorf("GetGroup while the group is leased returns %s (%v), want ErrNoMessage", g, err)
			}
		}
		return nil
	})
	e.Must(d.Rollback(e.Ctx))
	other.Tx(func(tx *parley.Tx) error {
		g, err := tx.GetGroup(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: d.Group})
		if err == nil && g != d.Group {
			e.Errorf("GetGroup by name returns %s, want %s", g, d.Group)
		}
		return err
	})
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"c0"}) {
		e.Errorf("GetGroup took something: then received %q, want c0", got)
	}
}

func checkGrpTwice(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	undo := errors.New("undo")
	for _, end := range []error{undo, nil} {
		if end != nil {
			w.Dialog("a0", "a1")
			w.Dialog("b0", "b1")
			w.Dialog("c0")
		}
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			one, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 2})
			if err != nil {
				return err
			}
			two, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
			if err != nil {
				return err
			}
			if got := append(Bodies(one), Bodies(two)...); !slices.Equal(got, []string{"a0", "a1", "b0"}) {
				e.Errorf("a transaction that receives twice gets %q, want a0, a1 and b0", got)
			}
			if e.HoldsInTransaction() {
				for _, ms := range [][]*parley.Message{one, two} {
					other.Nothing(w.SQ, &parley.ReceiveOptions{Group: ms[0].Group})
				}
				d := other.Receive(w.SQ, nil)
				if got := Bodies(d.Messages); !slices.Equal(got, []string{"c0"}) {
					e.Errorf("with a and b held another receiver gets %q, want c0", got)
				}
				e.Must(d.Rollback(e.Ctx))
			}
			// The group that it holds stays eligible.
			more, err := tx.Receive(e.Ctx, w.SQ, nil)
			if err != nil {
				return err
			}
			if got := Bodies(more); !slices.Equal(got, []string{"b1"}) {
				e.Errorf("the third receive of the transaction gets %q, want b1", got)
			}
			return end
		})
		if !errors.Is(err, end) {
			e.Fatalf("transaction: %v", err)
		}
		if end != nil {
			continue
		}
		if got := Bodies(other.Drain(w.SQ)); !slices.Equal(got, []string{"c0"}) {
			e.Errorf("after the commit received %q, want c0", got)
		}
	}
}

func checkGrpFree(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	undo := errors.New("undo")
	ends := []struct {
		name string
		end  func(b *parley.Broker, work func(tx *parley.Tx) error) error
	}{
		{"rollback", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			return b.InTx(e.Ctx, func(tx *parley.Tx) error { return errors.Join(work(tx), undo) })
		}},
		{"a panic", func(b *parley.Broker, work func(tx *parley.Tx) error) (err error) {
			defer func() {
				recover()
				err = errors.Join(err, undo)
			}()
			return b.InTx(e.Ctx, func(tx *parley.Tx) error {
				err = work(tx)
				panic("a check")
			})
		}},
		{"a cancelled context", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			ctx, cancel := context.WithCancel(e.Ctx)
			defer cancel()
			return b.InTx(ctx, func(tx *parley.Tx) error {
				err := errors.Join(work(tx), undo)
				cancel()
				return err
			})
		}},
		{"the loss of the connection", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			err := b.InTx(e.Ctx, func(tx *parley.Tx) error {
				if err := work(tx); err != nil {
					return err
				}
				return b.Backend().Close()
			})
			if err == nil {
				return errors.New("the connection was closed, and the commit reports success")
			}
			return undo
		}},
		{"commit", func(b *parley.Broker, work func(tx *parley.Tx) error) error {
			return errors.Join(b.InTx(e.Ctx, work), undo)
		}},
	}
	var groups []parley.ID
	for _, end := range ends {
		for _, body := range []string{"a", "b"} {
			w.Dialog(body)
		}
		groups = groups[:0]
		worker := invOther(w)
		err := end.end(worker.B, func(tx *parley.Tx) error {
			for len(groups) < 2 {
				g, err := tx.GetGroup(e.Ctx, w.SQ, nil)
				if err != nil {
					return err
				}
				if slices.Contains(groups, g) { // it is the next one again until it is empty
					ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
					if err != nil || len(ms) != 1 {
						return fmt.Errorf("received %s: %w", describe(ms), err)
					}
					continue
				}
				groups = append(groups, g)
			}
			return nil
		})
		if !errors.Is(err, undo) || len(groups) != 2 {
			e.Fatalf("%s: %v, with %d groups taken", end.name, err, len(groups))
		}
		want := 2
		if end.name == "commit" {
			want = 1 // the other message was received
		}
		var ds []*parley.Delivery
		for {
			d := other.TryReceive(w.SQ, nil, 0)
			if d == nil {
				break
			}
			ds = append(ds, d)
		}
		if len(ds) != want {
			e.Fatalf("after %s %d of the groups can be received, want %d", end.name, len(ds), want)
		}
		for _, d := range ds {
			e.Must(d.Ack(e.Ctx))
		}
		// None of it is left to the next transaction of the same process.
		if end.name == "rollback" {
			w.Dialog("c")
			worker.Tx(func(tx *parley.Tx) error {
				for _, g := range groups {
					if _, err := tx.GetGroup(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g}); !errors.Is(err, parley.ErrNoMessage) {
						e.Errorf("the emptied group %s brings %v, want ErrNoMessage", g, err)
					}
				}
				return nil
			})
			other.Take(w.SQ, nil)
		}
	}
}

func checkGrpUntilCommit(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			for _, end := range []string{"rollback", "commit"} {
				what := fmt.Sprintf("%s %s, settled, before its %s", st.kind, invHoldName(hold), end)
				s.sent(st, "m0", "m1")
				h := s.found(hold, what).want(what, "m0", "m1")
				tx := h.tx
				if tx == nil {
					tx = s.begin()
					e.Must(tx.Reclaim(e.Ctx, []*backend.Hold{h.Hold}))
					s.nothing(backend.ClaimRequest{}, what+" and only reclaimed")
				}
				e.Must(h.try(tx, backend.Outcome{Done: h.Messages[:1]}))
				s.nothing(backend.ClaimRequest{}, what)
				s.nothing(backend.ClaimRequest{Group: h.Group}, what)
				s.ends(tx, end)
				if end == "commit" {
					s.found(hold, what).want(what, "m1").ack()
					continue
				}
				if hold == parley.HoldLease { // the lease lives on: the settle was undone
					s.nothing(backend.ClaimRequest{}, what+", rolled back")
					h.back()
				}
				s.found(hold, what).want(what, "m0", "m1").ack()
			}
		}
	}
}

func checkGrpKilled(e *Env) {
	w := invWorld(e)
	w.Dialog("a0", "a1")
	w.Dialog("b0")
	key := e.Name("write")
	c := e.Child("receive in a transaction", w.SQ, "2", key)
	if got := c.Hear(); got != "received" {
		e.Fatalf("the child says %q, want that it received", got)
	}
	if e.HoldsInTransaction() {
		w.Nothing(w.SQ, nil)
	}
	c.Kill()
	groups := map[parley.ID]bool{}
	var got []string
	for len(got) < 3 {
		d := w.TryReceive(w.SQ, nil, 15*time.Second)
		if d == nil {
			e.Fatalf("the process was killed 15 s ago, and of its groups only %q is received", got)
		}
		groups[d.Group] = true
		got = append(got, Bodies(d.Messages)...)
		e.Must(d.Ack(e.Ctx))
	}
	if !slices.Equal(got, []string{"a0", "a1", "b0"}) || len(groups) != 2 {
		e.Errorf("after the process was killed received %q of %d groups, want a0, a1 and b0 of 2", got, len(groups))
	}
	if invWrote(w, key) {
		e.Errorf("the write of the killed process is there")
	}
}

func checkGrpMove(e *Env) {
	w := invWorld(e)
	for _, hold := range e.Holds() {
		h := w.Dialog("m0", "m1", "m2")
		peer := invPeer(w, h)
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		e.Must(d.Ack(e.Ctx))
		related := invPeer(w, w.Dialog("x"))

		// Into a group that is there, with what waits and what comes.
		w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, related) })
		w.Send(h, w.Ask, "m3")
		w.Nothing(w.SQ, &parley.ReceiveOptions{Group: peer})
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, Group: related})
		got := Bodies(d.Messages)
		slices.Sort(got)
		if !slices.Equal(got, []string{"m1", "m2", "m3", "x"}) {
			e.Errorf("%s: under the new group received %q, want m1, m2, m3 and x", invHoldName(hold), got)
		}
		for _, m := range d.Messages {
			if m.Group != related {
				e.Errorf("%s: %s says that it is of group %s, want %s", invHoldName(hold), m.Body, m.Group, related)
			}
		}
		w.Tx(func(tx *parley.Tx) error {
			g, err := tx.Conversation(peer).Group(e.Ctx)
			if err == nil && g != related {
				e.Errorf("%s: the conversation says that it is in group %s, want %s", invHoldName(hold), g, related)
			}
			return err
		})
		e.Must(d.Ack(e.Ctx))

		// Into one that is made; rolled back; and within the delivery itself.
		fresh := parley.NewID()
		w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, fresh) })
		undo := errors.New("undo")
		e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			return errors.Join(tx.Conversation(peer).Move(e.Ctx, parley.NewID()), undo)
		}), undo)
		w.Send(h, w.Ask, "m4")
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		if got := Bodies(d.Messages); d.Group != fresh || !slices.Equal(got, []string{"m4"}) {
			e.Errorf("%s: received %q of group %s, want m4 of %s", invHoldName(hold), got, d.Group, fresh)
		}
		c, err := d.Messages[0].On(e.Ctx)
		e.Must(err)
		e.Must(c.Move(e.Ctx, related))
		e.Must(d.Ack(e.Ctx))
		w.Send(h, w.Ask, "m5")
		d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		if got := Bodies(d.Messages); d.Group != related || !slices.Equal(got, []string{"m5"}) {
			e.Errorf("%s: moved by its receiver: received %q of group %s, want m5 of %s", invHoldName(hold), got, d.Group, related)
		}
		e.Must(d.Ack(e.Ctx))
		w.Nothing(w.SQ, nil)
	}
}

func checkGrpMoveRefused(e *Env) {
	var second, elsewhere string
	w := invWorld(e, func(c *parley.Catalog) {
		second, elsewhere = e.Name("second server"), e.Name("elsewhere")
		c.Queues = append(c.Queues, parley.Queue{Name: e.Name("third queue")})
		c.Services = append(c.Services,
			parley.Service{Name: second, Queue: c.Queues[1].Name, Contracts: c.Services[1].Contracts},
			parley.Service{Name: elsewhere, Queue: e.Name("third queue"), Contracts: c.Services[1].Contracts})
	})
	begin := func(to string) (peer parley.ID) {
		var h parley.ID
		w.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, w.Client, to, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			h = c.Handle()
			return c.Send(e.Ctx, w.Ask, []byte(to))
		})
		return invPeer(w, h)
	}
	h := w.Dialog("m0")
	peer := invPeer(w, h)
	groups := map[string]parley.ID{
		"of the other side, on its queue":         h, // a group of its own has the handle's id
		"of another queue":                        begin(elsewhere),
		"of another service on the same queue":    begin(second),
		"of keyed posts, with no service, if any": grpOfKey(w),
	}
	for name, g := range groups {
		w.Tx(func(tx *parley.Tx) error {
			if err := tx.Conversation(peer).Move(e.Ctx, g); !errors.Is(err, parley.ErrGroupElsewhere) {
				e.Errorf("a move to a group %s returns %v, want ErrGroupElsewhere", name, err)
			}
			if got, err := tx.Conversation(peer).Group(e.Ctx); err != nil || got != peer {
				e.Errorf("after a move that was refused the conversation is in group %s (%v), want %s", got, err, peer)
			}
			return nil
		})
	}
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Conversation: peer})
	if got := Bodies(d.Messages); d.Group != peer || !slices.Equal(got, []string{"m0"}) {
		e.Errorf("after moves that were refused received %q of group %s, want m0 of %s", got, d.Group, peer)
	}
	e.Must(d.Ack(e.Ctx))
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Conversation(peer).Move(e.Ctx, parley.ID{}); !errors.Is(err, parley.ErrUnknownGroup) {
			e.Errorf("a move to no group returns %v, want ErrUnknownGroup", err)
		}
		return nil
	})
}

// grpOfKey returns the group of a key that has a post waiting.
func grpOfKey(w *World) parley.ID {
	key := parley.NewID().String()
	_, err := w.B.Post(w.Ctx, w.SQ, parley.Payload{Type: w.Any}, parley.Key(key))
	w.Must(err)
	groups, err := w.B.Groups(w.Ctx, w.SQ, 0, 100)
	w.Must(err)
	for _, g := range groups {
		if g.Key == key {
			return g.Group
		}
	}
	w.Fatalf("the groups of the queue do not list the key that has a post waiting")
	return parley.ID{}
}

func checkGrpMoveOpposite(e *Env) {
	w := invWorld(e)
	a, b := w.Dialog("a"), w.Dialog("b")
	peers := []parley.ID{invPeer(w, a), invPeer(w, b)}
	groups := slices.Clone(peers)
	w.Drain(w.SQ)
	var wg sync.WaitGroup
	for i := range peers {
		mover := invOther(w)
		wg.Go(func() {
			for n := range 8 {
				to := groups[(i+n+1)%2]
				ctx, cancel := context.WithTimeout(e.Ctx, 30*time.Second)
				err := mover.B.InTx(ctx, func(tx *parley.Tx) error {
					return tx.Conversation(peers[i]).Move(ctx, to)
				})
				cancel()
				if err != nil {
					e.Errorf("move %d of conversation %d: %v", n, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.Send(a, w.Ask, "a1")
	w.Send(b, w.Ask, "b1")
	ms := w.Drain(w.SQ)
	if got := Bodies(ms); len(got) != 2 {
		e.Fatalf("after the moves received %q, want a1 and b1", got)
	}
	for _, m := range ms {
		i := slices.Index(peers, m.Conversation)
		if m.Group != groups[i] { // an even number of moves ends where it began
			e.Errorf("conversation %d is in group %s after its last move, want %s", i, m.Group, groups[i])
		}
	}
}

func checkGrpSavepoint(e *Env) {
	w := invWorld(e)
	other := invOther(w)
	h := w.Dialog("m0", "m1", "m2")
	w.Dialog("later")
	ways := []struct {
		name string
		take func(tx *parley.Tx) (parley.ID, int, error) // the group, and how many were received
	}{
		{"GetGroup", func(tx *parley.Tx) (parley.ID, int, error) {
			g, err := tx.GetGroup(e.Ctx, w.SQ, nil)
			return g, 0, err
		}},
		{"Receive", func(tx *parley.Tx) (parley.ID, int, error) {
			ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
			if err != nil {
				return parley.ID{}, 0, err
			}
			return ms[0].Group, 1, nil
		}},
	}
	undo := errors.New("undo")
	for _, way := range ways {
		key := e.Name(way.name)
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			g, n, err := way.take(tx)
			if err != nil {
				return err
			}
			want := []string{"m0", "m1", "m2"}[n:]
			if err := tx.Savepoint(e.Ctx, "here"); err != nil {
				return err
			}
			for range 2 { // a savepoint can be returned to again
				ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
				if err != nil {
					return fmt.Errorf("receive after the savepoint: %w", err)
				}
				if got := Bodies(ms); !slices.Equal(got, want) {
					e.Errorf("under %s received %q after the savepoint, want %q", way.name, got, want)
				}
				if _, err := tx.Once(e.Ctx, key); err != nil {
					return err
				}
				if err := tx.RollbackTo(e.Ctx, "here"); err != nil {
					return err
				}
				if e.HoldsInTransaction() {
					if d := other.TryReceive(w.SQ, &parley.ReceiveOptions{Group: g}, 0); d != nil {
						e.Fatalf("under %s, after the rollback to the savepoint another receiver gets %s", way.name, describe(d.Messages))
					}
					if got := other.Receive(w.SQ, nil); string(got.Messages[0].Body) != "later" {
						e.Fatalf("under %s, after the rollback to the savepoint another receiver gets %s", way.name, describe(got.Messages))
					} else {
						e.Must(got.Rollback(e.Ctx))
					}
				}
			}
			if fresh, err := tx.Once(e.Ctx, key); err != nil || !fresh {
				e.Errorf("under %s, what was written after the savepoint is still there (%v)", way.name, err)
			}
			if err := tx.Release(e.Ctx, "here"); err != nil {
				return err
			}
			ms, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Group: g})
			if err != nil {
				return fmt.Errorf("receive after the rollback to the savepoint: %w", err)
			}
			if got := Bodies(ms); !slices.Equal(got, want) {
				e.Errorf("under %s, after the rollback to the savepoint received %q, want %q", way.name, got, want)
			}
			return undo
		})
		e.Is(err, undo)
	}
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"m0", "m1", "m2"}) {
		e.Errorf("after all was rolled back received %q, want m0, m1 and m2", got)
	}
	w.Send(h, w.Ask, "m3")
	w.Drain(w.SQ)
}

func checkGrpReturn(e *Env) {
	invHolding(e, func(w, other *World, hold parley.Hold, kind string, d *parley.Delivery) {
		what := kind + " " + invHoldName(hold)
		e.Must(d.Return(e.Ctx))
		if d2 := other.TryReceive(w.SQ, &parley.ReceiveOptions{Group: d.Group}, 0); d2 != nil {
			e.Fatalf("%s: its messages were returned and the group kept, and another receiver gets %s", what, describe(d2.Messages))
		}
		more, err := d.More(e.Ctx, 1)
		e.Must(err)
		if got := Bodies(more); !slices.Equal(got, []string{"m0"}) {
			e.Fatalf("%s: after Return, More brings %q, want m0", what, got)
		}
		more, err = d.More(e.Ctx, 5)
		e.Must(err)
		if got := Bodies(more); !slices.Equal(got, []string{"m1"}) {
			e.Fatalf("%s: More brings %q, want m1", what, got)
		}
		e.Must(d.Return(e.Ctx))
		more, err = d.More(e.Ctx, 1)
		e.Must(err)
		if got := Bodies(more); !slices.Equal(got, []string{"m0"}) {
			e.Fatalf("%s: after a second Return, More brings %q, want m0", what, got)
		}
		e.Must(d.Ack(e.Ctx))
		if got := other.Take(w.SQ, nil); !slices.Equal(got, []string{"m1"}) {
			e.Errorf("%s: m0 was acknowledged, then received %q, want m1", what, got)
		}
	})
}
