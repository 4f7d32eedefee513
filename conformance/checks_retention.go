package conformance

import (
	"errors"
	"fmt"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "R01", Name: "copies of both kinds", Run: checkRetained},
		Check{ID: "R01", Name: "copies by every way of receiving", Run: checkRetainedEveryReceive},
		Check{ID: "R01", Name: "copies of what is withheld", Run: checkRetainedWithheld},
		Check{ID: "R01", Name: "no copies of what was rolled back", Run: checkRetainedRolledBack},
		Check{ID: "R02", Name: "an end removes its side's copies", Run: checkRetainedUntilEnd},
		Check{ID: "R03", Name: "no copies without retention", Run: checkNotRetained},
		Check{ID: "R03", Name: "retention of one side", Run: checkRetainedOneSide},
	)
}

func retWorld(e *Env) *World {
	return e.World(func(c *parley.Catalog) {
		c.Queues[0].Retention = true
		c.Queues[1].Retention = true
	})
}

// retCopies returns the copies that a side keeps of messages of users, as
// "sent 0 body" or "received 0 body": the sent ones first, each kind in its
// order.
func retCopies(w *World, h parley.ID) []string {
	list, err := w.B.Admin().Retained(w.Ctx, h)
	if err != nil && !errors.Is(err, parley.ErrNoConversation) {
		dlgFatal(w.Env, "retained of %s: %v", h, err)
	}
	var sent, received []string
	for _, r := range list {
		m := r.Message
		switch {
		case m.Kind != backend.KindUser:
		case r.Sent:
			sent = append(sent, fmt.Sprintf("sent %d %s", m.Seq, m.Body))
		default:
			received = append(received, fmt.Sprintf("received %d %s", m.Seq, m.Body))
		}
	}
	return append(sent, received...)
}

func checkRetained(e *Env) {
	w := retWorld(e)
	for _, hold := range e.Holds() {
		client := w.Dialog("q0", "q1")
		server := dlgPeer(w, client)
		dlgSame(e, "the sender's copies before the receipt", retCopies(w, client), []string{"sent 0 q0", "sent 1 q1"})
		dlgSame(e, "the receiver's copies before the receipt", retCopies(w, server), nil)

		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		sent := d.Messages
		e.Must(d.Messages[0].Reply(e.Ctx, w.Tell, []byte("a0")))
		e.Must(d.Ack(e.Ctx))
		dlgBodies(w, w.CQ, &parley.ReceiveOptions{Hold: hold}, "a0")
		dlgSame(e, "the initiator's copies", retCopies(w, client), []string{"sent 0 q0", "sent 1 q1", "received 0 a0"})
		dlgSame(e, "the target's copies", retCopies(w, server), []string{"sent 0 a0", "received 0 q0", "received 1 q1"})

		list, err := w.B.Admin().Retained(e.Ctx, server)
		e.Must(err)
		for _, r := range list {
			if r.Sent {
				continue
			}
			m := sent[r.Message.Seq]
			if r.Message.ID != m.ID || r.Message.Type != w.Ask || r.Message.Conversation != m.ConversationID {
				e.Errorf("the copy of message %s of %s is %s, of type %q of %s", m.ID, m.ConversationID, r.Message.ID, r.Message.Type, r.Message.Conversation)
			}
		}
		// No way of asking brings them back.
		for queue, side := range map[string]parley.ID{w.CQ: client, w.SQ: server} {
			dlgQuiet(w, queue)
			w.Nothing(queue, &parley.ReceiveOptions{Conversation: side})
			w.Nothing(queue, &parley.ReceiveOptions{Group: dlgStatus(w, side).Group})
			dlgDepth(w, queue, 0)
		}
		// Nor does what comes later.
		w.Send(client, w.Ask, "q2")
		dlgBodies(w, w.SQ, nil, "q2")
	}
}

func checkRetainedEveryReceive(e *Env) {
	w := retWorld(e)
	client := w.Dialog("0")
	server := dlgPeer(w, client)

	d := w.Receive(w.SQ, &parley.ReceiveOptions{Release: parley.BeforeWork})
	dlgSame(e, "delivered before work", Bodies(d.Messages), []string{"0"})
	dlgSame(e, "copies", retCopies(w, server), []string{"received 0 0"})

	w.Send(client, w.Ask, "1")
	w.Tx(func(tx *parley.Tx) error {
		_, err := tx.Receive(e.Ctx, w.SQ, nil)
		return err
	})
	dlgSame(e, "copies", retCopies(w, server), []string{"received 0 0", "received 1 1"})

	for _, body := range []string{"2", "3"} {
		w.Send(client, w.Ask, body)
	}
	d = w.Receive(w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
	_, err := d.More(e.Ctx, 1)
	e.Must(err)
	e.Must(d.Ack(e.Ctx))
	dlgSame(e, "copies", retCopies(w, server), []string{"received 0 0", "received 1 1", "received 2 2", "received 3 3"})
	dlgQuiet(w, w.SQ)
}

func checkRetainedWithheld(e *Env) {
	w := retWorld(e)
	client := w.Dialog("0")
	server := dlgPeer(w, client)
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	w.Send(client, w.Ask, "1")
	want := []string{"sent 0 0", "sent 1 1"}
	dlgSame(e, "the sender's copies while it is withheld", retCopies(w, client), want)
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	dlgBodies(w, w.SQ, nil, "0", "1")
	dlgSame(e, "the sender's copies after the delivery", retCopies(w, client), want)
	dlgSame(e, "the receiver's copies", retCopies(w, server), []string{"received 0 0", "received 1 1"})
}

func checkRetainedRolledBack(e *Env) {
	w := retWorld(e)
	client := w.Dialog("0")
	server := dlgPeer(w, client)
	stop := errors.New("stop")
	e.Is(w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(client).Send(e.Ctx, w.Ask, []byte("never")); err != nil {
			return err
		}
		if _, err := tx.Receive(e.Ctx, w.SQ, nil); err != nil {
			return err
		}
		return stop
	}), stop)
	for _, hold := range e.Holds() {
		e.Must(w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold}).Rollback(e.Ctx))
	}
	dlgSame(e, "the sender's copies", retCopies(w, client), []string{"sent 0 0"})
	dlgSame(e, "the receiver's copies", retCopies(w, server), nil)
	dlgBodies(w, w.SQ, nil, "0")
	dlgSame(e, "the receiver's copies", retCopies(w, server), []string{"received 0 0"})
}

func checkRetainedUntilEnd(e *Env) {
	w := retWorld(e)
	for _, how := range []string{"plain", "error", "cleanup"} {
		for _, initiator := range []bool{true, false} {
			client := w.Dialog("q")
			server := dlgPeer(w, client)
			w.Send(server, w.Tell, "a")
			dlgBodies(w, w.SQ, nil, "q")
			dlgBodies(w, w.CQ, nil, "a")
			bystander := w.Dialog("b")
			dlgBodies(w, w.SQ, nil, "b")

			first, second := client, server
			want := []string{"sent 0 a", "received 0 q"}
			if !initiator {
				first, second = server, client
				want = []string{"sent 0 q", "received 0 a"}
			}
			switch how {
			case "plain":
				dlgEnd(w, first)
			case "error":
				dlgEndError(w, first, 1, "one")
			case "cleanup":
				dlgCleanup(w, first)
			}
			dlgSame(e, how+": copies of the side that ended", retCopies(w, first), nil)
			dlgSame(e, how+": copies of the other side", retCopies(w, second), want)
			if how != "cleanup" {
				w.Drain(w.CQ)
				w.Drain(w.SQ)
				dlgSame(e, how+": copies of the other side, which has heard of the end", retCopies(w, second), want)
			}
			dlgEnd(w, second)
			dlgSame(e, how+": copies of the other side after its end", retCopies(w, second), nil)
			dlgSame(e, how+": copies of another conversation", retCopies(w, bystander), []string{"sent 0 b"})
			dlgGone(w, client, server)
		}
	}
}

func checkNotRetained(e *Env) {
	w := e.World()
	client := w.Dialog("q")
	server := dlgPeer(w, client)
	for _, hold := range e.Holds() {
		w.Send(server, w.Tell, "a")
		d := w.Receive(w.CQ, &parley.ReceiveOptions{Hold: hold})
		e.Must(d.Messages[0].Reply(e.Ctx, w.Ask, []byte("q")))
		e.Must(d.Ack(e.Ctx))
		dlgDepth(w, w.CQ, 0)
	}
	n := len(w.Drain(w.SQ))
	if want := 1 + len(e.Holds()); n != want {
		e.Errorf("received %d messages, want %d", n, want)
	}
	for _, h := range []parley.ID{client, server} {
		dlgSame(e, "copies without retention", retCopies(w, h), nil)
	}
	dlgDepth(w, w.SQ, 0)
	dlgQuiet(w, w.SQ, w.CQ)
	list, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Handle: client})
	e.Must(err)
	for _, c := range list {
		if c.Waiting != 0 {
			e.Errorf("%d messages wait for side %s", c.Waiting, c.Handle)
		}
	}
}

func checkRetainedOneSide(e *Env) {
	w := e.World(func(c *parley.Catalog) { c.Queues[1].Retention = true })
	client := w.Dialog("q")
	server := dlgPeer(w, client)
	w.Send(server, w.Tell, "a")
	dlgBodies(w, w.SQ, nil, "q")
	dlgBodies(w, w.CQ, nil, "a")
	dlgSame(e, "copies of the side without retention", retCopies(w, client), nil)
	dlgSame(e, "copies of the side with retention", retCopies(w, server), []string{"sent 0 a", "received 0 q"})

	// Switched off by another process, it keeps nothing more; what it has stays.
	define := func(on bool) {
		e.Must(e.Broker(nil).Redefine(e.Ctx, parley.Catalog{Queues: []parley.Queue{{Name: w.SQ, Retention: on}}}))
	}
	define(false)
	w.Send(server, w.Tell, "a1")
	w.Send(client, w.Ask, "q1")
	dlgBodies(w, w.SQ, nil, "q1")
	dlgSame(e, "copies after retention was switched off", retCopies(w, server), []string{"sent 0 a", "received 0 q"})
	define(true)
	w.Send(server, w.Tell, "a2")
	w.Send(client, w.Ask, "q2")
	dlgBodies(w, w.SQ, nil, "q2")
	dlgSame(e, "copies after retention was switched on again", retCopies(w, server), []string{"sent 0 a", "sent 2 a2", "received 0 q", "received 2 q2"})
}
