package conformance

import (
	"errors"
	"fmt"

	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("R01", "copies of both kinds", `
			each hold: every hold
				begin d "q0" "q1"
				copies d "sent 0 q0" "sent 1 q1"
				copies d.peer // before the receipt

				receive SQ $hold as r
				reply r Tell "a0"
				ack r
				take CQ $hold -> "a0"
				copies d "sent 0 q0" "sent 1 q1" "received 0 a0"
				copies d.peer as in r "sent 0 a0" "received 0 q0" "received 1 q1"
				each queue, side: CQ, d | SQ, d.peer // no way of asking brings them back
					quiet $queue
					nothing $queue of $side
					nothing $queue group $side.group
					depth $queue 0
				send d "q2" // nor does what comes later
				take SQ -> "q2"
		`, retWorld),
		scripted("R01", "copies by every way of receiving", `
			begin d "0"
			receive SQ released -> "0"
			copies d.peer "received 0 0"
			send d "1"
			transaction t
			t: receive SQ
			commit t
			copies d.peer "received 0 0" "received 1 1"
			send d "2"
			send d "3"
			receive SQ max 1 as r
			more r 1
			ack r
			copies d.peer "received 0 0" "received 1 1" "received 2 2" "received 3 3"
			quiet SQ
		`, retWorld),
		scripted("R01", "copies of what is withheld", `
			begin d "0"
			disable SQ
			send d "1"
			copies d "sent 0 0" "sent 1 1"
			enable SQ
			take SQ -> "0", "1"
			copies d "sent 0 0" "sent 1 1"
			copies d.peer "received 0 0" "received 1 1"
		`, retWorld),
		scripted("R01", "no copies of what was rolled back", `
			begin d "0"
			transaction t
			t: send d "never"
			t: receive SQ
			rollback t
			each hold: every hold
				receive SQ $hold as r
				rollback r
			copies d "sent 0 0"
			copies d.peer
			take SQ -> "0"
			copies d.peer "received 0 0"
		`, retWorld),
		scripted("R02", "an end removes its side's copies", `
			each one, other, kept: d, d.peer, "sent 0 a" "received 0 q" | d.peer, d, "sent 0 q" "received 0 a"
				each end: end x | end x with 1 "one" | cleanup x
					begin d "q"
					send d.peer "a"
					take SQ -> "q"
					take CQ -> "a"
					begin bystander "b"
					take SQ -> "b"
					let x $one
					let y $other
					$end
					copies x
					copies y $kept
					drain CQ SQ // it hears of the end, unless that was a cleanup
					copies y $kept
					end y
					copies y
					copies bystander "sent 0 b"
					gone x y
		`, retWorld),
		scripted("R03", "no copies without retention", `
			begin d "q"
			take SQ -> "q"
			each hold: every hold
				send d.peer "a"
				receive CQ $hold as r
				reply r Ask "q"
				ack r
				depth CQ 0
				take SQ -> "q"
			copies d
			copies d.peer
			depth SQ 0
			quiet SQ CQ
			equal d.waiting d.peer.waiting 0
		`),
		scripted("R03", "retention of one side", `
			define queue SQ retention
			begin d "q"
			send d.peer "a"
			take SQ -> "q"
			take CQ -> "a"
			copies d
			copies d.peer "sent 0 a" "received 0 q"

			broker other // switched off by another process, it keeps nothing more; what it has stays
			other: redefine queue SQ
			send d.peer "a1"
			send d "q1"
			take SQ -> "q1"
			copies d.peer "sent 0 a" "received 0 q"
			other: redefine queue SQ retention
			send d.peer "a2"
			send d "q2"
			take SQ -> "q2"
			copies d.peer "sent 0 a" "sent 2 a2" "received 0 q" "received 2 q2"
		`),
	)
}

func retWorld(e *env) *world {
	return e.World(func(c *parley.Catalog) {
		c.Queues[0].Retention = true
		c.Queues[1].Retention = true
	})
}

// ofUser reports whether a program has sent a message, and not the broker itself.
func ofUser(m *parley.Message) bool {
	return m.Type != parley.EndDialog && m.Type != parley.ErrorMessageType && m.Type != parley.DialogTimer
}

// retCopies returns the copies that a side keeps of user messages, as "sent 0 body" or "received 0
// body". The sent ones come first, each kind in its order.
func retCopies(w *world, h parley.ID) []string {
	list, err := w.B.Admin().Retained(w.Ctx, h)
	if err != nil && !errors.Is(err, parley.ErrNoConversation) {
		dlgFatal(w.env, "retained of %s: %v", h, err)
	}
	var sent, received []string
	for _, r := range list {
		m := r.Message
		switch {
		case !ofUser(m):
		case r.Sent:
			sent = append(sent, fmt.Sprintf("sent %d %s", m.Seq, m.Body))
		default:
			received = append(received, fmt.Sprintf("received %d %s", m.Seq, m.Body))
		}
	}
	return append(sent, received...)
}

// retSame ends the check unless the copies of what a side has received are of the messages.
func retSame(w *world, h parley.ID, ms []*parley.Message) {
	list, err := w.B.Admin().Retained(w.Ctx, h)
	w.Must(err)
	for _, r := range list {
		if r.Sent {
			continue
		}
		m := ms[r.Message.Seq]
		if r.Message.ID != m.ID || r.Message.Type != m.Type || r.Message.ConversationID != m.ConversationID {
			dlgFatal(w.env, "the copy of message %s of %s is %s, of type %q of %s",
				m.ID, m.ConversationID, r.Message.ID, r.Message.Type, r.Message.ConversationID)
		}
	}
}
