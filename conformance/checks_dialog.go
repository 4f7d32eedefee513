package conformance

import (
	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "D01", Name: "one message arrives once", Run: checkOneMessage},
		Check{ID: "D02", Name: "begin without send", Run: checkBeginOnly},
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
		return nil
	})
}

func checkBeginOnly(e *Env) {
	w := e.World()
	h := w.Dialog()
	w.Nothing(w.SQ, nil)
	w.Tx(func(tx *parley.Tx) error {
		a, err := tx.Conversation(h).Status(e.Ctx)
		if err != nil {
			return err
		}
		if a.State != parley.StartedOutbound {
			e.Errorf("the state is %s", a.State)
		}
		_, err = tx.Conversation(a.Peer).Status(e.Ctx)
		e.Is(err, parley.ErrNoConversation)
		return nil
	})
}
