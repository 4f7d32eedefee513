package conformance

import (
	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		scripted("P06", "a promoted group is the next one", `
			define service lowclient on CQ
			define service highclient on CQ
			define rule low remote lowclient level 1
			define rule high remote highclient level 10
			broker other
			each n: 1 | 2 | 3
				begin h from highclient "high"
				pause 2ms
			begin d from lowclient "low"
			post SQ key k priority 1 type Any "key" as keyed
			post SQ priority 1 type Any "post" as single
			post SQ priority 10 type Any "another post"
			let k keyed.group
			each body, g: low, d.peer | post, single | key, k // the youngest and lowest
				other: promote $g // another process, which only commits
				shown $g first level 100 ready
				receive SQ as r -> "$body"
				equal r.promoted true
				equal r.level 100
				ack r
			order SQ "high" "high" "high" "another post"
		`, alone),
		scripted("P06", "levels of promotion", `
			line a b c d e
			promote a level 0
			promote b level 255
			promote c level 100
			promote d level 7
			promote e level 256 -> ErrInvalidOption
			order SQ "b" "c" "d" "a" "e"
			line a b
			promote b
			demote b
			demote b
			order SQ "a" "b"
		`, alone),
		check{ID: "P06", Name: "promoted posts and groups have one order", Run: checkPrioMixed},
		scripted("P08", "equal promotions in their order, and a second one replaces the first", `
			line a b c d
			each g: c | a | d
				promote $g level 100
				pause 2ms // for stores whose clock is coarse
			order SQ "c" "a" "d" "b"
			line a b c
			each g: a | b | a
				promote $g level 100
				pause 2ms
			order SQ "b" "a" "c"
			line a b c
			promote a level 50
			promote b level 100
			promote a level 200
			order SQ "a" "b" "c"
			line a b c
			promote a level 200
			promote b level 100
			promote a level 50
			order SQ "b" "a" "c"
		`, alone),
		scripted("P08", "a promotion that is replaced while the group is received stays", `
			broker other
			each hold: every hold
				line older
				begin d "m0" "m1" "m2"
				promote d.peer.group level 7
				receive SQ $hold max 1 as r
				equal r.group d.peer
				equal r.promoted true
				equal r.level 7
				other: promote r.group level 8
				ack r
				receive SQ $hold max 1 as r -> "m1"
				equal r.level 8
				ack r
				order SQ "older" "m2"

				line older // demoted and promoted again is another promotion too
				begin d "m0" "m1"
				promote d.peer.group level 7
				receive SQ $hold max 1 as r
				other: demote r.group
				other: promote r.group level 7
				ack r
				order SQ "m1" "older"
		`, alone),
		scripted("P15", "by its key", `
			post SQ "other" key other
			post SQ "alone"
			post SQ "one" key k
			post SQ "two" key k
			post CQ "elsewhere" key far
			promote key k sticky
			post SQ "three" key k
			order SQ "one" "two" "three" "other" "alone"
			post SQ "a" key a
			post SQ "b" key b
			promote key b level 7
			promote key a level 8
			order SQ "a" "b"
			promote key far -> ErrUnknownGroup
			promote key far in CQ
			promote key never -> ErrUnknownGroup
			promote key k level 256 -> ErrInvalidOption
			order CQ "elsewhere"
		`, alone),
		scripted("P18", "until it is empty", `
			each hold: every hold
				line a b
				post SQ "one" key k
				post SQ "two" key k
				post SQ "three" key k
				promote key k until-empty
				receive SQ $hold max 1 as r -> "one"
				rollback r
				receive SQ $hold max 1 as r -> "one"
				equal r.promoted true
				ack r
				receive SQ $hold max 1 as r -> "two"
				ack r
				receive SQ $hold max 1 as r -> "three"
				equal r.promoted true
				ack r
				post SQ "later" key k
				order SQ "a" "b" "later"

				line a
				begin d "m0" "m1"
				promote d.peer.group until-empty
				receive SQ $hold max 1 as r -> "m0"
				ack r
				receive SQ $hold max 1 as r -> "m1"
				ack r
				send d "m2"
				order SQ "a" "m2"
			promote key k sticky until-empty -> ErrInvalidOption

			line a
			post SQ "one" key k as p
			post SQ "two" key k as q
			post SQ "three" key k as r
			promote key k until-empty
			cancel q
			order SQ "one" // the promotion stays as long as a post waits
			cancel r
			post SQ "later" key k
			order SQ "a" "later"
			transaction t
			post SQ "again" key k as p
			promote key k until-empty
			post SQ "b" key b
			t: cancel p
			rollback t // with what it ended
			order SQ "again" "b"
		`, alone),
		scripted("P10", "one shot and sticky", `
			each hold: every hold
				each stay, rest: sticky, order SQ "m0" "m1"; demote d.peer; order SQ "a" "b" "m2" | , order SQ "m0" "a" "b" "m1" "m2"
					line a b
					begin d "m0" "m1" "m2"
					promote d.peer.group $stay
					each back: rollback r | close r | defer r for 1h; unpark d.peer | park r; unpark d.peer | return r; ack r
						receive SQ $hold max 1 as r -> "m0"
						equal r.promoted true
						$back
					transaction t
					t: receive SQ max 1
					rollback t
					$rest

			line a
			begin d "m0" "m1"
			promote d.peer.group
			transaction t
			t: receive SQ max 1 -> "m0"
			commit t
			order SQ "a" "m1"

			begin d "m0" // a sticky one outlives a time in which the group is empty
			promote d.peer.group sticky
			order SQ "m0"
			line a
			send d "m1"
			order SQ "m1" "a"
			demote d.peer.group
		`, alone),
		scripted("P10", "a promotion is part of its transaction", `
			line a b c
			transaction t
			t: promote c
			rollback t
			promote b
			transaction t
			t: demote b
			t: promote c level 200
			rollback t
			order SQ "b" "a" "c"
		`, alone),
	)
}

// checkPrioMixed: also where a claim asks for several at once, the first that it
// brings is the first of all.
func checkPrioMixed(e *env) {
	w := invWorld(e)
	s := invUnder(w)
	for _, hold := range e.Holds() {
		for _, first := range []string{"post", "conversation"} {
			ids := map[string]parley.ID{"conversation": prioLine(w, "conversation")[0]}
			var err error
			ids["post"], err = w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte("post")})
			e.Must(err)
			for kind, id := range ids {
				e.Must(w.B.Promote(e.Ctx, id, parley.PromoteLevel(map[bool]int{true: 2, false: 1}[kind == first])))
			}
			for _, n := range []int{5, 2, 1} {
				h, c := s.claimed(hold, backend.ClaimRequest{MaxGroups: n})
				if h == nil {
					e.Fatalf("nothing to claim")
				}
				if h.Group != ids[first] || h.Level != 2 {
					e.Errorf("%s: the %s is promoted to 2, the other to 1, and a claim of %d begins with %q at %d", invHoldName(hold), first, n, h.bodies(), h.Level)
				}
				if h.tx != nil {
					s.rollback(h.tx)
					continue
				}
				for _, one := range c.Holds {
					(&invHeld{s: s, Hold: one}).back()
				}
			}
			w.Drain(w.SQ)
		}
	}
}
