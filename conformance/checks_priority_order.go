package conformance

// prioLevels is the beginning of scripts about priorities: of conversations of Client with the
// service s7 those of Client have priority 7.
const prioLevels = `
			each n: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10
				define service s$n on SQ lists Contract
				define rule r$n local Client remote s$n level $n
			group one
			group two
`

func init() {
	add(
		scripted("P04", "higher groups come first, as long as they are", prioLevels+`
			begin high to s9 group one ""
			begin low to s2 group one ""
			begin middle to s3 group two ""
			each d, body: low, "2, oldest" | middle, "3" | high, "9, youngest"
				send $d.peer $body
				pause 2ms // for stores whose clock is coarse
			order CQ "9, youngest" "3" "2, oldest"

			each n: 1 | 4 | 5 | 6 | 7 | 8 | 10 // all levels, youngest first
				begin d to s$n ""
				send d.peer "$n"
				pause 2ms
			order CQ "10" "8" "7" "6" "5" "4" "1"
		`, alone),
		scripted("P04", "what a receiver has in hand does not count", `
			// The order is that of what can be had. What is in hand, of whatever kind and priority,
			// helps nothing of its kind past others.
			broker other
			each hold: every hold
				each like, unlike: as, key | key, as // as: a post without key
					post SQ $like "held $hold" priority 8 type Any "8"
					other: receive SQ $hold as held -> "8"
					post SQ $like "a $hold" priority 3 type Any "3"
					pause 2ms
					post SQ $unlike "b $hold" priority 5 type Any "5, old"
					pause 2ms
					post SQ $like "c $hold" priority 5 type Any "5, young"
					pause 2ms
					post SQ $unlike "d $hold" priority 4 type Any "4"
					order SQ "5, old" "5, young" "4" "3"
					ack held
		`, alone),
		scripted("P05", "a group ranks by its highest conversation with messages", prioLevels+`
			begin high to s9 group one ""
			begin low to s2 group one ""
			begin middle to s3 group two ""
			each d, n: low, 2 | middle, 3
				send $d.peer "$n"
				pause 2ms
			order CQ "3" "2" // the conversation of 9 has no message

			each d, n: low, 2 | middle, 3 | high, 9
				send $d.peer "$n"
				pause 2ms
			receive CQ as r -> "9", "2"
			equal r.group one
			rollback r
			order CQ "9" "3" "2" // one by one

			each d, n: middle, 3 | low, 2 | high, 9
				send $d.peer "$n"
				pause 2ms
			move high to two // a conversation that is moved away takes its rank along
			receive CQ as r -> "9", "3"
			equal r.group two
			ack r
			order CQ "2"
		`, alone),
		scripted("P05", "a group is as old as its best conversation", prioLevels+`
			begin low to s3 group one ""
			begin between to s8 group two ""
			begin high to s8 group one ""
			each d, body: low, "old, low" | between, "between, high" | high, "young, high"
				send $d.peer $body
				pause 2ms
			order CQ "between, high" "young, high" "old, low"
		`, alone),
	)
}
