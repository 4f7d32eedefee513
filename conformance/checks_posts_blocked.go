package conformance

import (
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

// eachStream is the beginning of scripts about messages of one group, of a conversation and of a key.
const eachStream = `
				each make, send: begin d, send d | pause 0s, post SQ key k
					$make
`

func init() {
	add(
		scripted("N07", "a deferred group comes back when it is due, in order", `
			each hold: every hold
`+eachStream+`
					each n: 1 | 2 | 3
						$send "$n"
					receive SQ $hold max 2 as r -> "1", "2"
					clock deferred
					defer r for 300ms
					$send "4"
					post CQ "other" // others go on
					take CQ -> "other"
					receive SQ $hold max 2 as r -> "1", "2"
					passed deferred 300ms
					within deferred 3300ms
					$send "more 0"
					ack r
					receive SQ $hold max 2 as r -> "3", "4"
					$send "more 1"
					ack r
					take SQ -> "more 0", "more 1"
		`, rarely),
		scripted("N07", "a parked group stays away until it is unparked, in order", `
			each hold: every hold
`+eachStream+`
					$send "1"
					$send "2"
					receive SQ $hold max 1 as r
					park r "a reason, 'quoted'"
					shown r.group parked "a reason, 'quoted'"
					nothing SQ
					nothing SQ group r.group
					$send "3"
					nothing SQ
					maintain // takes it out of the ready order, where the store does that
					nothing SQ
					$send "4"
					nothing SQ
					post SQ "another group goes on"
					take SQ -> "another group goes on"
					promote r.group // no promotion unparks
					nothing SQ

					unpark r.group
					$send "5"
					receive SQ $hold max 2 as r -> "1", "2"
					ack r
					take SQ -> "3", "4", "5"
					nothing SQ
			group unknown
			unpark unknown -> ErrUnknownGroup
		`),
		scripted("N07", "posts without key are deferred and parked alone", `
			each hold: every hold
				post SQ "deferred"
				clock c
				receive SQ $hold as r
				defer r for 300ms
				post CQ "parked" as p
				receive CQ $hold as r
				equal r.group r.id p
				park r
				nothing CQ
				maintain
				post CQ "beside"
				take CQ -> "beside"
				nothing CQ

				take SQ -> "deferred"
				passed c 300ms
				unpark p
				take CQ -> "parked"
				nothing CQ
		`),
		scripted("N07", "a deferred group can be unparked before its time", eachStream+`
					$send "1"
					receive SQ as r
					defer r for 1h
					shown r.group deferred
					$send "2"
					nothing SQ
					unpark r.group
					take SQ -> "1", "2"
		`),
		scripted("N07", "what was done before Defer and Park is undone", `
			each hold: every hold
`+eachStream+`
					$send "1"
					each block, key: defer r for 1h, deferred | park r, parked
						receive SQ $hold as r
						r: once "$key $send $hold" new
						r: post CQ "undone"
						$block
						nothing SQ
						nothing CQ
						once "$key $send $hold" new
						unpark r.group
					take SQ -> "1"
		`),
	)
}

// rarely is a world whose polling cannot explain that a receiver gets something in time.
func rarely(e *env) *world { return e.WorldOn(e.Broker(&parley.Options{Poll: quePoll})) }

// queSlow is within what a wake-up must come: half of the time after which it was missed.
const queSlow = 10 * time.Second

var (
	// queLost is after what a receiver that waits has missed it.
	queLost = slow.By(2 * queSlow)
	// quePoll is how often receivers look by themselves: too rarely to explain
	// that anything comes in time.
	quePoll = slow.By(3 * queSlow)
)
