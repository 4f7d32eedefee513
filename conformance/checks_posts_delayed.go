package conformance

func init() {
	add(
		scripted("N02", "a delayed post comes when it is due", `
			each key, other: , | key k, key another
				post SQ $other after 1h "far"  as far
				equal far.state delayed
				most far.due 1h
				differ far.due 0s
				cancel far
				each delay: after 300ms | due 300ms
					clock c
					post SQ $key $delay "late" as p
					receive SQ as r -> "late"
					equal r.id p
					passed c 300ms
					within c 3300ms
					ack r

			transaction t // a post that was rolled back does not come
			t: post SQ after 20ms "undone"
			rollback t
			post SQ after 150ms "delayed"
			post CQ after 0s "no delay" // and a time that has passed delays nothing
			take CQ -> "no delay"
			post CQ due -1h "passed"
			take CQ -> "passed"
			take SQ -> "delayed"
			nothing SQ
		`, rarely),
		scripted("N02", "a delayed post takes its place in its key's order when it is due", `
			clock c
			before 1s:
				post SQ key k after 1s "late"
				post SQ key k after 1300ms "later"
				post SQ key k "early" // does not wait for those posted before it
				receive SQ max 1 as r -> "early"
			rollback r
			soon: // it stays unread until the next has joined the order behind it
				receive SQ as r
				rollback r
				differ r.count 1
			passed c 1s
			take SQ -> "early", "late", "later"
			passed c 1300ms
		`),
		scripted("N02", "a delayed post that falls due while its key is held keeps its place", `
			each hold: every hold
				post SQ key k "1"
				receive SQ $hold as r
				post SQ key k after 150ms "2" as two
				soon:
					nothing SQ // this does what is due, and the key is held
					equal two.state pending
				post SQ key k "3"
				rollback r
				take SQ -> "1", "2", "3"
		`),
	)
}
