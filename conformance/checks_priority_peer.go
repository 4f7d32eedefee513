package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "P07", Name: "the peer overtakes the backlog", Run: checkPrioPeer},
		check{ID: "P13", Name: "a peer promotes no further than allowed", Run: checkPrioPeerRefused},
		check{ID: "P13", Name: "a peer promotes its own conversation only", Run: checkPrioPeerOwn},
	)
}

func checkPrioPeer(e *env) {
	w := invWorld(e, func(c *parley.Catalog) { c.Services[1].FarPromotion = parley.DefaultLevel })
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
	if got := bodiesOf(d.Messages); !slices.Equal(got, []string{"mine 0", "mine 1"}) || !d.Promoted {
		e.Errorf("the peer promoted its conversation, and received is %q (promoted: %t), want mine 0 and mine 1", got, d.Promoted)
	}
	e.Must(d.Ack(e.Ctx))
	prioOrder(w, w.SQ, "after the promoted ones", backlog[2:]...)

	// With the message and in its transaction; and where the conversation has
	// been moved to.
	prioLine(w, "a", "b")
	peer := dlgPeer(w, h)
	group := parley.NewID()
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(peer).Move(e.Ctx, group) })
	client.Tx(func(tx *parley.Tx) error {
		c := tx.Conversation(h)
		if err := c.Send(e.Ctx, w.Ask, []byte("urgent")); err != nil {
			return err
		}
		return c.Promote(e.Ctx, parley.PromoteLevel(1))
	})
	prioOrder(w, w.SQ, "sent and promoted in one transaction", "urgent", "a", "b")
}

func checkPrioPeerRefused(e *env) {
	w := invWorld(e, func(c *parley.Catalog) {
		strict := c.Services[1]
		strict.Name = e.Name("strict")
		c.Services = append(c.Services, strict)
		c.Services[1].FarPromotion = 50
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
			{"to level 0 at a service that does not allow it", strict, []parley.PromoteOption{parley.PromoteLevel(0)}},
			{"to 51 where 50 is allowed", allowed, []parley.PromoteOption{parley.PromoteLevel(51)}},
			{"to the default level where 50 is allowed", allowed, nil},
			{"by the target, of its initiator that does not allow it", invPeerIn(e, tx, allowed), []parley.PromoteOption{parley.PromoteLevel(1)}},
		} {
			if err := tx.Conversation(try.h).Promote(e.Ctx, try.o...); !errors.Is(err, parley.ErrPromotionRefused) {
				e.Errorf("a promotion %s returns %v, want ErrPromotionRefused", try.what, err)
			}
		}
		if err := tx.Conversation(allowed).Promote(e.Ctx, parley.PromoteLevel(300)); !errors.Is(err, parley.ErrInvalidOption) {
			e.Errorf("a promotion to 300 returns %v, want ErrInvalidOption", err)
		}
		return tx.Conversation(strict).Send(e.Ctx, w.Ask, []byte("strict too")) // all goes on
	})
	groups, err := w.B.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, 10)
	e.Must(err)
	for _, g := range groups {
		if g.Promoted {
			e.Errorf("a refused promotion is there, of level %d", g.Level)
		}
	}
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(allowed).Promote(e.Ctx, parley.PromoteLevel(50)) })
	prioOrder(w, w.SQ, "only the promotion to 50 was allowed", "allowed", "older", "strict", "strict too")
}

// invPeerIn is invPeer within a transaction.
func invPeerIn(e *env, tx *parley.Tx, h parley.ID) parley.ID {
	ep, err := tx.Conversation(h).Status(e.Ctx)
	e.Must(err)
	return ep.FarHandle
}

func checkPrioPeerOwn(e *env) {
	w := invWorld(e, func(c *parley.Catalog) { c.Services[1].FarPromotion = parley.MaxLevel })
	prioLine(w, "other 0", "other 1")
	h := w.Dialog("mine")
	ep := dlgStatus(w, h)
	w.Tx(func(tx *parley.Tx) error {
		return tx.Conversation(h).Promote(e.Ctx, parley.PromoteLevel(parley.MaxLevel))
	})
	groups, err := w.B.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, 10)
	e.Must(err)
	for i, g := range groups {
		if g.Promoted != (g.Group == ep.FarHandle) || g.Promoted != (i == 0) {
			e.Errorf("group %d of the order is promoted: %t, and the peer's: %t", i, g.Promoted, g.Group == ep.FarHandle)
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
