package conformance

import (
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(check{ID: "D01", Name: "conversations that begin by themselves", Run: checkBeginDialog})
}

// checkBeginDialog begins conversations by Broker.BeginDialog. A store may do that without a transaction around it.
func checkBeginDialog(e *env) {
	w := e.World()
	begin := func(typ, body string) (parley.ID, error) {
		return w.B.BeginDialog(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract}, parley.Payload{Type: typ, Body: []byte(body)})
	}
	next := 0
	arrives := func(when string) {
		for range 3 { // a connection that is new to the store may take another way
			next++
			body := fmt.Sprint(next)
			h, err := begin(w.Ask, body)
			e.Must(err)
			d := w.Receive(w.SQ, nil)
			m := d.Messages[0]
			if len(d.Messages) != 1 || string(m.Body) != body || m.Seq != 0 || m.Initiator {
				e.Errorf("%s: received %s, want the one message %s", when, describe(d.Messages), body)
			}
			e.Must(m.Reply(e.Ctx, w.Tell, m.Body))
			e.Must(d.Ack(e.Ctx))
			d = w.Receive(w.CQ, nil)
			if r := d.Messages[0]; r.Conversation != h || r.ConversationID != m.ConversationID || !r.Initiator || string(r.Body) != body {
				e.Errorf("%s: the reply is %+v, want one on the conversation %s with the handle %s", when, r, m.ConversationID, h)
			}
			e.Must(d.Ack(e.Ctx))
		}
	}
	arrives("at first")

	// Another program changes the catalog, of which this one does not know.
	other := e.Broker(nil)
	e.Must(other.Define(e.Ctx, parley.Catalog{Types: []parley.MessageType{{Name: e.Name("more")}}}))
	arrives("after the catalog has changed")

	h, err := begin(w.Tell, "not the initiator's")
	e.Is(err, parley.ErrTypeNotAllowed)
	if !h.IsZero() {
		e.Errorf("a begin that was refused returned the handle %s", h)
	}
	w.Nothing(w.SQ, nil)

	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	_, err = begin(w.Ask, "withheld")
	e.Must(err)
	e.Must(other.Admin().EnableQueue(e.Ctx, w.SQ))
	if d := w.TryReceive(w.SQ, nil, 15*time.Second); d == nil || string(d.Messages[0].Body) != "withheld" {
		e.Errorf("a message to a queue that was disabled did not come when the queue was enabled")
	}
}
