package conformance

// heldGroups is the beginning of scripts about a conversation and a key, held in each way: of two
// messages the first is in hand.
const heldGroups = `
			broker other
			each hold: every hold
				each make, own, send: begin d "m0" "m1", of d.peer, send d |
					post SQ key k type Any "m0"; post SQ key k type Any "m1", group r.group, post SQ key k type Any
					$make
					receive SQ $hold max 1 as r -> "m0"
`

// heldFromAll goes on with heldGroups: no other receiver can get at the group.
const heldFromAll = `
					each by: | by lease | group r.group | $own
						other: nothing SQ $by
					transaction t on other
					t: group g at SQ -> ErrNoMessage
					t: receive SQ group r.group -> ErrNoMessage
					commit t
`

func init() {
	add(
		scripted("G01", "the next receiver gets another group or nothing", `
			broker other
			broker third
			each hold: every hold
				begin a "a0" "a1"
				begin b "b0"
				receive SQ $hold max 1 as first
				other: receive SQ $hold now as next -> "b0"
				third: receive SQ now -> ErrNoMessage
				ack first
				third: take SQ -> "a1"
				ack next
		`, alone),
		scripted("G02", "a held group asked for by name", `
			broker other
			each hold: every hold
				begin d "m0" "m1"
				receive SQ $hold max 1 as r
				each by: group r.group | of d.peer
					other: receive SQ $by now -> ErrNoMessage
					clock asked
					other: receive SQ $by wait 200ms -> ErrNoMessage
					passed asked 200ms
				start asks other: receive SQ group r.group wait 15s as rest -> "m1"
				waits asks
				ack r
				join asks within 15s
				ack rest
			group unknown // an unknown group has no message; an unknown handle is a mistake
			nothing SQ group unknown
			receive SQ of unknown -> ErrNoConversation
		`, alone),
		scripted("G03", "each side has a group of its own", `
			broker other
			each hold: every hold
				begin d "ask"
				send d.peer "tell"
				receive SQ $hold as target
				other: receive CQ $hold now as initiator -> "tell"
				differ target.group initiator.group
				ack initiator
				group g
				clock c
				transaction t on other
				t: timer d 1h
				t: move d to g
				t: end d
				commit t
				within c 5s
				ack target
				receive SQ as r -> EndDialog
				finish r
				ack r
		`, alone),
		scripted("G04", "a message sent to a held group is received afterwards", heldGroups+`
					clock c
					other: $send "m2"
					within c 5s
					other: nothing SQ
					ack r
					other: receive SQ as rest -> "m1", "m2"
					ack rest
		`, alone),
		scripted("G05", "GetGroup takes the group for its transaction", `
			broker other // all in one transaction, so that it asks stores with a single writer as well
			transaction t
			t: group g at SQ -> ErrNoMessage
			commit t
			begin a "a0" "a1"
			begin b "b0"
			let first a.peer
			let second b.peer
			transaction t
			t: group g at SQ
			equal g first
			each body: a0 | a1
				if many writers:
					other: nothing SQ group g
				t: receive SQ group g max 1 -> "$body"
			t: receive SQ group g -> ErrNoMessage
			if many writers:
				send a "a2"
				other: nothing SQ group g
				other: receive SQ as r
				equal r.group second
				rollback r
			commit t
			if many writers:
				receive SQ group first as r -> "a2"
				ack r
			receive SQ as r -> "b0"
			ack r
			nothing SQ

			begin c "c0" // by name, and what is held by lease is not to be had
			receive SQ by lease as r
			transaction t on other
			each by: | group r.group
				t: group g at SQ $by -> ErrNoMessage
			commit t
			rollback r
			transaction t on other
			t: group g at SQ group r.group
			commit t
			equal g r.group
			receive SQ as r -> "c0"
			ack r
		`, alone),
		scripted("G06", "a transaction that receives twice holds both groups", `
			broker other
			begin a "a0" "a1"
			begin b "b0" "b1"
			begin c "c0"
			each end: rollback t | commit t
				transaction t
				t: receive SQ max 2 as one -> "a0", "a1"
				t: receive SQ max 1 as two -> "b0"
				if many writers:
					other: nothing SQ group one.group
					other: nothing SQ group two.group
					other: receive SQ as r -> "c0"
					rollback r
				t: receive SQ -> "b1" // the group that it holds stays eligible
				$end
			other: take SQ -> "c0"
			other: nothing SQ
		`, alone),
	)
}
