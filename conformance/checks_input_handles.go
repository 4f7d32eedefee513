package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "B01", Name: "unknown handles", Run: checkUnknownHandles},
		check{ID: "B01", Name: "ended, errored and foreign handles", Run: checkUnfitHandles},
		scripted("B01", "receiving by a foreign or ended handle", `
			each make, queue, err, then: pause 0s, SQ, ErrGroupElsewhere, take SQ of p -> "first" | // not its queue
				end h, CQ, ErrEnded, pause 0s | end p; end h; gone h p, CQ, ErrNoConversation, pause 0s
				begin h "first"
				let p h.peer
				$make
				each hold: every hold
					each wait: now | wait 5s
						clock c
						receive $queue of h $hold $wait -> $err naming h
						within c 4s
				transaction t
				t: receive $queue of h -> $err naming h
				t: group g at $queue of h -> $err naming h
				commit t
				$then
				drain SQ
		`),
		scripted("B01", "groups that are not there", `
			begin d "0"
			group nowhere
			each g: nowhere | d.group // an unknown group, or a group of another queue, has no messages
				each hold: every hold
					receive SQ group $g $hold -> ErrNoMessage
					receive SQ group $g $hold wait 30ms -> ErrNoMessage
				transaction t
				t: receive SQ group $g -> ErrNoMessage
				t: group taken at SQ group $g -> ErrNoMessage
				commit t
			unpark nowhere -> ErrUnknownGroup naming nowhere
			promote nowhere -> ErrUnknownGroup naming nowhere
			demote nowhere
			transaction t
			t: move d to NoGroup -> ErrUnknownGroup naming d
			commit t
			take SQ -> "0"
		`),
	)
}

func checkUnknownHandles(e *env) {
	w := e.World()
	good := w.Dialog("0")
	unknown := parley.NewID()
	sending, others := dlgVerbs(w)
	w.Tx(func(tx *parley.Tx) error {
		for _, v := range append(sending, others...) {
			dlgNames(e, v.name, v.do(e.Ctx, tx, unknown), parley.ErrNoConversation, unknown.String())
		}
		c := tx.Conversation(unknown)
		_, err := c.Status(e.Ctx)
		dlgNames(e, "Status", err, parley.ErrNoConversation, unknown.String())
		_, err = c.ID(e.Ctx)
		dlgNames(e, "ID", err, parley.ErrNoConversation, unknown.String())
		_, err = c.Group(e.Ctx)
		dlgNames(e, "Group", err, parley.ErrNoConversation, unknown.String())
		// The second of several is named, too.
		err = tx.SendTo(e.Ctx, []*parley.Conversation{tx.Conversation(good), c}, w.Any, nil)
		dlgNames(e, "SendTo", err, parley.ErrNoConversation, unknown.String())
		return tx.Conversation(good).Send(e.Ctx, w.Ask, []byte("1")) // the transaction is still usable
	})
	for _, hold := range e.Holds() {
		_, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Conversation: unknown, Hold: hold, Wait: 5 * time.Second})
		dlgNames(e, "Receive", err, parley.ErrNoConversation, unknown.String())
	}
	dlgBodies(w, w.SQ, nil, "0", "1")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkUnfitHandles(e *env) {
	w := e.World(func(c *parley.Catalog) { c.Services[1].FarPromotion = 255 })
	sending, others := dlgVerbs(w)
	for _, c := range []struct {
		state           string
		sending, others error // nil: the verbs work
		after           parley.State
	}{
		{"ended", parley.ErrEnded, parley.ErrEnded, parley.DisconnectedOutbound},
		{"peer ended", parley.ErrFarEnded, nil, parley.DisconnectedInbound},
		{"errored", parley.ErrConversationError, nil, parley.Errored},
		{"both ended", parley.ErrNoConversation, parley.ErrNoConversation, ""},
	} {
		h, server := dlgInState(w, c.state)
		good := w.Dialog("good")
		var before string
		if c.after != "" {
			before = fmt.Sprintf("%+v", *dlgStatus(w, h))
		}
		w.Tx(func(tx *parley.Tx) error {
			for _, v := range sending {
				err := v.do(e.Ctx, tx, h)
				dlgNames(e, v.name+" on a conversation that is "+c.state, err, c.sending, h.String())
				var told *parley.DialogError
				if c.state == "errored" && (!errors.As(err, &told) || told.Code != 77) {
					e.Errorf("%s on a conversation in error: the error %v does not carry the code 77", v.name, err)
				}
			}
			for _, v := range others {
				if c.others != nil {
					dlgNames(e, v.name+" on a conversation that is "+c.state, v.do(e.Ctx, tx, h), c.others, h.String())
				}
			}
			return tx.Conversation(good).Send(e.Ctx, w.Ask, []byte("good 2"))
		})
		dlgState(w, h, c.after)
		if c.after != "" {
			if after := fmt.Sprintf("%+v", *dlgStatus(w, h)); after != before {
				e.Errorf("%s: the refused verbs changed the side from %s to %s", c.state, before, after)
			}
		}
		switch c.state {
		case "peer ended", "errored": // what does not send works until the end
			want := parley.EndDialog
			if c.state == "errored" {
				want = parley.ErrorMessageType
			}
			w.Tx(func(tx *parley.Tx) error {
				if err := tx.Conversation(h).SetTimer(e.Ctx, time.Hour); err != nil {
					return err
				}
				ms, err := tx.Receive(e.Ctx, w.CQ, &parley.ReceiveOptions{Conversation: h})
				if err != nil {
					return err
				}
				if len(ms) != 1 || ms[0].Type != want {
					e.Errorf("%s: received %s, want %s", c.state, describe(ms), want)
				}
				return tx.Conversation(h).End(e.Ctx)
			})
			dlgGone(w, h, server)
		case "ended":
			dlgEnd(w, server)
			dlgGone(w, h, server)
		}
		dlgQuiet(w, w.CQ)
		var got []string
		for _, m := range w.Drain(w.SQ) {
			if m.Conversation == dlgPeer(w, good) {
				got = append(got, string(m.Body))
			}
		}
		dlgSame(e, c.state+": the conversation beside it", got, []string{"good", "good 2"})
	}

	// The peer's handle is no way to send from its side.
	h := w.Dialog("0")
	server := dlgPeer(w, h)
	w.Tx(func(tx *parley.Tx) error {
		dlgNames(e, "send as the peer", tx.Conversation(h).Send(e.Ctx, w.Tell, nil), parley.ErrTypeNotAllowed, h.String())
		dlgNames(e, "send as the peer", tx.Conversation(server).Send(e.Ctx, w.Ask, nil), parley.ErrTypeNotAllowed, server.String())
		group := dlgVerb{do: func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			ep, err := tx.Conversation(server).Status(ctx)
			if err != nil {
				return err
			}
			return tx.Conversation(h).Move(ctx, ep.Group)
		}}
		dlgNames(e, "move to the peer's group", group.do(e.Ctx, tx, h), parley.ErrGroupElsewhere, h.String())
		_, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: server})
		dlgNames(e, "begin related to the peer's side", err, parley.ErrGroupElsewhere, server.String())
		return nil
	})
	dlgBodies(w, w.SQ, nil, "0")
	dlgQuiet(w, w.SQ, w.CQ)
}
