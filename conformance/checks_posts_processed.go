package conformance

func init() {
	add(
		scripted("N06", "processed posts are kept and not delivered again", `
			define queue SQ keep 1h
			each key, shown: , "" | key k, "k"
				each hold: every hold
					each take: transaction t; t: receive SQ as r -> "body"; commit t |
						receive SQ released as r -> "body" |
						receive SQ $hold as r -> "body"; ack r
						post SQ $key unique value "body" as p
						equal p.state pending
						$take
						equal r.id p
						each background: pause 0s | maintain // which neither removes nor revives it
							$background
							nothing SQ
							equal p.state processed
							equal p.body "body"
							equal p.id p
							equal p.type DefaultType
							equal p.key $shown
							cancel p -> ErrNotPending
			// The other queue keeps none, and posts that failed are not processed.
			post CQ "not kept" as p
			take CQ -> "not kept"
			equal p.state none
			post SQ "given back" as p
			receive SQ as r
			rollback r
			equal p.state pending
			take SQ -> "given back"
		`),
		scripted("N06", "processed posts go after the set time and not before", `
			define queue SQ keep 400ms
			each key: | key k
				post SQ $key "kept" as p
				clock c
				take SQ -> "kept"
				soon:
					maintain processed
					equal p.state none
				passed c 400ms
				nothing SQ
		`),
	)
}
