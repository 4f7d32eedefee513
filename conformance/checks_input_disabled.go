package conformance

import (
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("B08", "receiving from a disabled queue", `
			broker other
			begin d "0" "1"
			post SQ "post"
			disable SQ
			disable SQ // again is no error
			let p d.peer
			each b, on: , | other:, on other
				each hold: every hold
					each by: now | wait 5s | group p | of p | choose p | released
						$b receive SQ $hold $by -> ErrQueueDisabled naming SQ
				transaction t $on
				t: receive SQ -> ErrQueueDisabled naming SQ
				t: group g at SQ -> ErrQueueDisabled naming SQ
				t: post SQ "never" -> ErrQueueDisabled naming SQ
				t: postbatch SQ "", key k "", after 1h "" -> ErrQueueDisabled naming SQ
				commit t
			send d "2"
			depth SQ 3
			send p "answer" // the other queue is not touched by it
			take CQ -> "answer"

			enable SQ
			take SQ of p -> "0", "1", "2"
			take SQ -> "post"
			quiet SQ
		`),
		check{ID: "B08", Name: "receivers that wait", Run: checkDisabledWaiting},
		scripted("B08", "in hand and in flight", `
			each hold: every hold // what is in hand may be settled either way
				begin a "ack"
				begin b "roll back"
				receive SQ $hold as first
				receive SQ $hold as second
				disable SQ
				ack first
				rollback second
				receive SQ -> ErrQueueDisabled
				enable SQ
				take SQ -> "roll back"
			nothing SQ

			if many writers: // what is on its way when the queue is disabled is not lost
				broker other
				begin d "0"
				transaction t on other
				t: send d "1"
				start disables disable SQ
				pause 20ms
				commit t
				join disables
				send d "2"
				enable SQ
				take SQ -> "0", "1", "2"
				quiet SQ
		`),
	)
}

func checkDisabledWaiting(e *env) {
	// The receivers of the broker that disables are told; they would look again
	// only in a minute. Those of others look often.
	w := e.WorldOn(e.Broker(&parley.Options{Poll: time.Minute}))
	other := e.Broker(&parley.Options{Poll: 20 * time.Millisecond})
	var waits []func() error
	for _, b := range []*parley.Broker{w.B, other} {
		for _, hold := range e.Holds() {
			waits = append(waits, dlgGo(e, "a receiver that waits", func() error {
				_, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: -1, Hold: hold})
				return err
			}))
		}
		if e.ManyWriters() {
			waits = append(waits, dlgGo(e, "a transaction that waits", func() error {
				return b.InTx(e.Ctx, func(tx *parley.Tx) error {
					_, err := tx.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: -1})
					return err
				})
			}))
		}
	}
	time.Sleep(50 * time.Millisecond) // they wait by now; if not, they are refused at once
	start := time.Now()
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	for _, wait := range waits {
		dlgNames(e, "a receiver that waits", wait(), parley.ErrQueueDisabled, w.SQ)
	}
	e.Within(20*time.Second, time.Since(start), "the last receiver heard of it after %v") // they would wait for ever
	w.Dialog("0")
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	// Whichever of the two delivers it, the other one hears of it in a minute at
	// the latest, or at its next look.
	w.B = other
	dlgBodies(w, w.SQ, nil, "0")
}
