package conformance

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "D01", Name: "one message arrives once", Run: checkOneMessage},
		Check{ID: "D01", Name: "an answer arrives once", Run: checkOneAnswer},
		Check{ID: "D01", Name: "once by every way of receiving", Run: checkEveryReceive},
		Check{ID: "D02", Name: "begin without send", Run: checkBeginOnly},
		Check{ID: "D03", Name: "begin and send rolled back", Run: checkBeginRolledBack},
		Check{ID: "D03", Name: "a rolled-back send uses up no number", Run: checkNumberKept},
		Check{ID: "D06", Name: "the wrong side sends", Run: checkWrongSide},
		Check{ID: "D09", Name: "a related conversation", Run: checkRelated},
		Check{ID: "D09", Name: "an unknown related group is made", Run: checkRelatedGroup},
		Check{ID: "D09", Name: "a group of another service", Run: checkRelatedElsewhere},
	)
}
func checkOneMessage(e *Env) {
	w := e.World()
	h := w.Dialog("hello")
	d := w.Receive(w.SQ, nil)
	if len(d.Messages) != 1 || string(d.Messages[0].Body) != "hello" || d.Messages[0].Type != w.Ask {
		e.Fatalf("received %s", describe(d.Messages))
	}
	m := d.Messages[0]
	if m.Conversation == h {
		e.Errorf("both sides have the handle %s", h)
	}
	e.Must(d.Ack(e.Ctx))
	w.Nothing(w.SQ, nil)
	w.Tx(func(tx *parley.Tx) error {
		a, err := tx.Conversation(h).Status(e.Ctx)
		if err != nil {
			return err
		}
		b, err := tx.Conversation(m.Conversation).Status(e.Ctx)
		if err != nil {
			return err
		}
		if a.Conversation != b.Conversation || a.Conversation != m.ConversationID {
			e.Errorf("the sides say that their conversation is %s and %s, the message %s", a.Conversation, b.Conversation, m.ConversationID)
		}
		if !a.Initiator || b.Initiator || m.Initiator {
			e.Errorf("initiator: %t on the side that began, %t on the other, %t in its message", a.Initiator, b.Initiator, m.Initiator)
		}
		if a.Handle != h || b.Handle != m.Conversation || a.Peer != b.Handle || b.Peer != a.Handle {
			e.Errorf("the sides have the handles %s and %s, and say that their peers are %s and %s", a.Handle, b.Handle, a.Peer, b.Peer)
		}
		if a.Service != w.Client || a.Far != w.Server || b.Service != w.Server || b.Far != w.Client {
			e.Errorf("the sides are %q with %q, and %q with %q", a.Service, a.Far, b.Service, b.Far)
		}
		if a.State != parley.Conversing || b.State != parley.Conversing {
			e.Errorf("the states are %s and %s", a.State, b.State)
		}
		return nil
	})
}

func checkOneAnswer(e *Env) {
	w := e.World()
	for _, hold := range e.Holds() {
		h := w.Dialog("question")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		e.Must(d.Messages[0].Reply(e.Ctx, w.Tell, []byte("answer")))
		e.Must(d.Ack(e.Ctx))
		w.Nothing(w.SQ, nil)
		m := dlgBodies(w, w.CQ, &parley.ReceiveOptions{Hold: hold}, "answer")[0]
		if m.Conversation != h || !m.Initiator || m.Type != w.Tell || m.Seq != 0 || m.Service != w.Client || m.Far != w.Server || m.Contract != w.Contract {
			e.Errorf("the answer is %+v", m)
		}
		w.Nothing(w.CQ, nil)
	}
}

func checkEveryReceive(e *Env) {
	w := e.World()
	for _, o := range []parley.ReceiveOptions{{Release: parley.BeforeWork}, {Group: parley.NewID()}, {Conversation: parley.NewID()}} {
		h := w.Dialog("once")
		server := dlgPeer(w, h)
		if !o.Group.IsZero() {
			o.Group = server // a target has a group of its own, which has its name
		}
		if !o.Conversation.IsZero() {
			o.Conversation = server
		}
		d := w.Receive(w.SQ, &o)
		dlgSame(e, "delivered", Bodies(d.Messages), []string{"once"})
		if o.Release != parley.BeforeWork {
			e.Must(d.Ack(e.Ctx))
		}
		w.Nothing(w.SQ, nil)
	}

	w.Dialog("once")
	w.Tx(func(tx *parley.Tx) error {
		ms, err := tx.Receive(e.Ctx, w.SQ, nil)
		if err != nil {
			return err
		}
		dlgSame(e, "received in a transaction", Bodies(ms), []string{"once"})
		_, err = tx.Receive(e.Ctx, w.SQ, nil)
		e.Is(err, parley.ErrNoMessage)
		return nil
	})
	w.Nothing(w.SQ, nil)

	w.Dialog("twice")
	again := errors.New("roll back")
	err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		if _, err := tx.Receive(e.Ctx, w.SQ, nil); err != nil {
			return err
		}
		return again
	})
	e.Is(err, again)
	dlgBodies(w, w.SQ, nil, "twice") // it was not received before, as that was rolled back
	w.Nothing(w.SQ, nil)
}

func checkBeginOnly(e *Env) {
	w := e.World()
	h := w.Dialog()
	w.Nothing(w.SQ, nil)
	w.Nothing(w.CQ, nil)
	w.Tx(func(tx *parley.Tx) error {
		a, err := tx.Conversation(h).Status(e.Ctx)
		if err != nil {
			return err
		}
		if a.State != parley.StartedOutbound {
			e.Errorf("the state is %s", a.State)
		}
		if a.NextSeq != 0 {
			e.Errorf("the next number is %d, though nothing was sent", a.NextSeq)
		}
		_, err = tx.Conversation(a.Peer).Status(e.Ctx)
		e.Is(err, parley.ErrNoConversation)
		return nil
	})
	list, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
	e.Must(err)
	if len(list) != 1 || list[0].Handle != h || list[0].Waiting != 0 || list[0].Held != 0 {
		e.Errorf("the conversation is listed as %+v", list)
	}
}

func checkBeginRolledBack(e *Env) {
	w := e.World()
	stop := errors.New("stop")
	for _, how := range []string{"error", "panic"} {
		var h, peer, group parley.ID
		err := func() (err error) {
			defer func() {
				if p := recover(); p == stop {
					err = stop
				} else if p != nil {
					panic(p)
				}
			}()
			return w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
				if err != nil {
					return err
				}
				if err := c.Send(e.Ctx, w.Ask, []byte("never")); err != nil {
					return err
				}
				ep, err := c.Status(e.Ctx)
				if err != nil {
					return err
				}
				h, peer, group = ep.Handle, ep.Peer, ep.Group
				if how == "panic" {
					panic(stop)
				}
				return stop
			})
		}()
		e.Is(err, stop)
		dlgState(w, h, "")
		dlgState(w, peer, "")
		for _, g := range []parley.ID{group, peer} {
			e.Is(w.B.Admin().Unpark(e.Ctx, g), parley.ErrUnknownGroup)
		}
		for _, handle := range []parley.ID{h, peer} {
			err = w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).Send(e.Ctx, w.Any, nil) })
			dlgNames(e, "send after the rollback", err, parley.ErrNoConversation, handle.String())
		}
	}
	dlgQuiet(w, w.SQ, w.CQ)
	dlgDepth(w, w.SQ, 0)
}

func checkNumberKept(e *Env) {
	w := e.World()
	h := w.Dialog("0")
	stop := errors.New("stop")
	for i := 1; i <= 3; i++ {
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			for range i {
				if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("never")); err != nil {
					return err
				}
			}
			return stop
		})
		e.Is(err, stop)
		w.Send(h, w.Ask, fmt.Sprint(i))
	}
	w.Tx(func(tx *parley.Tx) error { // a savepoint gives its numbers back, too
		if err := tx.Savepoint(e.Ctx, "before"); err != nil {
			return err
		}
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("never")); err != nil {
			return err
		}
		if err := tx.RollbackTo(e.Ctx, "before"); err != nil {
			return err
		}
		return tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("4"))
	})
	// A conversation whose first message was undone begins with number 0.
	var begun parley.ID
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		begun = c.Handle()
		if err := tx.Savepoint(e.Ctx, "before"); err != nil {
			return err
		}
		if err := c.Send(e.Ctx, w.Ask, []byte("never")); err != nil {
			return err
		}
		return tx.RollbackTo(e.Ctx, "before")
	})
	dlgState(w, begun, parley.StartedOutbound)
	dlgState(w, dlgPeer(w, begun), "")
	w.Send(begun, w.Ask, "5")

	ms := dlgBodies(w, w.SQ, nil, "0", "1", "2", "3", "4", "5")
	for i, m := range ms {
		if want := int64(i % 5); m.Seq != want {
			e.Errorf("message %q has number %d, want %d", m.Body, m.Seq, want)
		}
	}
}

func checkWrongSide(e *Env) {
	w := e.World()
	h := w.Dialog("0")
	server := dlgPeer(w, h)
	stray := e.Name("stray") // defined, but not in the contract
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Types: []parley.MessageType{{Name: stray}}}))
	for _, c := range []struct {
		from parley.ID
		typ  string
	}{{h, w.Tell}, {server, w.Ask}, {h, stray}, {server, stray}, {h, ""}, {h, parley.Default}} {
		w.Tx(func(tx *parley.Tx) error {
			err := tx.Conversation(c.from).Send(e.Ctx, c.typ, []byte("wrong"))
			name := c.typ
			if name == "" {
				name = parley.Default // what a message without a type has
			}
			dlgNames(e, "send "+name, err, parley.ErrTypeNotAllowed, name)
			return nil
		})
		dlgState(w, h, parley.Conversing)
		dlgState(w, server, parley.Conversing)
	}
	w.Tx(func(tx *parley.Tx) error { // in one transaction with a message that is allowed
		c := tx.Conversation(h)
		e.Is(c.Send(e.Ctx, w.Tell, []byte("wrong")), parley.ErrTypeNotAllowed)
		return c.Send(e.Ctx, w.Any, []byte("1"))
	})
	w.Send(server, w.Tell, "0")
	w.Send(server, w.Any, "1")
	for queue, side := range map[string]string{w.SQ: "target", w.CQ: "initiator"} {
		for i, m := range dlgBodies(w, queue, nil, "0", "1") {
			if m.Seq != int64(i) {
				e.Errorf("message %q to the %s has number %d, want %d", m.Body, side, m.Seq, i)
			}
		}
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkRelated(e *Env) {
	w := e.World()
	first := w.Dialog("a")
	second := w.DialogWith(&parley.DialogOptions{RelatedConversation: first}, "b")
	alone := w.Dialog("c")
	a, b, c := dlgStatus(w, first), dlgStatus(w, second), dlgStatus(w, alone)
	if a.Group != b.Group || a.Group == c.Group {
		e.Errorf("the groups are %s, %s for a related conversation, and %s for one of its own", a.Group, b.Group, c.Group)
	}
	if a.Conversation == b.Conversation {
		e.Errorf("two conversations have the id %s", a.Conversation)
	}
	// The group is a matter of this side only: the targets have each their own.
	if x, y := dlgStatus(w, a.Peer), dlgStatus(w, b.Peer); x.Group == y.Group {
		e.Errorf("the targets share the group %s", x.Group)
	}

	// A target may relate, too.
	var third parley.ID
	w.Tx(func(tx *parley.Tx) error {
		conv, err := tx.Begin(e.Ctx, w.Server, w.Client, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: a.Peer})
		if err == nil {
			third = conv.Handle()
		}
		return err
	})
	if x, y := dlgStatus(w, third), dlgStatus(w, a.Peer); x.Group != y.Group {
		e.Errorf("a target's related conversation is in group %s, want %s", x.Group, y.Group)
	}

	// What is in a group is received together.
	w.Send(a.Peer, w.Tell, "to a")
	w.Send(b.Peer, w.Tell, "to b")
	d := w.Receive(w.CQ, nil)
	got := Bodies(d.Messages)
	slices.Sort(got)
	dlgSame(e, "delivered together", got, []string{"to a", "to b"})
	e.Must(d.Ack(e.Ctx))

	unknown := parley.NewID()
	w.Tx(func(tx *parley.Tx) error {
		_, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: unknown})
		dlgNames(e, "begin related to an unknown conversation", err, parley.ErrNoConversation, unknown.String())
		return nil
	})
}

func checkRelatedGroup(e *Env) {
	w := e.World()
	group := parley.NewID() // of the caller's choice: the key of an order, say
	first := w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "a")
	second := w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "b")
	for _, h := range []parley.ID{first, second} {
		if ep := dlgStatus(w, h); ep.Group != group {
			e.Errorf("the conversation is in group %s, want %s", ep.Group, group)
		}
		w.Send(dlgPeer(w, h), w.Tell, "answer")
	}
	d := w.Receive(w.CQ, &parley.ReceiveOptions{Group: group})
	if d.Group != group || len(d.Messages) != 2 {
		e.Errorf("received %s of group %s, want two answers of %s", describe(d.Messages), d.Group, group)
	}
	e.Must(d.Ack(e.Ctx))

	// Two in one transaction join the group that the first of them makes.
	group = parley.NewID()
	w.Tx(func(tx *parley.Tx) error {
		for range 2 {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract, RelatedGroup: group})
			if err != nil {
				return err
			}
			if got, err := c.Group(e.Ctx); err != nil || got != group {
				e.Errorf("the conversation is in group %s (%v), want %s", got, err, group)
			}
		}
		return nil
	})
}

func checkRelatedElsewhere(e *Env) {
	w := e.World()
	h := w.Dialog("a")
	server := dlgPeer(w, h)
	neighbour := e.Name("neighbour") // another service of the same queue
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: neighbour, Queue: w.CQ}}}))
	group := dlgStatus(w, h).Group
	for _, from := range []string{w.Server, neighbour} {
		for what, o := range map[string]parley.DialogOptions{"conversation": {RelatedConversation: h}, "group": {RelatedGroup: group}} {
			o.Contract = w.Contract
			var begun parley.ID
			w.Tx(func(tx *parley.Tx) error {
				c, err := tx.Begin(e.Ctx, from, w.Server, &o)
				if !errors.Is(err, parley.ErrGroupElsewhere) {
					e.Errorf("begin from %s related to a %s of %s: the error is %v, want one that is %q", from, what, w.Client, err, parley.ErrGroupElsewhere)
				}
				if c != nil {
					begun = c.Handle()
				}
				return nil
			})
			if !begun.IsZero() {
				e.Errorf("the conversation %s was begun all the same", begun)
			}
		}
	}
	w.Send(server, w.Tell, "still there")
	dlgBodies(w, w.CQ, nil, "still there")
}
