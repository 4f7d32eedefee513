package conformance

import (
	"errors"
	"strings"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "D07", Name: "malformed bodies", Run: checkMalformed},
		Check{ID: "D07", Name: "a malformed answer", Run: checkMalformedAnswer},
		Check{ID: "D07", Name: "a malformed body rolled back", Run: checkMalformedRolledBack},
		Check{ID: "D07", Name: "a type that has changed", Run: checkTypeChanged},
		Check{ID: "D08", Name: "a body where none is allowed", Run: checkBodyNotEmpty},
		Check{ID: "D08", Name: "an empty body on every type", Run: checkEmptyBodies},
	)
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
