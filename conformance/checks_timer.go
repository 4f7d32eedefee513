package conformance

import (
	"bufio"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// noTimerIsLeft proves that no timer is due on the initiators' queue in the next moment: a timer
// that is set now comes first.
const noTimerIsLeft = `
			begin last
			clock lastset
			timer last 200ms
			receive CQ as r -> DialogTimer "" on last
			passed lastset 200ms
			ack r
			nothing CQ
		`

func init() {
	add(
		scripted("T01", "a timer comes once, to the side that set it", `
			begin d "hello"
			take SQ -> Ask "hello"
			clock set
			timer d 200ms
			most d.timer 200ms
			receive CQ as r -> DialogTimer "" on d
			passed set 200ms
			ack r
`+noTimerIsLeft+`
			nothing SQ
			send d "more" // the conversation goes on
			take SQ -> "more"
		`),
		scripted("T01", "each side has a timer of its own", `
			begin d "hello"
			take SQ -> Ask "hello"
			clock late // the later one is set first, on the other side: neither replaces the other
			timer d.peer 600ms
			clock early
			timer d 200ms
			receive CQ as r -> DialogTimer "" on d
			passed early 200ms
			ack r
			receive SQ as r -> DialogTimer "" on d.peer
			passed late 600ms
			ack r
`+noTimerIsLeft+`
			nothing SQ
		`),
		scripted("T02", "a later setting replaces an earlier one", `
			each first, second: 250ms, 700ms | 1h, 250ms
				begin d
				begin other
				before $first:
					timer d $first
					clock set
					timer d $second
				transaction t // twice in one transaction
				t: timer other $first
				t: timer other $second
				commit t
				receive CQ as r -> DialogTimer
				passed set $second
				rollback r
				take CQ in any order -> DialogTimer "" on d, DialogTimer "" on other
`+noTimerIsLeft),
		scripted("T02", "a timer that fired can be set again, and one set to zero is gone", `
			begin d
			each again: 1 | 2
				clock set
				timer d 100ms
				receive CQ as r -> DialogTimer "" on d
				passed set 100ms
				ack r
			transaction t
			t: timer d 100ms
			t: timer d 0
			commit t
			timer d 1h
			timer d 0
			equal d.timer 0s
`+noTimerIsLeft),
		scripted("T03", "a setting that was rolled back never was", `
			begin fresh
			begin replaced
			begin removed
			begin saved
			clock set
			timer replaced 400ms
			timer removed 400ms
			transaction t
			t: timer fresh 50ms
			t: timer replaced 50ms
			t: timer removed 0
			rollback t
			transaction t
			t: savepoint before
			t: timer saved 50ms
			t: rollback to before
			commit t
			equal fresh.timer saved.timer 0s
			receive CQ as r -> DialogTimer // what stood before the rollback fires, and nothing before it
			passed set 400ms
			rollback r
			take CQ in any order -> DialogTimer "" on replaced, DialogTimer "" on removed
`+noTimerIsLeft),
		scripted("T03", "an ended side has no timer", `
			begin d "hello"
			begin second "hello"
			take SQ -> Ask "hello", Ask "hello"
			timer d 150ms
			timer d.peer 150ms
			end d
			transaction t // set and ended at once
			t: timer second 150ms
			t: end second with 1 "over"
			commit t
			equal d.timer second.timer 0s // they are there until the other side ends too
`+noTimerIsLeft+`
			// The other side has not ended: its own timer is still its own.
			take SQ in any order -> DialogTimer "" on d.peer, EndDialog on d.peer, Error 1 on second.peer
			quiet SQ CQ
		`),
		scripted("T04", "a timer fires after its broker was closed, and not early", `
			begin d
			begin far
			broker other
			clock set
			transaction t on other
			t: timer far 1h
			t: timer d 400ms
			commit t
			close other
			receive CQ as r -> DialogTimer "" on d
			passed set 400ms
			ack r
`+noTimerIsLeft),
		check{ID: "T04", Name: "a timer fires after its process was killed, and not early", Run: checkTimerOutlivesProcess},
		scripted("T05", "both sides learn of the end of the lifetime", `
			clock begun
			begin d lifetime 1500ms "hello"
			take SQ -> Ask "hello"
			send d "one"
			send d "two"
			send d.peer "answer"
			soon 10s: // what is queued may be received before the error is there, and is given back
				receive CQ of d max 1 as r -> Error -8489 on d
			passed begun 1500ms
			ack r
			take CQ of d -> "answer"
			soon 10s:
				receive SQ of d.peer max 1 as r -> Error -8489 on d.peer
			passed begun 1500ms
			ack r
			take SQ of d.peer -> "one", "two"
			each side: d | d.peer
				send $side Any "late" -> ErrConversationError telling -8489
				equal $side.state ER
			end d
			end d.peer
			quiet SQ CQ
		`),
		scripted("T05", "a side that is alone learns of it, and ended ones do not", `
			clock begun
			begin over lifetime 600ms "hello"
			take SQ -> Ask "hello"
			end over
			end over.peer
			begin d lifetime 600ms
			soon 10s:
				receive CQ of d as r -> Error -8489 on d
			passed begun 600ms
			ack r
			end d
`+noTimerIsLeft+`
			nothing SQ
		`),
		scripted("T06", "a timer beyond the lifetime is refused on both sides", `
			begin d lifetime 1h "hello"
			take SQ -> Ask "hello"
			clock set
			timer d 200ms
			each side: d | d.peer
				transaction t
				t: timer $side 2h -> ErrBeyondLifetime
				t: send $side Any "still usable"
				commit t
			most d.timer 200ms // the earlier one
			soon:
				equal d.timer 0s
			passed set 200ms
			take CQ in any order -> DialogTimer on d, Any "still usable"
			begin unlimited
			timer unlimited 1000h
			timer d.peer 30m // within
		`),
	)
}

func init() { addRole("timer", tmrChild) }

// tmrEarly is by how much a store may round a time.
const tmrEarly = 5 * time.Millisecond

// tmrChild begins a conversation, sets its timer, says since when, and waits to
// be killed.
func tmrChild(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
	from, to, contract := args[0], args[1], args[2]
	d, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	before := time.Now()
	var h parley.ID
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, from, to, &parley.DialogOptions{Contract: contract})
		if err != nil {
			return err
		}
		h = c.Handle()
		return c.SetTimer(ctx, d)
	})
	if err != nil {
		return err
	}
	say("%s %d", h, before.UnixNano())
	hear.Scan()
	return nil
}

func checkTimerOutlivesProcess(e *env) {
	w := e.World()
	child := e.Child("timer", w.Client, w.Server, w.Contract, "800ms")
	handle, nanos, _ := strings.Cut(child.Hear(), " ")
	child.Kill()
	h, err := parley.ParseID(handle)
	e.Must(err)
	n, err := strconv.ParseInt(nanos, 10, 64)
	e.Must(err)
	play(w, `
		receive CQ as r -> DialogTimer "" on d
		passed set 800ms
		ack r
`+noTimerIsLeft, "d", side{handle: h}, "set", time.Unix(0, n))
}
