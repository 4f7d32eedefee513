package conformance

import (
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// orderTrials receives the messages of the only group of SQ piece by piece. Before each piece it
// does something to the group that could disturb their order.
const orderTrials = `
					receive SQ $hold max 3 as r -> "m0", "m1", "m2"
					rollback r
					take SQ $hold max 1 -> "m0"

					receive SQ $hold max 5 as r -> "m1", "m2", "m3", "m4", "m5"
					r: once "write" new
					rollback r
					take SQ $hold max 2 -> "m1", "m2"

					broker dead
					dead: receive SQ $hold max 2 as r -> "m3", "m4"
					close dead
					take SQ $hold max 1 -> "m3"

					receive SQ $hold max 1 as r -> "m4"
					other: promote r.group
					rollback r
					take SQ $hold max 2 -> "m4", "m5"

					$move
					take SQ $hold max 1 -> "m6"

					receive SQ $hold max 2 as r -> "m7", "m8"
					defer r for 30ms
					take SQ $hold max 2 -> "m7", "m8"

					receive SQ $hold max 2 as r -> "m9", "m10"
					park r "a check"
					nothing SQ
					unpark r.group
					take SQ $hold max 1 -> "m9"

					receive SQ $hold max 2 as r -> "m10", "m11"
					park r "a check"
					$move
					$unpark
					take SQ $hold max 2 -> "m10", "m11"

					receive SQ $hold max 2 as r -> "m12", "m13"
					return r
					more r 3 -> "m12", "m13", "m14"
					ack r
					take SQ $hold max 1 -> "m15"

					transaction t
					t: receive SQ max 2 -> "m16", "m17"
					rollback t
					take SQ $hold max 2 -> "m16", "m17"

					take SQ $hold max 4 -> "m18", "m19", "m20", "m21", "m22", "m23"
					nothing SQ
		`

func init() {
	add(
		scripted("I4", "the order of a conversation outlives all that can happen to it", `
			broker other
			each hold: every hold
				each move, unpark: group g; move d.peer to g, pause 0s
					begin d
					transaction t
					each n: 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 |
						12 | 13 | 14 | 15 | 16 | 17 | 18 | 19 | 20 | 21 | 22 | 23
						t: send d "m$n"
					commit t
`+orderTrials, alone),
		scripted("I4", "the order of a key outlives all that can happen to it", `
			broker other
			each hold: every hold
				each move, unpark: pause 0s, unpark r.group
					transaction t
					each n: 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 |
						12 | 13 | 14 | 15 | 16 | 17 | 18 | 19 | 20 | 21 | 22 | 23
						t: post SQ key k type Any "m$n"
					commit t
`+orderTrials, alone),
		check{ID: "I4", Name: "a failed message is tried again before those behind it", Run: checkInvRetry},
		check{ID: "I4", Name: "random histories go as the model says", Run: checkModel, Limit: 3 * time.Minute},
		check{ID: "I4", Name: "the order holds under load", Run: func(e *env) { runLoad(e, load{parks: true, promotes: true, moves: true}) }, Limit: 2 * time.Minute},
	)
}

// checkInvRetry: what is known of a failed message is kept with it, and changes
// neither its place nor that of those behind it.
func checkInvRetry(e *env) {
	s := invUnder(invWorld(e))
	for _, hold := range e.Holds() {
		for _, st := range s.streams() {
			what := st.kind + " " + invHoldName(hold)
			s.sent(st, "m0", "m1", "m2")
			for i := range 4 {
				h := s.found(hold, what).want(what, "m0", "m1", "m2")
				for k, m := range h.Messages {
					attempts, text := 0, ""
					if k == 0 && i > 0 {
						attempts, text = i, fmt.Sprint("failure ", i)
					}
					if m.Attempts != attempts || m.LastError != text {
						e.Errorf("%s: message %d after %d failed attempts says %d and %q", what, k, i, m.Attempts, m.LastError)
					}
				}
				h.settle(backend.Outcome{Failure: &backend.Failure{Message: h.Messages[0], Attempts: i + 1, Error: fmt.Sprint("failure ", i+1)}, Defer: time.Duration(i%2) * 20 * time.Millisecond})
				s.maintain(backend.JobMarkers)
				if i%2 == 1 && !e.Soon(10*time.Second, func() bool {
					s.maintain(backend.JobDeferred)
					h := s.claim(hold, backend.ClaimRequest{})
					if h == nil {
						return false
					}
					h.back()
					return true
				}) {
					e.Fatalf("%s: the deferral does not end", what)
				}
			}
			for _, body := range []string{"m0", "m1", "m2"} {
				h := s.found(hold, what)
				if got := h.bodies()[0]; got != body {
					e.Errorf("%s: one by one, %q comes in place of %q", what, got, body)
				}
				h.settle(backend.Outcome{Done: h.Messages[:1]})
			}
		}
	}
}
