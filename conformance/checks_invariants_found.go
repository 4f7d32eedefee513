package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		scripted("I3", "each committed message is found at once by another process", `
			broker one
			broker two
			begin d
			each hold: every hold
				each n: 1 | 2 | 3
					each by: | one: | two:
						each send: send d | post SQ key k type Any | post SQ type Any
							$send "m$n"
							$by receive SQ $hold now as r -> "m$n"
							ack r
		`, alone),
		check{ID: "I3", Name: "a message is found after others were rolled back", Run: checkInvFoundAfterRollback},
		check{ID: "I3", Name: "the message of a sender that stayed open for long is found", Run: checkInvFoundAfterLong},
		check{ID: "I3", Name: "nothing is stranded under load", Run: func(e *env) { runLoad(e, load{moves: true}) }, Limit: 2 * time.Minute},
	)
}

func checkInvFoundAfterRollback(e *env) {
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		for i := range 3 {
			tx := s.opened(st, "undone")
			s.rollback(tx)
			s.nothing(backend.ClaimRequest{}, st.kind+" after a rolled back send")
			if i == 1 { // the job finds what the rolled back send left, if anything
				s.maintain(backend.JobMarkers)
			}
			body := fmt.Sprint("m", i)
			s.sent(st, body)
			s.found(e.Holds()[0], st.kind+" after a rolled back send").want(st.kind, body).ack()
		}
		// A receiver that gave back what it had in hand.
		s.sent(st, "a", "b")
		for _, hold := range e.Holds() {
			s.found(hold, st.kind).want(st.kind, "a", "b").back()
		}
		s.found(e.Holds()[0], st.kind+" after it was given back").want(st.kind, "a", "b").ack()
	}
}

func checkInvFoundAfterLong(e *env) {
	if !e.ManyWriters() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	slow, busy := s.dialog(), s.dialog()
	sender := s.opened(slow, "late")
	// Meanwhile the queue moves on: a store that remembers where the head of the
	// order was must not look only behind it.
	for until := time.Now().Add(2500 * time.Millisecond); time.Now().Before(until); {
		s.sent(busy, "x")
		s.found(e.Holds()[0], "busy conversation").want("busy conversation", "x").ack()
		time.Sleep(20 * time.Millisecond)
	}
	s.sent(busy, "y")
	s.commit(sender)
	var got []string
	for range 2 {
		d := s.Receive(s.SQ, nil)
		got = append(got, bodiesOf(d.Messages)...)
		e.Must(d.Ack(e.Ctx))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"late", "y"}) {
		e.Errorf("received %q, want late and y", got)
	}
}
