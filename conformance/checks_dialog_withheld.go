package conformance

import (
	"errors"
	"slices"
	"strings"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "D04", Name: "a service that is not defined", Run: checkServiceAppears},
		Check{ID: "D04", Name: "a disabled queue", Run: checkWithheldWhileDisabled},
		Check{ID: "D04", Name: "an answer to a disabled queue", Run: checkAnswerWithheld},
		Check{ID: "D04", Name: "what cannot be delivered does not hold up what can", Run: checkStuckStreams},
		Check{ID: "D05", Name: "a contract that the service does not list", Run: checkContractRefused},
		Check{ID: "D05", Name: "a service that appears without the contract", Run: checkContractRefusedLate},
		Check{ID: "D05", Name: "a contract that the service has given up", Run: checkContractGivenUp},
		Check{ID: "D11", Name: "one of several cannot take it", Run: checkSendToNone},
		Check{ID: "D11", Name: "one body of a batch is malformed and cannot be answered", Run: checkBatchTurnedDown},
	)
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
	list, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
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
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
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
	list, err := w.B.Admin().Queues(e.Ctx)
	e.Must(err)
	if one, err := w.B.Admin().Queues(e.Ctx, w.SQ); err != nil || len(one) != 1 || one[0].Name != w.SQ || !one[0].Disabled {
		e.Errorf("the state of %s alone is %+v, %v", w.SQ, one, err)
	}
	for _, q := range list {
		if q.Name == w.SQ && (!q.Disabled || q.Depth != 1 || q.Withheld != 4) {
			e.Errorf("the queue is listed as %+v, want it disabled with 1 message in it and 4 withheld", q)
		}
	}
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
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
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.CQ))
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
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.CQ))
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
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	w.Dialog("0", "1")
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
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
	e.Must(w.B.Redefine(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: w.Server, Queue: w.SQ}}}))
	h := other.Dialog("never")
	if m := dlgError(w, w.CQ, parley.CodeContractRefused); m.Conversation != h {
		e.Errorf("the error came on %s, want it on %s", m.Conversation, h)
	}
	other.Send(old, w.Ask, "1") // what exists goes on
	dlgBodies(w, w.SQ, nil, "1")
	dlgQuiet(w, w.SQ, w.CQ)
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
