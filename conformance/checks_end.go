package conformance

// endBothSides ends the conversation on one side and then on the other.
const endBothSides = `
				each hold: every hold
					begin d "begin"
					take SQ $hold -> "begin"
					send $first Any "1"
					send $first Any "2"
					end $first
					equal $first.state DO
					equal $second.state DI // before anything was received
					send $second Any "" -> ErrFarEnded naming $second
					send $first Any "" -> ErrEnded naming $first

					take $queue $hold -> Any "1", Any "2", EndDialog on $second
					nothing $queue
					equal $second.state DI
					end $second
					gone d d.peer
			quiet CQ SQ
		`

func init() {
	add(
		scripted("E01", "the target ends first", `
			each first, second, queue: d.peer, d, CQ
`+endBothSides),
		scripted("E01", "the initiator ends first", `
			each first, second, queue: d, d.peer, SQ
`+endBothSides),
		scripted("E01", "an end is part of its transaction", `
			begin d "1"
			each end: end d.peer | end d.peer with 5 "five" | cleanup d.peer
				transaction t
				t: $end
				rollback t
				equal d.state d.peer.state CO
			quiet CQ
			send d "2"
			take SQ -> "1", "2"
		`),
		scripted("E02", "an error goes first", `
			each text: "не найдено: <a & \"b\"> 'c'\n]]> 日本語 🦊"
				each hold: every hold
					begin d "begin"
					send d.peer "1"
					send d.peer "2"
					receive SQ $hold as r
					finish r with 1234 $text
					ack r
					equal d.state ER
					equal d.code 1234
					equal d.text $text
					send d Any "" -> ErrConversationError naming d telling 1234 $text
					receive CQ $hold max 1 as m -> Error 1234 // the order must not depend on the size of a delivery
					equal m.text $text
					ack m
					each next: Tell "1" | Tell "2"
						receive CQ $hold max 1 as m -> $next
						ack m
					equal d.state ER
					end d
					gone d d.peer
			quiet CQ SQ
		`),
		scripted("E03", "errors without code or text", `
			begin d "1"
			each code, text: 0, "text" | -1, "text" | -8489, "text" | 1, "" | 1, " \t\n" | 0, "" | 1, "a\xffb" |
				1, "a\x00b" | 1, "x"*3001
				each side: d | d.peer
					transaction t
					t: end $side with $code $text -> ErrInvalidErrorCode naming $side
					commit t
					equal $side.state CO
			take SQ -> "1"
			quiet SQ CQ
			end d.peer with 2147483647 "ж"*3000 // as long as it may be
			take CQ as m -> Error 2147483647
			equal m.text "ж"*3000
		`),
		scripted("E04", "unread messages go", `
			begin one "1" // two conversations in one group: only the ended conversation loses anything
			begin two related one "2"
			each body: a | b
				send one.peer "one $body"
				send two.peer "two $body"
			timer one.peer 1h
			end one
			depth CQ 2 now // the other's two
			take CQ -> "two a", "two b"
			quiet CQ
			depth CQ 0

			each end, told: end d.peer, take CQ -> EndDialog | end d.peer with 9 "nine", take CQ -> Error 9 | cleanup d.peer, nothing CQ
				drain SQ
				begin d "1" "2" "3"
				$end
				depth SQ 0 now
				quiet SQ
				$told
				end d
				gone d
				quiet SQ CQ
		`),
		scripted("E04", "unread messages go behind a delivery", `
			each hold: every hold
				begin d "1" "2" "3"
				receive SQ $hold max 2 as r -> "1", "2"
				finish r
				ack r
				quiet SQ
				take CQ -> EndDialog
				end d
				gone d
		`),
		scripted("E05", "withheld for a disabled queue", `
			each end, state, order, left: end d, DI, , "0", "1", "2", EndDialog | end d with 55 "given up", ER, in any order, Error 55, "0"
				begin d "0"
				disable SQ
				send d "1"
				send d "2"
				$end
				enable SQ
				take SQ $order -> $left // what had arrived before an error stays
				equal d.peer.state $state
				quiet SQ CQ
				withheld d none
				end d.peer
				gone d d.peer
		`),
		scripted("E05", "withheld for a service that is not defined", `
			begin d to late "1" "2"
			let p d.peer
			end d
			define service late on SQ lists Contract
			take SQ -> "1", "2", EndDialog
			end p
			withheld d none
			gone d p

			begin d to later "1" "2"
			let p d.peer
			end d with 55 "given up"
			define service later on SQ lists Contract
			quiet SQ // there is no target that could hear of the error
			withheld d none
			gone d p
			quiet SQ CQ
		`),
		scripted("E06", "the peer has ended", `
			each first, second, queue: d, d.peer, SQ | d.peer, d, CQ
				each end, told: end $first, EndDialog | end $first with 1 "one", Error 1
					each last: end $second | end $second with 2 "two" | cleanup $second
						begin d "1"
						take SQ -> "1"
						$end
						take $queue -> $told
						$last
						depth CQ 0 now
						depth SQ 0 now
						nothing CQ
						nothing SQ
						gone d d.peer
			quiet CQ SQ
		`),
		scripted("E07", "withheld while the receiver ends", `
			begin d "0"
			take SQ -> "0"
			disable SQ
			send d "late"
			end d.peer
			enable SQ
			take CQ -> EndDialog
			quiet SQ CQ
			withheld d none soon
			nothing SQ
			equal d.peer.state DO
			equal d.state DI
			end d
			gone d d.peer
			quiet SQ CQ
			depth SQ 0
		`),
		scripted("E07", "in flight while the receiver ends", `
			needs many writers
			broker other
			each hold: every hold
				each take, end: take SQ $hold -> "0", end d.peer | receive SQ $hold as r, finish r; ack r
					begin d "0"
					$take
					transaction t on other
					t: send d "in flight"
					clock c
					$end // the receiver's end waits for senders on its own side only
					within c 10s
					commit t
					quiet SQ
					equal d.peer.state DO
					equal d.state DI
					take CQ -> EndDialog
					end d
					gone d d.peer
					quiet SQ CQ
					depth SQ 0
		`),
		scripted("E08", "cleanup of either side", `
			each one, other, here, there: d, d.peer, CQ, SQ | d.peer, d, SQ, CQ
				begin d "0"
				send d.peer "0"
				let c $one
				let l $other
				cleanup c
				equal c.state none
				equal l.state CO
				quiet $here
				depth $here 0
				take $there -> "0" // sent before; the cleanup itself brings nothing
				quiet $there

				send l Any "to no peer"
				equal l.state ER
				equal l.code -8462
				take $there -> Error -8462 on l
				send l Any "" -> ErrConversationError naming l
				equal c.state none
				quiet $here $there
				end l
				gone l c

			each end: end p | end p with 3 "three" // the other side may also end without having heard of it
				begin d "0"
				take SQ as m -> "0"
				let p m.conversation
				cleanup d
				$end
				gone d p
			quiet CQ SQ

			begin d // nothing sent
			cleanup d
			gone d
		`),
		scripted("E08", "cleanup of what is withheld", `
			begin d "0"
			let p d.peer
			disable SQ
			send d "withheld"
			cleanup d
			withheld d none
			enable SQ
			take SQ -> "0"
			quiet SQ
			equal p.state CO
			end p
			gone d p
		`),
		check{ID: "E08", Name: "a cleanup leaves nothing withheld in the store", Run: checkCleanupDrops},
		check{ID: "E09", Name: "sent, ended, refused", Run: checkLossRecorded},
		scripted("E10", "removed at once", `
			each one, other: d, d.peer | d.peer, d
				each read: drain CQ SQ | pause 0s // whether EndDialog is received before
					begin d "0"
					let a $one
					let b $other
					end a
					$read
					end b
					gone a b
					send a Any "" -> ErrNoConversation naming a
					send b Any "" -> ErrNoConversation naming b
			quiet CQ SQ

			each end: end d | end d with 1 "one" // nothing was sent, so there is no target that would have to end
				begin d
				$end
				gone d

			begin d "0"
			let p d.peer
			transaction t
			t: end d p
			commit t
			gone d p
			quiet CQ SQ
		`),
		check{ID: "E10", Name: "removed after the set time", Run: checkRemovedLater},
	)
}
