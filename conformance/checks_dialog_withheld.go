package conformance

import (
	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("D04", "a service that is not defined", `
			begin d to ghost "0" "1"
			transaction t
			t: send d "never"
			rollback t
			send d "2"
			equal d.state CO
			quiet SQ CQ
			withheld d 3 ghost
			equal d.sides 1
			equal d.withheld 3
			differ d.says ""

			define service ghost on SQ lists Contract
			send d "3" // must not overtake those that may still be on their way
			take SQ as m -> "0" #0, "1" #1, "2" #2, "3" #3
			each n: 0 | 1 | 2 | 3
				equal m.$n.service ghost
				equal m.$n.far Client
				equal m.$n.initiator false
			withheld d none
			send m.conversation "thanks"
			take CQ -> "thanks"
			quiet SQ
		`, (*env).idle),
		check{ID: "D04", Name: "a disabled queue", Run: checkWithheldWhileDisabled},
		scripted("D04", "an answer to a disabled queue", `
			disable CQ
			each n: 0 | 1
				begin d$n "question"
				receive SQ as r
				reply r Tell "$n"
				reply r Any "$n+"
				finish r // its EndDialog must wait behind the answers
				ack r
			enable CQ
			take CQ of d0 -> "0", "0+", EndDialog
			take CQ of d1 -> "1", "1+", EndDialog
			quiet CQ
		`),
		check{ID: "D04", Name: "what cannot be delivered does not hold up what can", Run: checkStuckStreams},
		scripted("D05", "a contract that the service does not list", `
			define contract other with Any
			each send: send d Any "hello" | sendbatch d "hello" d "hello" // the second message, too, meets an error
				transaction t
				t: begin d contract other
				t: $send
				commit t
				equal d.state ER
				equal d.code -8408
				equal d.peer.state none
				take CQ -> Error -8408 on d naming other naming Server
				send d Any "" -> ErrConversationError naming d
				quiet SQ
				end d
				gone d
		`),
		scripted("D05", "a service that appears without the contract", `
			begin d to late "hello"
			define service late on SQ
			take CQ -> Error -8408 on d
			equal d.state ER
			quiet SQ CQ
			withheld d none
		`),
		scripted("D05", "a contract that the service has given up", `
			broker other // which remembers the catalog
			other: begin old "0"
			other: take SQ -> "0"
			redefine service Server on SQ
			other: begin d "never"
			take CQ -> Error -8408 on d
			other: send old "1" // what exists goes on
			take SQ -> "1"
			quiet SQ CQ
		`),
		scripted("D11", "one of several cannot take it", `
			each make, err: end bad.peer with 77 "it is broken", ErrConversationError | end bad.peer, ErrFarEnded |
				end bad, ErrEnded | end bad.peer; end bad; gone bad, ErrNoConversation | group bad, ErrNoConversation
				begin bad "first"
				$make
				drain CQ SQ
				begin good "0"
				transaction t
				t: begin fresh
				each to: good bad fresh | bad good fresh | fresh good bad
					t: sendto $to Any "never" -> $err naming bad
				t: sendbatch good "never" good "never" fresh "never" bad "never" -> $err naming bad
				t: equal good.next 1
				t: equal fresh.next 0
				t: equal fresh.state SO
				t: equal fresh.peer.state none
				commit t
				take SQ -> "0"
				quiet SQ
				sendto good fresh Any "1" // without the bad one it goes to all
				take SQ in any order -> "1" #1 on good.peer, "1" #0 on fresh.peer

			begin d "0" // a conversation twice in the list is no way to send twice
			transaction t
			t: sendto d d Any "" -> ErrInvalidOption naming d
			commit t
			take SQ -> "0"
			nothing SQ
		`),
		scripted("D11", "one body of a batch is malformed and cannot be answered", `
			begin bad "first"
			end bad.peer
			drain CQ SQ
			begin good "0"
			transaction t
			t: sendbatch good "never" bad xml "<a>" -> ErrFarEnded naming bad
			commit t
			take SQ -> "0"
			quiet SQ CQ
		`, checkedWorld),
	)
}

func checkWithheldWhileDisabled(e *env) {
	w := e.World()
	s := play(w, `
		begin old "0"
		disable SQ
		send old "1"
		send old "2"
		begin fresh "a" "b"
		each d: old | fresh
			withheld $d 2 "disabled"
			equal $d.state CO
	`)
	all, err := w.B.Admin().Queues(e.Ctx)
	e.Must(err)
	one, err := w.B.Admin().Queues(e.Ctx, w.SQ)
	e.Must(err)
	if len(one) != 1 || one[0].Name != w.SQ {
		e.Errorf("the state of %s alone is %+v", w.SQ, one)
	}
	for _, q := range append(all, one...) {
		if q.Name == w.SQ && (!q.Disabled || q.Depth != 1 || q.Withheld != 4) {
			e.Errorf("the queue is listed as %+v, want it disabled with 1 message in it and 4 withheld", q)
		}
	}
	s.play(`
		enable SQ
		send old "3"
		send fresh "c"
		take SQ of old.peer -> "0" #0, "1" #1, "2" #2, "3" #3
		take SQ of fresh.peer -> "a" #0, "b" #1, "c" #2
		quiet SQ
	`)
}

func checkStuckStreams(e *env) {
	w := e.World()
	var stuck []parley.ID
	w.Tx(func(tx *parley.Tx) error {
		for range 130 { // more than a broker may look at in one go
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
