package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "G08", Name: "messages come under the group that the conversation was moved to", Run: checkGrpMove},
		Check{ID: "G08", Name: "a move to a group of another queue or service is refused", Run: checkGrpMoveRefused},
		Check{ID: "G08", Name: "opposite moves both end", Run: checkGrpMoveOpposite},
	)
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
	groups, err := w.B.Admin().Groups(w.Ctx, w.SQ, 0, 100)
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
