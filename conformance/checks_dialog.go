package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "D01", Name: "one message arrives once", Run: checkOneMessage},
		Check{ID: "D01", Name: "an answer arrives once", Run: checkOneAnswer},
		Check{ID: "D01", Name: "once by every way of receiving", Run: checkEveryReceive},
		Check{ID: "D02", Name: "begin without send", Run: checkBeginOnly},
		Check{ID: "D03", Name: "begin and send rolled back", Run: checkBeginRolledBack},
		Check{ID: "D03", Name: "a rolled-back send uses up no number", Run: checkNumberKept},
		Check{ID: "D04", Name: "a service that is not defined", Run: checkServiceAppears},
		Check{ID: "D04", Name: "a disabled queue", Run: checkWithheldWhileDisabled},
		Check{ID: "D04", Name: "an answer to a disabled queue", Run: checkAnswerWithheld},
		Check{ID: "D04", Name: "what cannot be delivered does not hold up what can", Run: checkStuckStreams},
		Check{ID: "D05", Name: "a contract that the service does not list", Run: checkContractRefused},
		Check{ID: "D05", Name: "a service that appears without the contract", Run: checkContractRefusedLate},
		Check{ID: "D05", Name: "a contract that the service has given up", Run: checkContractGivenUp},
		Check{ID: "D06", Name: "the wrong side sends", Run: checkWrongSide},
		Check{ID: "D07", Name: "malformed bodies", Run: checkMalformed},
		Check{ID: "D07", Name: "a malformed answer", Run: checkMalformedAnswer},
		Check{ID: "D07", Name: "a malformed body rolled back", Run: checkMalformedRolledBack},
		Check{ID: "D07", Name: "a type that has changed", Run: checkTypeChanged},
		Check{ID: "D08", Name: "a body where none is allowed", Run: checkBodyNotEmpty},
		Check{ID: "D08", Name: "an empty body on every type", Run: checkEmptyBodies},
		Check{ID: "D09", Name: "a related conversation", Run: checkRelated},
		Check{ID: "D09", Name: "an unknown related group is made", Run: checkRelatedGroup},
		Check{ID: "D09", Name: "a group of another service", Run: checkRelatedElsewhere},
		Check{ID: "D10", Name: "names of the catalog", Run: checkNamesOfCatalog},
		Check{ID: "D10", Name: "keys and other values", Run: checkNamesOfKeys},
		Check{ID: "D10", Name: "application locks", Run: checkNamesOfLocks},
		Check{ID: "D10", Name: "schedules", Run: checkNamesOfSchedules},
		Check{ID: "D11", Name: "one of several cannot take it", Run: checkSendToNone},
		Check{ID: "D11", Name: "one body of a batch is malformed and cannot be answered", Run: checkBatchTurnedDown},
		Check{ID: "D12", Name: "many senders", Run: checkConcurrentSenders},
		Check{ID: "D12", Name: "a sender waits for the one before", Run: checkSenderWaits},
		Check{ID: "D13", Name: "both sides on one queue", Run: checkSelfDialog},
		Check{ID: "D13", Name: "two receivers on one queue", Run: checkSelfPingPong},
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
	list, err := w.B.Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
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
			e.Is(w.B.Unpark(e.Ctx, g), parley.ErrUnknownGroup)
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

func checkServiceAppears(e *Env) {
	// Nothing is delivered behind this check's back: message 3 finds the others
	// still withheld.
	w := e.WorldOn(e.Broker(&parley.Options{NoDuties: true}))
	ghost := e.Name("ghost")
	var h parley.ID
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, ghost, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		h = c.Handle()
		if err := c.Send(e.Ctx, w.Ask, []byte("0")); err != nil {
			return err
		}
		return c.Send(e.Ctx, w.Ask, []byte("1"))
	})
	stop := errors.New("stop")
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("never")); err != nil {
			return err
		}
		return stop
	}), stop)
	w.Send(h, w.Ask, "2")

	dlgState(w, h, parley.Conversing)
	dlgQuiet(w, w.SQ, w.CQ)
	held := dlgWithheld(w, h)
	if held == nil || held.Count != 3 || !strings.Contains(held.Status, ghost) || held.From.Far != ghost || held.From.Service != w.Client {
		e.Fatalf("withheld: %+v, want 3 messages and a text that names %q", held, ghost)
	}
	list, err := w.B.Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
	e.Must(err)
	if len(list) != 1 || list[0].Held != 3 || list[0].Status == "" {
		e.Errorf("the conversation is listed as %+v, want one side with 3 messages held and a text", list)
	}

	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: ghost, Queue: w.SQ, Contracts: []string{w.Contract}}}}))
	w.Send(h, w.Ask, "3") // must not overtake those that may still be on their way
	ms := dlgBodies(w, w.SQ, nil, "0", "1", "2", "3")
	for i, m := range ms {
		if m.Seq != int64(i) || m.Service != ghost || m.Far != w.Client || m.Initiator {
			e.Errorf("message %d: number %d, from %q to %q", i, m.Seq, m.Far, m.Service)
		}
	}
	if held := dlgWithheld(w, h); held != nil {
		e.Errorf("still withheld: %+v", held)
	}
	w.Send(ms[0].Conversation, w.Tell, "thanks")
	dlgBodies(w, w.CQ, nil, "thanks")
	dlgQuiet(w, w.SQ)
}

func checkWithheldWhileDisabled(e *Env) {
	w := e.World()
	old := w.Dialog("0")
	e.Must(w.B.DisableQueue(e.Ctx, w.SQ))
	w.Send(old, w.Ask, "1")
	w.Send(old, w.Ask, "2")
	fresh := w.Dialog("a", "b")
	for h, n := range map[parley.ID]int{old: 2, fresh: 2} {
		held := dlgWithheld(w, h)
		if held == nil || held.Count != n || !strings.Contains(held.Status, "disabled") {
			e.Errorf("withheld: %+v, want %d messages and a text that says that the queue is disabled", held, n)
		}
		dlgState(w, h, parley.Conversing)
	}
	list, err := w.B.Queues(e.Ctx)
	e.Must(err)
	if one, err := w.B.Queues(e.Ctx, w.SQ); err != nil || len(one) != 1 || one[0].Name != w.SQ || !one[0].Disabled {
		e.Errorf("the state of %s alone is %+v, %v", w.SQ, one, err)
	}
	for _, q := range list {
		if q.Name == w.SQ && (!q.Disabled || q.Depth != 1 || q.Withheld != 4) {
			e.Errorf("the queue is listed as %+v, want it disabled with 1 message in it and 4 withheld", q)
		}
	}
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	w.Send(old, w.Ask, "3")
	w.Send(fresh, w.Ask, "c")
	byConversation := map[parley.ID][]string{}
	for _, m := range dlgTake(w, w.SQ, 7, nil) {
		if n := len(byConversation[m.Conversation]); m.Seq != int64(n) {
			e.Errorf("message %q has number %d, want %d", m.Body, m.Seq, n)
		}
		byConversation[m.Conversation] = append(byConversation[m.Conversation], string(m.Body))
	}
	dlgSame(e, "older conversation", byConversation[dlgPeer(w, old)], []string{"0", "1", "2", "3"})
	dlgSame(e, "newer conversation", byConversation[dlgPeer(w, fresh)], []string{"a", "b", "c"})
	dlgQuiet(w, w.SQ)
}

func checkAnswerWithheld(e *Env) {
	w := e.World()
	w.Dialog("question")
	e.Must(w.B.DisableQueue(e.Ctx, w.CQ))
	for _, body := range []string{"0", "1"} {
		if body == "1" {
			w.Dialog("question")
		}
		d := w.Receive(w.SQ, nil)
		m := d.Messages[0]
		e.Must(m.Reply(e.Ctx, w.Tell, []byte(body)))
		e.Must(m.Reply(e.Ctx, w.Any, []byte(body+"+")))
		e.Must(m.End(e.Ctx)) // its EndDialog must wait behind the answers
		e.Must(d.Ack(e.Ctx))
	}
	e.Must(w.B.EnableQueue(e.Ctx, w.CQ))
	got := map[parley.ID][]string{}
	for _, m := range dlgTake(w, w.CQ, 6, nil) {
		text := string(m.Body)
		if m.Type == parley.EndDialog {
			text = "end"
		}
		got[m.Conversation] = append(got[m.Conversation], text)
	}
	var all []string
	for _, texts := range got {
		all = append(all, strings.Join(texts, " "))
	}
	slices.Sort(all)
	dlgSame(e, "answers", all, []string{"0 0+ end", "1 1+ end"})
}

func checkStuckStreams(e *Env) {
	w := e.World()
	var stuck []parley.ID
	w.Tx(func(tx *parley.Tx) error {
		for range 130 { // more than anybody may look at in one go
			c, err := tx.Begin(e.Ctx, w.Client, e.Name("ghost"), &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			if err := c.Send(e.Ctx, w.Ask, []byte("stuck")); err != nil {
				return err
			}
			stuck = append(stuck, c.Handle())
		}
		return nil
	})
	e.Cleanup(func() { // other checks need not wade through them
		w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			for _, h := range stuck {
				if err := tx.Conversation(h).Cleanup(e.Ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
	e.Must(w.B.DisableQueue(e.Ctx, w.SQ))
	w.Dialog("0", "1")
	e.Must(w.B.EnableQueue(e.Ctx, w.SQ))
	dlgBodies(w, w.SQ, nil, "0", "1")
}

func checkContractRefused(e *Env) {
	w := e.World()
	other := e.Name("other-contract")
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Contracts: []parley.Contract{{Name: other, Messages: []parley.ContractEntry{{Type: w.Any, SentBy: parley.ByAny}}}}}))
	for _, n := range []int{1, 2} { // the second message in the same transaction, too, meets an error
		var h parley.ID
		w.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: other})
			if err != nil {
				return err
			}
			h = c.Handle()
			if n == 1 {
				return c.Send(e.Ctx, w.Any, []byte("hello"))
			}
			p := parley.Payload{Type: w.Any, Body: []byte("hello")}
			return tx.SendBatch(e.Ctx, []parley.Sending{{To: c, Payload: p}, {To: c, Payload: p}})
		})
		ep := dlgStatus(w, h)
		if ep == nil || ep.State != parley.Errored || ep.Error == nil || ep.Error.Code != parley.CodeContractRefused {
			e.Fatalf("the initiator's side is %+v, want it in error %d", ep, parley.CodeContractRefused)
		}
		dlgState(w, ep.Peer, "")
		m := dlgError(w, w.CQ, parley.CodeContractRefused)
		if m.Conversation != h || !strings.Contains(m.Err().Text, other) || !strings.Contains(m.Err().Text, w.Server) {
			e.Errorf("the error is %+v on %s, want one on %s that names service and contract", m.Err(), m.Conversation, h)
		}
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).Send(e.Ctx, w.Any, nil) })
		dlgNames(e, "send after the error", err, parley.ErrConversationError, h.String())
		dlgQuiet(w, w.SQ)
		dlgEnd(w, h)
		dlgGone(w, h)
	}
}

func checkContractRefusedLate(e *Env) {
	w := e.World()
	late := e.Name("late")
	var h parley.ID
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, late, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		h = c.Handle()
		return c.Send(e.Ctx, w.Ask, []byte("hello"))
	})
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: late, Queue: w.SQ}}}))
	m := dlgError(w, w.CQ, parley.CodeContractRefused)
	if m.Conversation != h {
		e.Errorf("the error came on %s, want it on %s", m.Conversation, h)
	}
	dlgState(w, h, parley.Errored)
	dlgQuiet(w, w.SQ, w.CQ)
	if held := dlgWithheld(w, h); held != nil {
		e.Errorf("still withheld: %+v", held)
	}
}

func checkContractGivenUp(e *Env) {
	w := e.World()
	other := *w
	other.B = e.Broker(nil) // a process that remembers the catalog
	old := other.Dialog("0")
	dlgBodies(&other, w.SQ, nil, "0")
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: w.Server, Queue: w.SQ}}}))
	h := other.Dialog("never")
	if m := dlgError(w, w.CQ, parley.CodeContractRefused); m.Conversation != h {
		e.Errorf("the error came on %s, want it on %s", m.Conversation, h)
	}
	other.Send(old, w.Ask, "1") // what exists goes on
	dlgBodies(w, w.SQ, nil, "1")
	dlgQuiet(w, w.SQ, w.CQ)
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

// dlgChecked defines types with each validation on a contract of both sides.
func dlgChecked(e *Env) (w *World, xml, json, fn, empty string) {
	xml, json, fn, empty = e.Name("xml"), e.Name("json"), e.Name("func"), e.Name("empty")
	w = e.World(func(c *parley.Catalog) {
		c.Types = append(c.Types,
			parley.MessageType{Name: xml, Validation: parley.ValidationXML},
			parley.MessageType{Name: json, Validation: parley.ValidationJSON},
			parley.MessageType{Name: fn, Validation: parley.ValidationFunc, Validator: "no-seven"},
			parley.MessageType{Name: empty, Validation: parley.ValidationEmpty})
		for _, t := range []string{xml, json, fn, empty} {
			c.Contracts[0].Messages = append(c.Contracts[0].Messages, parley.ContractEntry{Type: t, SentBy: parley.ByAny})
		}
	})
	w.B.RegisterValidator("no-seven", func(body []byte) error {
		if strings.Contains(string(body), "7") {
			return errors.New("there is a seven in it")
		}
		return nil
	})
	return w, xml, json, fn, empty
}

func checkMalformed(e *Env) {
	w, xml, json, fn, _ := dlgChecked(e)
	for _, c := range []struct{ typ, good, bad string }{
		{xml, `<?xml version="1.0"?><a>good</a>`, "<a>"},
		{xml, "<a/>", "<a></b>"},
		{xml, "<a> <b c=\"d\"/> </a>", "no element"},
		{xml, "<a/>", "<a/><b/>"},
		{xml, "<a/>", "\x00"},
		{json, `{"a": [1, 2]}`, `{"a": `},
		{json, `"x"`, "x"},
		{fn, "6", "7"},
	} {
		h := w.Dialog("0")
		w.Send(h, c.typ, c.good)
		w.Send(h, c.typ, c.bad)
		dlgState(w, h, parley.Errored)
		m := dlgError(w, w.CQ, parley.CodeValidationFailed)
		if text := m.Err().Text; m.Conversation != h || !strings.Contains(text, "sequence number: 2.") || !strings.Contains(text, c.typ) {
			e.Errorf("the error on %s for %q is %q, want one on %s that names the type and the sequence number 2", m.Conversation, c.bad, text, h)
		}
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).Send(e.Ctx, w.Ask, nil) })
		dlgNames(e, "send after the error", err, parley.ErrConversationError, h.String())
		ms := dlgBodies(w, w.SQ, nil, "0", c.good)
		w.Nothing(w.SQ, nil)
		w.Nothing(w.CQ, nil)
		dlgEnd(w, h, ms[0].Conversation)
		dlgGone(w, h, ms[0].Conversation)
		w.Drain(w.SQ)
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkMalformedAnswer(e *Env) {
	w, xml, _, _, _ := dlgChecked(e)
	for _, hold := range e.Holds() {
		h := w.Dialog("question")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		server := d.Messages[0].Conversation
		e.Must(d.Messages[0].Reply(e.Ctx, w.Tell, []byte("0")))
		e.Must(d.Messages[0].Reply(e.Ctx, xml, []byte("<a>")))
		e.Must(d.Ack(e.Ctx))
		m := dlgError(w, w.SQ, parley.CodeValidationFailed)
		if m.Conversation != server || !strings.Contains(m.Err().Text, "sequence number: 1.") {
			e.Errorf("the error is %q on %s, want the sequence number 1 on %s", m.Err().Text, m.Conversation, server)
		}
		dlgState(w, server, parley.Errored)
		dlgBodies(w, w.CQ, nil, "0")
		dlgEnd(w, server, h)
		w.Drain(w.CQ)
		dlgGone(w, server, h)
	}
}

func checkMalformedRolledBack(e *Env) {
	w, xml, _, _, _ := dlgChecked(e)
	h := w.Dialog("0")
	stop := errors.New("stop")
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, xml, []byte("<a>")); err != nil {
			return err
		}
		return stop
	}), stop)
	dlgState(w, h, parley.Conversing)
	w.Send(h, xml, "<a/>")
	dlgBodies(w, w.SQ, nil, "0", "<a/>")
	dlgQuiet(w, w.CQ)
}

func checkTypeChanged(e *Env) {
	w := e.World()
	other := *w
	other.B = e.Broker(nil) // a process that remembers the catalog
	h := other.Dialog("0")
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Types: []parley.MessageType{{Name: w.Any, Validation: parley.ValidationXML}}}))
	other.Send(h, w.Any, "<a>")
	if m := dlgError(w, w.CQ, parley.CodeValidationFailed); m.Conversation != h {
		e.Errorf("the error came on %s, want it on %s", m.Conversation, h)
	}
	err := other.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("<a>")})
		return err
	})
	dlgNames(e, "post", err, parley.ErrInvalidBody, w.Any)
	dlgBodies(w, w.SQ, nil, "0")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkBodyNotEmpty(e *Env) {
	w, _, _, _, empty := dlgChecked(e)
	h := w.Dialog()
	w.Send(h, empty, "not empty")
	dlgState(w, h, parley.Errored)
	m := dlgError(w, w.CQ, parley.CodeValidationFailed)
	if m.Conversation != h || !strings.Contains(m.Err().Text, "sequence number: 0.") {
		e.Errorf("the error is %q on %s, want the sequence number 0 on %s", m.Err().Text, m.Conversation, h)
	}
	dlgQuiet(w, w.SQ)
}

func checkEmptyBodies(e *Env) {
	w, xml, json, fn, empty := dlgChecked(e)
	h := w.Dialog()
	types := []string{w.Ask, w.Any, xml, json, fn, empty}
	var want []string
	for _, t := range types {
		w.Tx(func(tx *parley.Tx) error {
			if err := tx.Conversation(h).Send(e.Ctx, t, nil); err != nil {
				return err
			}
			return tx.Conversation(h).Send(e.Ctx, t, []byte{})
		})
		want = append(want, t, t)
	}
	for i, m := range dlgTake(w, w.SQ, len(want), nil) {
		if m.Type != want[i] || m.Body != nil {
			e.Errorf("message %d is a %s with the body %#v, want a %s without", i, m.Type, m.Body, want[i])
		}
	}
	dlgState(w, h, parley.Conversing)
	for _, body := range [][]byte{nil, {}} {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: xml, Body: body})
		e.Must(err)
		if m := dlgTake(w, w.SQ, 1, nil)[0]; m.Body != nil {
			e.Errorf("the post arrived with the body %#v, want none", m.Body)
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

// dlgVariants are names that a careless comparison takes for one another: by
// case, by trailing space, by the form of an accent, by cutting.
func dlgVariants(e *Env, kind string) []string {
	base := e.Name(kind)
	long := func(last string) string {
		const scripts = "日本語العربيةΕλληνικάУкраїнська한국어🦊🐳ﬁ"
		name := []rune(base)
		for i := 0; len(name) < parley.MaxName-1; i++ {
			all := []rune(scripts)
			name = append(name, all[i%len(all)])
		}
		return string(name) + last
	}
	return []string{
		base + "a", base + "A", base + "a ", base + "a  ", base + "á", base + "a\u0301", base + "ß", base + "ss",
		long("x"), long("X"), long("🦊"), long("🐳"),
	}
}

func checkNamesOfCatalog(e *Env) {
	b := e.Broker(nil)
	types, contracts, queues, services, rules := dlgVariants(e, "t"), dlgVariants(e, "k"), dlgVariants(e, "q"), dlgVariants(e, "s"), dlgVariants(e, "r")
	var c parley.Catalog
	for i := range types {
		c.Types = append(c.Types, parley.MessageType{Name: types[i]})
		c.Contracts = append(c.Contracts, parley.Contract{Name: contracts[i], Messages: []parley.ContractEntry{{Type: types[i], SentBy: parley.ByAny}}})
		c.Queues = append(c.Queues, parley.Queue{Name: queues[i]})
		c.Services = append(c.Services, parley.Service{Name: services[i], Queue: queues[i], Contracts: []string{contracts[i]}})
		c.Priorities = append(c.Priorities, parley.PriorityRule{Name: rules[i], Contract: contracts[i], Local: services[i], Level: 1 + i%10})
	}
	e.Must(b.Define(e.Ctx, c))

	other := e.Broker(nil) // what another process reads
	now, err := other.Catalog(e.Ctx)
	e.Must(err)
	for i := range types {
		if !slices.ContainsFunc(now.Types, func(t parley.MessageType) bool { return t.Name == types[i] }) ||
			!slices.ContainsFunc(now.Contracts, func(k parley.Contract) bool {
				return k.Name == contracts[i] && slices.Equal(k.Messages, c.Contracts[i].Messages)
			}) ||
			!slices.ContainsFunc(now.Queues, func(q parley.Queue) bool { return q.Name == queues[i] }) ||
			!slices.ContainsFunc(now.Services, func(s parley.Service) bool {
				return s.Name == services[i] && s.Queue == queues[i] && slices.Equal(s.Contracts, c.Services[i].Contracts)
			}) ||
			!slices.ContainsFunc(now.Priorities, func(r parley.PriorityRule) bool { return r == c.Priorities[i] }) {
			e.Fatalf("the definitions number %d did not come back from the store as they were", i)
		}
	}
	e.Must(other.Define(e.Ctx, c)) // nothing contradicts and nothing is new
	if again, err := other.Catalog(e.Ctx); err != nil || again.Version != now.Version {
		e.Errorf("the same definitions again made version %d of %d (%v)", again.Version, now.Version, err)
	}

	w := &World{Env: e, B: b}
	next := func(i int) int { return (i + 1) % len(types) }
	for i := range types {
		w.Tx(func(tx *parley.Tx) error {
			// The contract is the target's; the other names of the pair differ.
			conv, err := tx.Begin(e.Ctx, services[i], services[next(i)], &parley.DialogOptions{Contract: contracts[next(i)]})
			if err != nil {
				return err
			}
			e.Is(conv.Send(e.Ctx, types[i], nil), parley.ErrTypeNotAllowed)
			return conv.Send(e.Ctx, types[next(i)], []byte(services[i]))
		})
	}
	for i := range types {
		j := next(i)
		ms := (&World{Env: e, B: other}).Drain(queues[j])
		if len(ms) != 1 {
			e.Fatalf("queue %q: received %d messages, want one", queues[j], len(ms))
		}
		m := ms[0]
		if m.Type != types[j] || m.Contract != contracts[j] || m.Service != services[j] || m.Far != services[i] || string(m.Body) != services[i] || m.Priority != 1+j%10 {
			e.Errorf("queue %q: received type %q of contract %q from %q to %q with priority %d, want %q, %q, %q, %q and %d",
				queues[j], m.Type, m.Contract, m.Far, m.Service, m.Priority, types[j], contracts[j], services[i], services[j], 1+j%10)
		}
	}
}

func checkNamesOfKeys(e *Env) {
	w := e.World()
	// The longest key has 512 bytes: 128 characters of four.
	longest := func(last string) string { return strings.Repeat("🦊", 127) + last }
	keys := append(dlgVariants(e, "key"), longest("🐳"), longest("🐼"))
	for _, k := range keys {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(k)}, parley.Key(k), parley.Unique(k))
		e.Must(err)
	}
	// Each is a group of its own: all can be held at the same time.
	groups := map[parley.ID]bool{}
	var got []string
	var held []*parley.Delivery
	for range keys {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
		held = append(held, d)
		groups[d.Group] = true
		for _, m := range d.Messages {
			if m.Key != string(m.Body) {
				e.Errorf("the post with key %q has key %q", m.Body, m.Key)
			}
			got = append(got, m.Key)
		}
	}
	for _, d := range held {
		e.Must(d.Ack(e.Ctx))
	}
	if len(groups) != len(keys) {
		e.Errorf("%d keys are in %d groups", len(keys), len(groups))
	}
	dlgSame(e, "keys in the order of the posts", got, keys)

	w.Tx(func(tx *parley.Tx) error {
		for _, k := range keys {
			for _, want := range []bool{true, false} {
				fresh, err := tx.Once(e.Ctx, e.Name("once")+k)
				if err != nil {
					return err
				}
				if fresh != want {
					e.Errorf("once %q: new is %t, want %t", k, fresh, want)
				}
			}
		}
		return nil
	})
}

func checkNamesOfLocks(e *Env) {
	be := e.Handle()
	names := dlgVariants(e, "lock")
	for _, name := range names {
		s := dlgSession(e, be, name)
		defer s.Close(e.Ctx)
		if _, err := s.Lock(e.Ctx, name, backend.LockX, 0); err != nil {
			e.Fatalf("lock %q, which nobody has: %v", name, err)
		}
	}
	for _, name := range names {
		list, err := be.AppLocks(e.Ctx, name)
		e.Must(err)
		if !slices.ContainsFunc(list, func(l backend.AppLock) bool { return l.Name == name && l.Owner == name }) {
			e.Errorf("lock %q of the same owner is not listed as it was named: %+v", name, list)
		}
	}
}

func checkNamesOfSchedules(e *Env) {
	be := e.Handle()
	for i, name := range dlgVariants(e, "schedule") {
		tx, err := be.Begin(e.Ctx)
		e.Must(err)
		defer tx.Rollback(e.Ctx)
		err = tx.Submit(e.Ctx, name, backend.ScheduleOptions{Caller: name}, []backend.NewTask{{ID: parley.NewID(), Phase: i, Type: name}})
		if errors.Is(err, errors.ErrUnsupported) {
			e.Skipf("this backend has no schedules yet")
		}
		e.Must(err)
		e.Must(tx.Commit(e.Ctx))
		list, err := be.Schedules(e.Ctx, name)
		e.Must(err)
		if len(list) != 1 || list[0].Name != name || list[0].Phase != i || list[0].Options.Caller != name {
			e.Errorf("schedule %q is %+v, want phase %d", name, list, i)
		}
	}
}

func checkSendToNone(e *Env) {
	w := e.World()
	for _, state := range []string{"errored", "peer ended", "ended", "both ended", "unknown"} {
		bad, want := parley.NewID(), parley.ErrNoConversation
		if state != "unknown" {
			bad, _ = dlgInState(w, state)
		}
		switch state {
		case "errored":
			want = parley.ErrConversationError
		case "peer ended":
			want = parley.ErrPeerEnded
		case "ended":
			want = parley.ErrEnded
		}
		w.Drain(w.CQ)
		w.Drain(w.SQ)

		good := w.Dialog("0")
		var fresh parley.ID
		w.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			fresh = c.Handle()
			g := tx.Conversation(good)
			for _, to := range [][]*parley.Conversation{{g, tx.Conversation(bad), c}, {tx.Conversation(bad), g, c}, {c, g, tx.Conversation(bad)}} {
				dlgNames(e, "send to a conversation that is "+state, tx.SendTo(e.Ctx, to, w.Any, []byte("never")), want, bad.String())
			}
			payload := parley.Payload{Type: w.Any, Body: []byte("never")}
			err = tx.SendBatch(e.Ctx, []parley.Sending{{To: g, Payload: payload}, {To: g, Payload: payload}, {To: c, Payload: payload}, {To: tx.Conversation(bad), Payload: payload}})
			dlgNames(e, "send a batch to a conversation that is "+state, err, want, bad.String())

			if ep, err := g.Status(e.Ctx); err != nil || ep.NextSeq != 1 {
				e.Errorf("%s: the next number of the first conversation is %+v (%v), want 1", state, ep, err)
			}
			ep, err := c.Status(e.Ctx)
			if err != nil || ep.NextSeq != 0 || ep.State != parley.StartedOutbound {
				e.Fatalf("%s: the fresh conversation is %+v (%v), want nothing sent", state, ep, err)
			}
			_, err = tx.Conversation(ep.Peer).Status(e.Ctx)
			e.Is(err, parley.ErrNoConversation)
			return nil
		})
		dlgBodies(w, w.SQ, nil, "0")
		dlgQuiet(w, w.SQ)
		w.Tx(func(tx *parley.Tx) error { // without the bad one it goes to all
			return tx.SendTo(e.Ctx, []*parley.Conversation{tx.Conversation(good), tx.Conversation(fresh)}, w.Any, []byte("1"))
		})
		for _, m := range dlgBodies(w, w.SQ, nil, "1", "1") {
			want := int64(0)
			if m.Conversation == dlgPeer(w, good) {
				want = 1
			}
			if m.Seq != want {
				e.Errorf("%s: the message has number %d, want %d", state, m.Seq, want)
			}
		}
	}

	// A conversation twice in the list is no way to send twice.
	h := w.Dialog("0")
	w.Tx(func(tx *parley.Tx) error {
		err := tx.SendTo(e.Ctx, []*parley.Conversation{tx.Conversation(h), tx.Conversation(h)}, w.Any, nil)
		dlgNames(e, "send to one conversation twice", err, parley.ErrInvalidOption, h.String())
		return nil
	})
	dlgBodies(w, w.SQ, nil, "0")
	w.Nothing(w.SQ, nil)
}

func checkBatchTurnedDown(e *Env) {
	w, xml, _, _, _ := dlgChecked(e)
	bad, _ := dlgInState(w, "peer ended")
	w.Drain(w.CQ)
	w.Drain(w.SQ)
	good := w.Dialog("0")
	w.Tx(func(tx *parley.Tx) error {
		err := tx.SendBatch(e.Ctx, []parley.Sending{
			{To: tx.Conversation(good), Payload: parley.Payload{Type: w.Any, Body: []byte("never")}},
			{To: tx.Conversation(bad), Payload: parley.Payload{Type: xml, Body: []byte("<a>")}},
		})
		dlgNames(e, "send a batch with a malformed body to a conversation that the peer ended", err, parley.ErrPeerEnded, bad.String())
		return nil
	})
	dlgBodies(w, w.SQ, nil, "0")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkConcurrentSenders(e *Env) {
	w := e.World()
	h := w.Dialog()
	const senders, each = 8, 12
	var brokers []*parley.Broker
	for range 4 {
		brokers = append(brokers, e.Broker(&parley.Options{NoDuties: true}))
	}

	// The receiver works while they send: what it sees is the order of the
	// commits.
	total := senders * each
	var received []*parley.Message
	wait := dlgGo(e, "receive", func() error {
		for len(received) < total {
			d, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: 8 * time.Second, Hold: parley.HoldLease, MaxMessages: 7})
			if err != nil {
				return fmt.Errorf("after %d of %d messages: %w", len(received), total, err)
			}
			received = append(received, d.Messages...)
			if err := d.Ack(e.Ctx); err != nil {
				return err
			}
		}
		return nil
	})

	type record struct {
		seq               int64
		body              string
		committing, ended time.Time
	}
	var mu sync.Mutex
	var history []record
	var rolledBack atomic.Int64
	stop := errors.New("stop")
	dlgEach(senders, func(i int) {
		b := brokers[i%len(brokers)]
		for n := 0; n < each; {
			r := record{body: fmt.Sprintf("%d.%d", i, n)}
			undo := n%4 == 3 && rolledBack.Add(1)%2 == 1
			err := b.InTx(e.Ctx, func(tx *parley.Tx) error {
				c := tx.Conversation(h)
				if err := c.Send(e.Ctx, w.Ask, []byte(r.body)); err != nil {
					return err
				}
				ep, err := c.Status(e.Ctx)
				if err != nil {
					return err
				}
				if undo {
					return stop
				}
				r.seq, r.committing = ep.NextSeq-1, time.Now()
				return nil
			})
			r.ended = time.Now()
			switch {
			case undo && errors.Is(err, stop), parley.IsRetryable(err):
			case err != nil:
				e.Errorf("send: %v", err)
				return
			default:
				mu.Lock()
				history = append(history, r)
				mu.Unlock()
				n++
			}
		}
	})
	e.Must(wait())

	slices.SortFunc(history, func(a, b record) int { return int(a.seq - b.seq) })
	var latest time.Time // at which a commit with a lower number began
	last := map[string]int{}
	for i, r := range history {
		if r.seq != int64(i) {
			e.Fatalf("the numbers given are not 0 to %d: place %d has %d", total-1, i, r.seq)
		}
		if r.ended.Before(latest) {
			e.Errorf("number %d had committed before a lower one began to", r.seq)
		}
		if r.committing.After(latest) {
			latest = r.committing
		}
		sender, n, _ := strings.Cut(r.body, ".")
		var now int
		fmt.Sscan(n, &now)
		if now != last[sender] {
			e.Errorf("sender %s: message %d has a lower number than its message %d", sender, now, last[sender])
		}
		last[sender]++
		m := received[i]
		if m.Seq != r.seq || string(m.Body) != r.body {
			e.Fatalf("place %d: received number %d %q, want %d %q", i, m.Seq, m.Body, r.seq, r.body)
		}
	}
	dlgQuiet(w, w.SQ)
}

func checkSenderWaits(e *Env) {
	w := e.World()
	other := e.Broker(&parley.Options{NoDuties: true})
	h := w.Dialog("0")
	stop := errors.New("stop")
	for i, first := range []error{nil, stop} {
		var wait func() error
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			if err := tx.Conversation(h).Send(e.Ctx, w.Ask, fmt.Appendf(nil, "first %d", i)); err != nil {
				return err
			}
			wait = dlgGo(e, "send on the other broker", func() error {
				return other.InTx(e.Ctx, func(tx *parley.Tx) error {
					return tx.Conversation(h).Send(e.Ctx, w.Ask, fmt.Appendf(nil, "second %d", i))
				})
			})
			time.Sleep(50 * time.Millisecond) // a second sender that does not wait has come by now
			return first
		})
		e.Is(err, first)
		e.Must(wait())
	}
	for i, m := range dlgBodies(w, w.SQ, nil, "0", "first 0", "second 0", "second 1") {
		if m.Seq != int64(i) {
			e.Errorf("message %q has number %d, want %d", m.Body, m.Seq, i)
		}
	}
}

// dlgSelf defines one service that talks with itself.
func dlgSelf(e *Env) *World {
	w := e.World()
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: w.Client, Queue: w.CQ, Contracts: []string{w.Contract}}}}))
	w.Server, w.SQ = w.Client, w.CQ
	return w
}

func checkSelfDialog(e *Env) {
	w := dlgSelf(e)
	h := w.Dialog("ask")
	ep := dlgStatus(w, h)
	m := dlgBodies(w, w.CQ, nil, "ask")[0]
	if m.Conversation != ep.Peer || m.Initiator || m.Service != w.Client || m.Far != w.Client {
		e.Errorf("the message came to %s (initiator: %t), want it at the target's side %s", m.Conversation, m.Initiator, ep.Peer)
	}
	peer := dlgStatus(w, ep.Peer)
	if peer.Handle == h || peer.Group == ep.Group || peer.Conversation != ep.Conversation || !ep.Initiator || peer.Initiator {
		e.Errorf("the sides are %+v and %+v, want two handles and two groups of one conversation", ep, peer)
	}
	// Each side has only its own kind of messages, filtered or not.
	w.Send(h, w.Ask, "ask 2")
	w.Send(peer.Handle, w.Tell, "tell")
	for _, side := range []struct {
		handle, group parley.ID
		want          string
	}{{h, ep.Group, "tell"}, {peer.Handle, peer.Group, "ask 2"}} {
		for _, o := range []parley.ReceiveOptions{{Conversation: side.handle}, {Group: side.group}} {
			d := w.Receive(w.CQ, &o)
			dlgSame(e, "delivered to one side", Bodies(d.Messages), []string{side.want})
			e.Must(d.Rollback(e.Ctx))
		}
		dlgBodies(w, w.CQ, &parley.ReceiveOptions{Conversation: side.handle}, side.want)
	}
	dlgEnd(w, peer.Handle)
	if m := dlgEndDialog(w, w.CQ); m.Conversation != h {
		e.Errorf("EndDialog came to %s, want it at the initiator's side %s", m.Conversation, h)
	}
	dlgEnd(w, h)
	dlgGone(w, h, peer.Handle)

	h = w.Dialog("again")
	server := dlgBodies(w, w.CQ, nil, "again")[0].Conversation
	dlgEnd(w, h)
	if m := dlgEndDialog(w, w.CQ); m.Conversation != server {
		e.Errorf("EndDialog came to %s, want it at the target's side %s", m.Conversation, server)
	}
	dlgEnd(w, server)
	dlgGone(w, h, server)
	dlgQuiet(w, w.CQ)
}

func checkSelfPingPong(e *Env) {
	w := dlgSelf(e)
	const last = 12
	for _, hold := range e.Holds() {
		var mu sync.Mutex
		got := map[bool][]string{} // by whether the initiator received it
		ended := make(chan struct{})
		// Whoever of the two gets a message answers it with the next number; the
		// target ends after the last, and then the initiator.
		loop := func(b *parley.Broker) error {
			for {
				select {
				case <-ended:
					return nil
				default:
				}
				d, err := b.Receive(e.Ctx, w.CQ, &parley.ReceiveOptions{Wait: 200 * time.Millisecond, Hold: hold})
				if errors.Is(err, parley.ErrNoMessage) {
					continue
				}
				if err != nil {
					return err
				}
				over := false
				for _, m := range d.Messages {
					n := 0
					fmt.Sscan(string(m.Body), &n)
					mu.Lock()
					got[m.Initiator] = append(got[m.Initiator], string(m.Body))
					mu.Unlock()
					switch {
					case m.Type == parley.EndDialog:
						over = true
						err = m.End(e.Ctx)
					case n == last:
						err = m.End(e.Ctx)
					default:
						err = m.Reply(e.Ctx, w.Any, fmt.Append(nil, n+1))
					}
					if err != nil {
						d.Close()
						return err
					}
				}
				if err := d.Ack(e.Ctx); err != nil {
					return err
				}
				if over {
					close(ended)
				}
			}
		}
		var waits []func() error
		for range 2 {
			b := e.Broker(&parley.Options{Poll: 20 * time.Millisecond})
			waits = append(waits, dlgGo(e, "receive loop", func() error { return loop(b) }))
		}
		var h parley.ID
		w.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, w.Client, w.Client, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			h = c.Handle()
			return c.Send(e.Ctx, w.Any, []byte("0"))
		})
		for _, wait := range waits {
			e.Must(wait())
		}
		dlgSame(e, "received by the initiator", got[true], []string{"1", "3", "5", "7", "9", "11", ""})
		dlgSame(e, "received by the target", got[false], []string{"0", "2", "4", "6", "8", "10", "12"})
		dlgGone(w, h)
	}
}
