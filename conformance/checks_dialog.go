package conformance

import (
	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("D01", "one message arrives once", `
			begin d "hello"
			take SQ as m -> Ask "hello"
			differ m.conversation d
			nothing SQ
			equal d.id d.peer.id m.conversationID
			equal d.initiator true
			equal d.peer.initiator m.initiator false
			equal d.peer m.conversation
			equal d.peer.peer d
			equal d.service d.peer.far Client
			equal d.far d.peer.service Server
			equal d.state d.peer.state CO
		`),
		scripted("D01", "an answer arrives once", `
			each hold: every hold
				begin d "question"
				receive SQ $hold as r
				reply r Tell "answer"
				ack r
				nothing SQ
				take CQ $hold as m -> Tell "answer" #0 on d
				equal m.initiator true
				equal m.service Client
				equal m.far Server
				equal m.contract Contract
				nothing CQ
		`),
		scripted("D01", "once by every way of receiving", `
			begin d "once"
			receive SQ released -> "once"
			nothing SQ
			each by: of d.peer | group d.peer.group
				begin d "once"
				receive SQ $by as r -> "once"
				ack r
				nothing SQ

			begin d "once"
			transaction t
			t: receive SQ -> "once"
			t: receive SQ -> ErrNoMessage
			commit t
			nothing SQ

			begin d "twice"
			transaction t
			t: receive SQ -> "twice"
			rollback t
			take SQ -> "twice" // it was not received before, as that was rolled back
			nothing SQ
		`),
		scripted("D02", "begin without send", `
			begin d
			nothing SQ
			nothing CQ
			equal d.state SO
			equal d.next 0
			equal d.peer.state none
			equal d.sides 1
			equal d.waiting d.withheld 0
		`),
		check{ID: "D03", Name: "begin and send rolled back", Run: checkBeginRolledBack},
		scripted("D03", "a rolled-back send uses up no number", `
			begin d "0"
			each n, nevers: 1, "never" | 2, "never" "never" | 3, "never" "never" "never"
				transaction t
				t: send d $nevers
				rollback t
				send d "$n"
			transaction t // a savepoint gives its numbers back, too
			t: savepoint before
			t: send d "never"
			t: rollback to before
			t: send d "4"
			commit t

			transaction t // a conversation whose first message was undone begins with number 0
			t: begin e
			t: savepoint before
			t: send e "never"
			t: rollback to before
			commit t
			equal e.state SO
			equal e.peer.state none
			send e "5"
			take SQ -> "0" #0, "1" #1, "2" #2, "3" #3, "4" #4, "5" #0
		`),
		scripted("D06", "the wrong side sends", `
			begin d "0"
			define type stray // which the contract does not have
			each from, type: d, Tell | d.peer, Ask | d, stray | d.peer, stray | d, DefaultType
				transaction t
				t: send $from $type "wrong" -> ErrTypeNotAllowed naming $type
				commit t
				equal d.state d.peer.state CO
			transaction t
			t: send d NoType "wrong" -> ErrTypeNotAllowed naming DefaultType
			commit t
			equal d.state d.peer.state CO
			transaction t // with a message that is allowed
			t: send d Tell "wrong" -> ErrTypeNotAllowed
			t: send d Any "1"
			commit t
			send d.peer Tell "0"
			send d.peer Any "1"
			each queue: SQ | CQ
				take $queue -> "0" #0, "1" #1
			quiet SQ CQ
		`),
		scripted("D09", "a related conversation", `
			begin a "a"
			begin b related a "b"
			begin c "c"
			equal a.group b.group
			differ a.group c.group
			differ a.id b.id
			differ a.peer.group b.peer.group // the group is a matter of this side only
			begin third from Server to Client related a.peer // a target may relate, too
			equal third.group a.peer.group

			send a.peer "to a" // what is in a group is received together
			send b.peer "to b"
			receive CQ as r
			equal r.bodies "to a, to b"
			ack r

			group unknown
			begin d related unknown -> ErrNoConversation naming unknown
		`),
		scripted("D09", "an unknown related group is made", `
			group g // of the caller's choice: the key of an order, say
			begin a group g "a"
			begin b group g "b"
			equal a.group b.group g
			send a.peer "answer"
			send b.peer "answer"
			receive CQ group g as r -> "answer", "answer"
			equal r.group g
			ack r

			group g // two in one transaction join the group that the first of them makes
			transaction t
			t: begin a group g
			t: begin b group g
			t: equal a.group b.group g
			commit t
		`),
		scripted("D09", "a group of another service", `
			begin d "a"
			define service neighbour on CQ // another service of the same queue
			each from, by: Server, related d | Server, group d.group | neighbour, related d | neighbour, group d.group
				transaction t
				t: begin other from $from $by -> ErrGroupElsewhere
				commit t
			send d.peer "still there"
			take CQ -> "still there"
		`),
	)
}
func checkBeginRolledBack(e *env) {
	w := e.World()
	for _, how := range []string{"error", "panic"} {
		var h, peer, group parley.ID
		err := func() (err error) {
			defer func() {
				if p := recover(); p == errUndo {
					err = errUndo
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
				h, peer, group = ep.Handle, ep.FarHandle, ep.Group
				if how == "panic" {
					panic(errUndo)
				}
				return errUndo
			})
		}()
		e.Is(err, errUndo)
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
