package conformance

import (
	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "B04", Name: "bodies that are too large", Run: checkTooLarge},
		Check{ID: "B04", Name: "posts with invalid bodies", Run: checkInvalidPosts},
		Check{ID: "B04", Name: "no validator", Run: checkNoValidator},
	)
}

func checkTooLarge(e *Env) {
	w := e.WorldOn(e.Broker(&parley.Options{MaxBody: 10}))
	h := w.Dialog("0")
	other := w.Dialog("a")
	eleven := make([]byte, 11)
	w.Tx(func(tx *parley.Tx) error {
		c := tx.Conversation(h)
		small, large := parley.Payload{Type: w.Ask, Body: []byte("small")}, parley.Payload{Type: w.Ask, Body: eleven}
		e.Is(c.Send(e.Ctx, w.Ask, eleven), parley.ErrTooLarge)
		e.Is(tx.SendBatch(e.Ctx, []parley.Sending{{To: tx.Conversation(other), Payload: small}, {To: c, Payload: large}}), parley.ErrTooLarge)
		_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: eleven})
		e.Is(err, parley.ErrTooLarge)
		_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{Payload: parley.Payload{Body: []byte("small")}}, {Payload: parley.Payload{Body: eleven}}})
		e.Is(err, parley.ErrTooLarge)
		return c.Send(e.Ctx, w.Ask, make([]byte, 10)) // as large as it may be
	})
	for _, d := range []parley.ID{h, other} {
		dlgState(w, d, parley.Conversing)
	}
	got := map[parley.ID]int{}
	for _, m := range dlgTake(w, w.SQ, 3, nil) {
		got[m.Conversation]++
	}
	if got[dlgPeer(w, h)] != 2 || got[dlgPeer(w, other)] != 1 {
		e.Errorf("received %v messages, want two and one", got)
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkInvalidPosts(e *Env) {
	w, xml, json, fn, empty := dlgChecked(e)
	for typ, body := range map[string]string{xml: "<a>", json: "{", fn: "7", empty: "x"} {
		w.Tx(func(tx *parley.Tx) error {
			_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Type: typ, Body: []byte(body)}, parley.Unique(typ), parley.Key("k"))
			dlgNames(e, "post", err, parley.ErrInvalidBody, typ)
			_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{
				{Payload: parley.Payload{Type: w.Any, Body: []byte("never")}},
				{Payload: parley.Payload{Type: typ, Body: []byte(body)}},
			})
			dlgNames(e, "post a batch", err, parley.ErrInvalidBody, typ)
			return nil
		})
	}
	dlgQuiet(w, w.SQ)
	dlgDepth(w, w.SQ, 0)
	_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: xml, Body: []byte("<a/>")}, parley.Unique(xml))
	e.Must(err)
	dlgBodies(w, w.SQ, nil, "<a/>") // the refused one did not use up the unique value
}

func checkNoValidator(e *Env) {
	w, _, _, fn, _ := dlgChecked(e)
	v := *w
	v.B = e.Broker(nil) // this process has no validator
	h := w.Dialog("0")
	v.Tx(func(tx *parley.Tx) error {
		c := tx.Conversation(h)
		payload := parley.Payload{Type: fn, Body: []byte("6")}
		dlgNames(e, "send", c.Send(e.Ctx, fn, []byte("6")), parley.ErrNoValidator, fn)
		dlgNames(e, "send without a body", c.Send(e.Ctx, fn, nil), parley.ErrNoValidator, fn)
		err := tx.SendBatch(e.Ctx, []parley.Sending{{To: c, Payload: parley.Payload{Type: w.Ask}}, {To: c, Payload: payload}})
		dlgNames(e, "send a batch", err, parley.ErrNoValidator, fn)
		_, err = tx.Post(e.Ctx, w.SQ, payload)
		dlgNames(e, "post", err, parley.ErrNoValidator, fn)
		return c.Send(e.Ctx, w.Ask, []byte("1"))
	})
	dlgState(w, h, parley.Conversing) // it is this process's trouble, not the conversation's
	w.Send(h, fn, "6")
	dlgBodies(w, w.SQ, nil, "0", "1", "6")
	dlgQuiet(w, w.SQ, w.CQ)
}
