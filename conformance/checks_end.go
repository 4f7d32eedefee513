package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "E01", Name: "the target ends first", Run: func(e *Env) { checkEnd(e, false) }},
		Check{ID: "E01", Name: "the initiator ends first", Run: func(e *Env) { checkEnd(e, true) }},
		Check{ID: "E01", Name: "an end is part of its transaction", Run: checkEndRolledBack},
		Check{ID: "E02", Name: "an error goes first", Run: checkEndWithError},
		Check{ID: "E03", Name: "errors without code or text", Run: checkInvalidErrors},
		Check{ID: "E04", Name: "unread messages go", Run: checkUnreadRemoved},
		Check{ID: "E04", Name: "unread messages go behind a delivery", Run: checkUnreadBehindDelivery},
		Check{ID: "E05", Name: "withheld for a disabled queue", Run: checkEndWhileWithheld},
		Check{ID: "E05", Name: "withheld for a service that is not defined", Run: checkEndBeforeTarget},
		Check{ID: "E06", Name: "the peer has ended", Run: checkPeerHearsNothing},
		Check{ID: "E07", Name: "withheld while the receiver ends", Run: checkLateWithheld},
		Check{ID: "E07", Name: "in flight while the receiver ends", Run: checkLateInFlight},
		Check{ID: "E08", Name: "cleanup of either side", Run: checkCleanup},
		Check{ID: "E08", Name: "cleanup of what is withheld", Run: checkCleanupWithheld},
		Check{ID: "E09", Name: "sent, ended, refused", Run: checkLossRecorded},
		Check{ID: "E10", Name: "removed at once", Run: checkRemovedAtOnce},
		Check{ID: "E10", Name: "removed after the set time", Run: checkRemovedLater},
	)
}

// checkEnd ends the conversation on one side and then on the other.
func checkEnd(e *Env, initiator bool) {
	w := e.World()
	for _, hold := range e.Holds() {
		o := &parley.ReceiveOptions{Hold: hold}
		client := w.Dialog("begin")
		server := dlgBodies(w, w.SQ, o, "begin")[0].Conversation
		first, second, queue := server, client, w.CQ
		if initiator {
			first, second, queue = client, server, w.SQ
		}

		w.Send(first, w.Any, "1")
		w.Send(first, w.Any, "2")
		dlgEnd(w, first)
		dlgState(w, first, parley.DisconnectedOutbound)
		dlgState(w, second, parley.DisconnectedInbound) // before anything was received
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(second).Send(e.Ctx, w.Any, nil) })
		dlgNames(e, "send after the peer ended", err, parley.ErrPeerEnded, second.String())
		err = w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(first).Send(e.Ctx, w.Any, nil) })
		dlgNames(e, "send after the end", err, parley.ErrEnded, first.String())

		ms := dlgBodies(w, queue, o, "1", "2", "")
		if m := ms[2]; m.Type != parley.EndDialog || m.Body != nil || m.Conversation != second {
			e.Errorf("last came %s on %s, want EndDialog on %s", m.Type, m.Conversation, second)
		}
		if ms[0].Type != w.Any || ms[1].Type != w.Any {
			e.Errorf("received %s, want two messages of type %s first", describe(ms), w.Any)
		}
		w.Nothing(queue, nil)
		dlgState(w, second, parley.DisconnectedInbound)
		dlgEnd(w, second)
		dlgGone(w, first, second)
	}
	dlgQuiet(w, w.CQ, w.SQ)
}

func checkEndRolledBack(e *Env) {
	w := e.World()
	client := w.Dialog("1")
	server := dlgPeer(w, client)
	stop := errors.New("stop")
	for _, end := range []func(c *parley.Conversation) error{
		func(c *parley.Conversation) error { return c.End(e.Ctx) },
		func(c *parley.Conversation) error { return c.EndWithError(e.Ctx, 5, "five") },
		func(c *parley.Conversation) error { return c.Cleanup(e.Ctx) },
	} {
		e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			if err := end(tx.Conversation(server)); err != nil {
				return err
			}
			return stop
		}), stop)
		dlgState(w, client, parley.Conversing)
		dlgState(w, server, parley.Conversing)
	}
	dlgQuiet(w, w.CQ)
	w.Send(client, w.Ask, "2")
	dlgBodies(w, w.SQ, nil, "1", "2")
}

func checkEndWithError(e *Env) {
	w := e.World()
	const text = "не найдено: <a & \"b\"> 'c'\n]]> 日本語 🦊"
	for _, hold := range e.Holds() {
		client := w.Dialog("begin")
		server := dlgPeer(w, client)
		w.Send(server, w.Tell, "1")
		w.Send(server, w.Tell, "2")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		c, err := d.Messages[0].On(e.Ctx)
		e.Must(err)
		e.Must(c.EndWithError(e.Ctx, 1234, text))
		e.Must(d.Ack(e.Ctx))

		ep := dlgStatus(w, client)
		if ep.State != parley.Errored || ep.Error == nil || ep.Error.Code != 1234 || ep.Error.Text != text {
			e.Errorf("the peer's side is %s with %+v, want %s with the code 1234 and the text %q", ep.State, ep.Error, parley.Errored, text)
		}
		err = w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(client).Send(e.Ctx, w.Any, nil) })
		dlgNames(e, "send after the error", err, parley.ErrConversationError, client.String())
		var told *parley.DialogError
		if !errors.As(err, &told) || told.Code != 1234 || told.Text != text {
			e.Errorf("the error of the send carries %+v", told)
		}

		// One by one, since the order of receipt must not depend on the size of a
		// delivery.
		for i, want := range []string{"", "1", "2"} {
			d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
			m := d.Messages[0]
			switch {
			case i > 0 && (m.Type != w.Tell || string(m.Body) != want):
				e.Fatalf("received %s, want message %q", describe(d.Messages), want)
			case i == 0 && m.Type != parley.ErrorType:
				e.Fatalf("received %s, want the Error first", describe(d.Messages))
			case i == 0:
				body := string((&parley.DialogError{Code: 1234, Text: text}).Body())
				if got := m.Err(); got.Code != 1234 || got.Text != text || string(m.Body) != body {
					e.Errorf("the Error says %+v in the body %q, want %q", got, m.Body, body)
				}
			}
			e.Must(d.Ack(e.Ctx))
		}
		dlgState(w, client, parley.Errored)
		dlgEnd(w, client)
		dlgGone(w, client, server)
	}
	dlgQuiet(w, w.CQ, w.SQ)
}

func checkInvalidErrors(e *Env) {
	w := e.World()
	client := w.Dialog("1")
	server := dlgPeer(w, client)
	for _, c := range []struct {
		code int
		text string
	}{{0, "text"}, {-1, "text"}, {parley.CodeLifetime, "text"}, {1, ""}, {1, " \t\n"}, {0, ""}, {1, "a\xffb"}, {1, "a\x00b"}, {1, strings.Repeat("x", 3001)}} {
		for _, h := range []parley.ID{client, server} {
			w.Tx(func(tx *parley.Tx) error {
				err := tx.Conversation(h).EndWithError(e.Ctx, c.code, c.text)
				dlgNames(e, fmt.Sprintf("end with error %d %.20q", c.code, c.text), err, parley.ErrInvalidErrorCode, h.String())
				return nil
			})
			dlgState(w, h, parley.Conversing)
		}
	}
	dlgBodies(w, w.SQ, nil, "1")
	dlgQuiet(w, w.SQ, w.CQ)
	long := strings.Repeat("ж", 3000) // as long as it may be
	dlgEndError(w, server, 1<<31-1, long)
	if m := dlgError(w, w.CQ, 1<<31-1); m.Err().Text != long {
		e.Errorf("a text of 3000 characters came as one of %d", len([]rune(m.Err().Text)))
	}
}

func checkUnreadRemoved(e *Env) {
	w := e.World()
	// Two conversations in one group: only the one that ends loses anything.
	one := w.Dialog("1")
	server := dlgPeer(w, one)
	two := w.DialogWith(&parley.DialogOptions{RelatedConversation: one}, "2")
	other := dlgPeer(w, two)
	for _, body := range []string{"a", "b"} {
		w.Send(server, w.Tell, "one "+body)
		w.Send(other, w.Tell, "two "+body)
	}
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(server).SetTimer(e.Ctx, time.Hour) })
	dlgEnd(w, one)
	dlgDepthNow(w, w.CQ, 2) // the other's two
	dlgBodies(w, w.CQ, nil, "two a", "two b")
	dlgQuiet(w, w.CQ)
	dlgDepth(w, w.CQ, 0)

	// So do those with an error, and a cleanup.
	for _, how := range []string{"plain", "error", "cleanup"} {
		w.Drain(w.SQ)
		h := w.Dialog("1", "2", "3")
		server := dlgPeer(w, h)
		switch how {
		case "plain":
			dlgEnd(w, server)
		case "error":
			dlgEndError(w, server, 9, "nine")
		case "cleanup":
			dlgCleanup(w, server)
		}
		dlgDepthNow(w, w.SQ, 0)
		dlgQuiet(w, w.SQ)
		if how != "cleanup" {
			dlgTake(w, w.CQ, 1, nil)
		}
		dlgEnd(w, h)
		dlgGone(w, h)
		dlgQuiet(w, w.SQ, w.CQ)
	}
}

func checkUnreadBehindDelivery(e *Env) {
	w := e.World()
	for _, hold := range e.Holds() {
		h := w.Dialog("1", "2", "3")
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 2})
		dlgSame(e, "delivered", Bodies(d.Messages), []string{"1", "2"})
		e.Must(d.Messages[0].End(e.Ctx))
		e.Must(d.Ack(e.Ctx))
		dlgQuiet(w, w.SQ)
		dlgEndDialog(w, w.CQ)
		dlgEnd(w, h)
		dlgGone(w, h)
	}
}

func checkEndWhileWithheld(e *Env) {
	w := e.World()
	for _, how := range []string{"plain", "error"} {
		h := w.Dialog("0")
		server := dlgPeer(w, h)
		e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
		w.Send(h, w.Ask, "1")
		w.Send(h, w.Ask, "2")
		if how == "plain" {
			dlgEnd(w, h)
		} else {
			dlgEndError(w, h, 55, "given up")
		}
		e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
		if how == "plain" {
			ms := dlgBodies(w, w.SQ, nil, "0", "1", "2", "")
			if ms[3].Type != parley.EndDialog {
				e.Errorf("last came %s, want EndDialog", ms[3].Type)
			}
			dlgState(w, server, parley.DisconnectedInbound)
		} else {
			// What had arrived before stays; the Error goes before it once it is
			// there.
			var got []string
			for _, m := range dlgTake(w, w.SQ, 2, nil) {
				if m.Type == parley.ErrorType {
					got = append(got, fmt.Sprint(m.Err().Code))
				} else {
					got = append(got, string(m.Body))
				}
			}
			if strings.Join(got, " ") != "55 0" && strings.Join(got, " ") != "0 55" {
				e.Errorf("received %q, want message 0 and the Error 55", got)
			}
			dlgState(w, server, parley.Errored)
		}
		dlgQuiet(w, w.SQ, w.CQ)
		if held := dlgWithheld(w, h); held != nil {
			e.Errorf("%s end: still withheld: %+v", how, held)
		}
		dlgEnd(w, server)
		dlgGone(w, h, server)
	}
}

func checkEndBeforeTarget(e *Env) {
	w := e.World()
	for _, how := range []string{"plain", "error"} {
		late := e.Name("late-" + how)
		var h parley.ID
		w.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, w.Client, late, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			h = c.Handle()
			if err := c.Send(e.Ctx, w.Ask, []byte("1")); err != nil {
				return err
			}
			return c.Send(e.Ctx, w.Ask, []byte("2"))
		})
		peer := dlgPeer(w, h)
		if how == "plain" {
			dlgEnd(w, h)
		} else {
			dlgEndError(w, h, 55, "given up")
		}
		e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: late, Queue: w.SQ, Contracts: []string{w.Contract}}}}))
		if how == "plain" {
			ms := dlgBodies(w, w.SQ, nil, "1", "2", "")
			if ms[2].Type != parley.EndDialog {
				e.Errorf("last came %s, want EndDialog", ms[2].Type)
			}
			dlgEnd(w, peer)
		} else {
			dlgQuiet(w, w.SQ) // there is nobody who could hear of the error
		}
		if held := dlgWithheld(w, h); held != nil {
			e.Errorf("%s end: still withheld: %+v", how, held)
		}
		dlgGone(w, h, peer)
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkPeerHearsNothing(e *Env) {
	w := e.World()
	for _, first := range []string{"plain", "error"} {
		for _, second := range []string{"plain", "error", "cleanup"} {
			for _, initiator := range []bool{true, false} {
				client := w.Dialog("1")
				server := dlgPeer(w, client)
				dlgBodies(w, w.SQ, nil, "1")
				a, b, queue := server, client, w.CQ
				if initiator {
					a, b, queue = client, server, w.SQ
				}
				if first == "plain" {
					dlgEnd(w, a)
					dlgEndDialog(w, queue)
				} else {
					dlgEndError(w, a, 1, "one")
					dlgError(w, queue, 1)
				}
				switch second {
				case "plain":
					dlgEnd(w, b)
				case "error":
					dlgEndError(w, b, 2, "two")
				case "cleanup":
					dlgCleanup(w, b)
				}
				dlgDepthNow(w, w.CQ, 0)
				dlgDepthNow(w, w.SQ, 0)
				w.Nothing(w.CQ, nil)
				w.Nothing(w.SQ, nil)
				dlgGone(w, client, server)
			}
		}
	}
	dlgQuiet(w, w.CQ, w.SQ)
}

func checkLateWithheld(e *Env) {
	w := e.World()
	client := w.Dialog("0")
	server := dlgBodies(w, w.SQ, nil, "0")[0].Conversation
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	w.Send(client, w.Ask, "late")
	dlgEnd(w, server)
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	dlgEndDialog(w, w.CQ)
	dlgQuiet(w, w.SQ, w.CQ)
	if !e.Soon(5*time.Second, func() bool {
		w.Nothing(w.SQ, nil)
		return dlgWithheld(w, client) == nil
	}) {
		e.Errorf("still withheld for a side that has ended: %+v", dlgWithheld(w, client))
	}
	dlgState(w, server, parley.DisconnectedOutbound)
	dlgState(w, client, parley.DisconnectedInbound)
	dlgEnd(w, client)
	dlgGone(w, client, server)
	dlgQuiet(w, w.SQ, w.CQ)
	dlgDepth(w, w.SQ, 0)
}

func checkLateInFlight(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has one writer: nothing is in flight while another ends")
	}
	w := e.World()
	other := e.Broker(nil)
	for _, how := range []string{"outside", "in a delivery"} {
		for _, hold := range e.Holds() {
			client := w.Dialog("0")
			server := dlgPeer(w, client)
			var d *parley.Delivery
			if how == "in a delivery" {
				d = w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			} else {
				dlgBodies(w, w.SQ, &parley.ReceiveOptions{Hold: hold}, "0")
			}
			err := other.InTx(e.Ctx, func(tx *parley.Tx) error {
				if err := tx.Conversation(client).Send(e.Ctx, w.Ask, []byte("in flight")); err != nil {
					return err
				}
				// The receiver's end waits for senders on its own side only.
				return dlgGo(e, "end while the peer sends", func() error {
					if d == nil {
						return w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(server).End(e.Ctx) })
					}
					if err := d.Messages[0].End(e.Ctx); err != nil {
						return err
					}
					return d.Ack(e.Ctx)
				})()
			})
			e.Must(err)
			dlgQuiet(w, w.SQ)
			dlgState(w, server, parley.DisconnectedOutbound)
			dlgState(w, client, parley.DisconnectedInbound)
			dlgEndDialog(w, w.CQ)
			dlgEnd(w, client)
			dlgGone(w, client, server)
			dlgQuiet(w, w.SQ, w.CQ)
			dlgDepth(w, w.SQ, 0)
		}
	}
}

func checkCleanup(e *Env) {
	w := e.World()
	for _, initiator := range []bool{true, false} {
		client := w.Dialog("0")
		server := dlgPeer(w, client)
		w.Send(server, w.Tell, "0")
		cleaned, left, cleanedQueue, queue := client, server, w.CQ, w.SQ
		if !initiator {
			cleaned, left, cleanedQueue, queue = server, client, w.SQ, w.CQ
		}
		dlgCleanup(w, cleaned)
		dlgState(w, cleaned, "")
		dlgState(w, left, parley.Conversing)
		dlgQuiet(w, cleanedQueue)
		dlgDepth(w, cleanedQueue, 0)
		dlgBodies(w, queue, nil, "0") // sent before; the cleanup itself brings nothing
		dlgQuiet(w, queue)

		w.Send(left, w.Any, "to nobody")
		ep := dlgStatus(w, left)
		if ep.State != parley.Errored || ep.Error == nil || ep.Error.Code != parley.CodeRemoteClosed {
			e.Errorf("the other side is %s with %+v after it sent, want %s with %d", ep.State, ep.Error, parley.Errored, parley.CodeRemoteClosed)
		}
		if m := dlgError(w, queue, parley.CodeRemoteClosed); m.Conversation != left {
			e.Errorf("the Error came to %s, want %s", m.Conversation, left)
		}
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(left).Send(e.Ctx, w.Any, nil) })
		dlgNames(e, "send again", err, parley.ErrConversationError, left.String())
		dlgState(w, cleaned, "")
		dlgQuiet(w, cleanedQueue, queue)
		dlgEnd(w, left)
		dlgGone(w, left, cleaned)
	}

	// The other side may also end without ever having heard of it.
	for _, how := range []string{"plain", "error"} {
		client := w.Dialog("0")
		server := dlgBodies(w, w.SQ, nil, "0")[0].Conversation
		dlgCleanup(w, client)
		if how == "plain" {
			dlgEnd(w, server)
		} else {
			dlgEndError(w, server, 3, "three")
		}
		dlgGone(w, client, server)
	}
	dlgQuiet(w, w.CQ, w.SQ)

	h := w.Dialog() // nothing sent
	dlgCleanup(w, h)
	dlgGone(w, h)
}

func checkCleanupWithheld(e *Env) {
	w := e.World()
	client := w.Dialog("0")
	server := dlgPeer(w, client)
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	w.Send(client, w.Ask, "withheld")
	dlgCleanup(w, client)
	if held := dlgWithheld(w, client); held != nil {
		e.Errorf("still withheld: %+v", held)
	}
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	dlgBodies(w, w.SQ, nil, "0")
	dlgQuiet(w, w.SQ)
	dlgState(w, server, parley.Conversing)
	dlgEnd(w, server)
	dlgGone(w, client, server)
}

func checkLossRecorded(e *Env) {
	w := e.World()
	late := e.Name("late")
	var h, id parley.ID
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, late, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		h = c.Handle()
		if id, err = c.ID(e.Ctx); err != nil {
			return err
		}
		if err := c.Send(e.Ctx, w.Ask, []byte("lost 0")); err != nil {
			return err
		}
		if err := c.Send(e.Ctx, w.Any, []byte("lost 1")); err != nil {
			return err
		}
		return c.End(e.Ctx) // fire and forget
	})
	// The service comes, and does not take the contract: the target refuses.
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: late, Queue: w.SQ}}}))

	var dead []parley.DeadStatus
	find := func() bool {
		dead = nil
		list, err := w.B.Admin().DeadLetters(e.Ctx, "", backend.CountLimit)
		e.Must(err)
		for _, d := range list {
			if d.Message.Conversation == id && d.Message.Kind == backend.KindUser {
				dead = append(dead, d)
			}
		}
		return len(dead) >= 2
	}
	if !e.Soon(5*time.Second, func() bool {
		w.Nothing(w.SQ, nil)
		w.Nothing(w.CQ, nil)
		return find()
	}) {
		e.Fatalf("dead letters: %+v, want the two messages of conversation %s", dead, id)
	}
	for i, d := range dead { // newest first
		n := int64(1 - i)
		if string(d.Message.Body) != fmt.Sprintf("lost %d", n) || d.Message.Seq != n || !strings.Contains(d.Reason, w.Contract) || !strings.Contains(d.Reason, late) {
			e.Errorf("dead letter %d is message %d %q with the reason %q, want message %d and a reason that names service and contract", i, d.Message.Seq, d.Message.Body, d.Reason, n)
		}
		if want := [...]string{w.Ask, w.Any}[n]; d.Message.Type != want {
			e.Errorf("dead letter %d is of type %q, want %q", i, d.Message.Type, want)
		}
	}
	if held := dlgWithheld(w, h); held != nil {
		e.Errorf("still withheld: %+v", held)
	}
	dlgGone(w, h)
	dlgQuiet(w, w.SQ, w.CQ)
	if find(); len(dead) != 2 {
		e.Errorf("%d dead letters, want 2", len(dead))
	}
}

func checkRemovedAtOnce(e *Env) {
	w := e.World()
	for _, initiator := range []bool{true, false} {
		for _, read := range []bool{true, false} { // whether EndDialog was received before
			client := w.Dialog("0")
			server := dlgPeer(w, client)
			first, second := client, server
			if !initiator {
				first, second = server, client
			}
			dlgEnd(w, first)
			if read {
				w.Drain(w.CQ)
				w.Drain(w.SQ)
			}
			dlgEnd(w, second)
			dlgGone(w, client, server)
			for _, h := range []parley.ID{client, server} {
				err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return tx.Conversation(h).Send(e.Ctx, w.Any, nil) })
				dlgNames(e, "send afterwards", err, parley.ErrNoConversation, h.String())
			}
		}
	}
	dlgQuiet(w, w.CQ, w.SQ)

	// Nothing was sent, so there is nobody else who would have to end.
	h := w.Dialog()
	dlgEnd(w, h)
	dlgGone(w, h)
	h = w.Dialog()
	dlgEndError(w, h, 1, "one")
	dlgGone(w, h)

	// Both in one transaction.
	h = w.Dialog("0")
	server := dlgPeer(w, h)
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Conversation(h).End(e.Ctx); err != nil {
			return err
		}
		return tx.Conversation(server).End(e.Ctx)
	})
	dlgGone(w, h, server)
	dlgQuiet(w, w.CQ, w.SQ)
}

func checkRemovedLater(e *Env) {
	const keep = 700 * time.Millisecond
	w := e.WorldOn(e.Broker(&parley.Options{KeepClosed: keep}))
	var all []parley.ID
	start := time.Now()
	for _, initiator := range []bool{true, false} {
		client := w.Dialog("0")
		server := dlgPeer(w, client)
		if initiator {
			dlgEnd(w, client, server)
		} else {
			dlgEnd(w, server, client)
		}
		all = append(all, client, server)
	}
	be := e.Handle()
	_, _, err := be.Tend(e.Ctx, backend.DutyClosed, 100) // which is too early
	e.Must(err)
	for _, h := range all {
		list, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
		e.Must(err)
		ep := dlgStatus(w, h)
		if time.Since(start) > keep {
			e.Logf("this machine is too slow to see closed conversations before they are removed")
			break
		}
		if len(list) != 2 || list[0].State != parley.Closed || list[1].State != parley.Closed || ep == nil || ep.State != parley.Closed {
			e.Fatalf("the conversation that both sides have ended is listed as %+v, and side %s as %+v; want both sides %s", list, h, ep, parley.Closed)
		}
		for name, verb := range map[string]func(c *parley.Conversation) error{
			"send": func(c *parley.Conversation) error { return c.Send(e.Ctx, w.Any, nil) },
			"end":  func(c *parley.Conversation) error { return c.End(e.Ctx) },
		} {
			err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return verb(tx.Conversation(h)) })
			if !errors.Is(err, parley.ErrEnded) && time.Since(start) < keep {
				e.Errorf("%s on a closed side: the error is %v, want one that is %q", name, err, parley.ErrEnded)
			}
		}
	}
	dlgGone(w, all...)
	if early := time.Since(start); early < keep {
		e.Errorf("the conversations were removed after %v, want them kept for %v", early, keep)
	}
	dlgQuiet(w, w.CQ, w.SQ)
}
