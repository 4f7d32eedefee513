package main

import (
	"strconv"
	"testing"
	"time"
)

// at is a time at a number of seconds.
func at(second int) time.Time { return time.Unix(1000+int64(second), 0) }

// step is an event of the stream s, and of its group.
func step(second int, k kind, seq int, attempt string) event {
	e := event{At: at(second), Kind: k, Stream: "s", Seq: seq, Attempt: attempt}
	if k == began {
		e.Group = "g"
	}
	return e
}

// row is the effect of an attempt on the stream s.
func row(seq int, attempt string) effect {
	return effect{Stream: "s", Seq: seq, Attempt: attempt, Hot: notHot}
}

// forged is a history, and what is in the tables at its end.
type forged struct {
	history []event
	rows
}

func (f *forged) add(e ...event) { f.history = append(f.history, e...) }

// sound is a history without a violation.
func sound() *forged {
	return &forged{[]event{
		step(1, sending, 0, ""), step(2, sent, 0, ""), step(3, sending, 1, ""), step(4, sent, 1, ""),
		step(5, began, 0, "a"), step(6, returned, 0, "a"), step(7, began, 1, "b"), step(8, returned, 1, "b"),
	}, rows{effects: []effect{row(0, "a"), row(1, "b")}}}
}

// judged compares the violations on a sound history, changed, with a text.
func judged(t *testing.T, forge func(f *forged), want string) {
	t.Helper()
	f := sound()
	forge(f)
	v := check(f.history, f.rows, 10*time.Second, 0)
	if got := v.String(); got != want {
		t.Errorf("%s, want %s\n%q", got, want, v.Problems)
	}
}

// TestSlack: clocks of programs that differ make something early by as much, and by no more.
func TestSlack(t *testing.T) {
	for after, want := range map[time.Duration]string{3 * time.Second: nothing, 5 * time.Second: oneBroken} {
		f := sound()
		f.history[2].After = int64(after) // from the third second on, and handled in the seventh
		f.history[2].At = at(5)
		if got := check(f.history, f.rows, 10*time.Second, 2*time.Second).String(); got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
}

const (
	nothing   = "lost 0, doubled 0, out of order 0, stuck 0, broken 0"
	oneBroken = "lost 0, doubled 0, out of order 0, stuck 0, broken 1"
	oneLost   = "lost 1, doubled 0, out of order 0, stuck 0, broken 0"
	oneStuck  = "lost 0, doubled 0, out of order 0, stuck 1, broken 0"
)

// forgery changes a sound history, of which the checker must then say what is wanted.
type forgery struct {
	forge func(f *forged)
	want  string
}

func judgeAll(t *testing.T, list map[string]forgery) {
	for name, c := range list {
		t.Run(name, func(t *testing.T) { judged(t, c.forge, c.want) })
	}
}

// TestForgedMessages has violations by messages found, and what is none let pass.
func TestForgedMessages(t *testing.T) {
	judgeAll(t, map[string]forgery{
		"sound": {func(*forged) {}, nothing},
		"lost":  {func(f *forged) { f.effects = f.effects[:1] }, oneLost},
		"doubled": {func(f *forged) {
			f.add(step(9, began, 1, "c"), step(10, returned, 1, "c"))
			f.effects = append(f.effects, row(1, "c"))
		}, "lost 0, doubled 1, out of order 0, stuck 0, broken 0"},
		"out of order": {func(f *forged) {
			f.history[4], f.history[6] = step(5, began, 1, "b"), step(7, began, 0, "a")
			f.history[5], f.history[7] = step(6, returned, 1, "b"), step(8, returned, 0, "a")
			f.effects = []effect{row(1, "b"), row(0, "a")}
		}, "lost 0, doubled 0, out of order 1, stuck 0, broken 0"},
		"rolled back and received": {func(f *forged) { f.history[3] = step(4, undone, 1, "") }, oneBroken},
		"never sent": {func(f *forged) {
			f.add(step(9, began, 5, "c"), step(10, returned, 5, "c"))
			f.effects = append(f.effects, row(5, "c"))
		}, oneBroken},
		"unknown and absent": {func(f *forged) {
			f.history[3] = step(4, unknown, 1, "")
			f.history, f.effects = f.history[:6], f.effects[:1]
		}, nothing},
		"unknown and received":      {func(f *forged) { f.history[3] = step(4, unknown, 1, "") }, nothing},
		"killed before the outcome": {func(f *forged) { f.history = append(f.history[:3:3], f.history[4:]...) }, nothing},
		"no handler was called":     {func(f *forged) { f.effects[1].Attempt = "none" }, oneBroken},
		"too early":                 {func(f *forged) { f.history[2].After = int64(time.Minute) }, oneBroken},
		"too early by a handler that failed": {func(f *forged) {
			f.history[2].After = int64(4 * time.Second)
			f.add(step(6, began, 1, "failed"), step(6, returned, 1, "failed"))
		}, oneBroken},
		"a program ended": {func(f *forged) { f.add(event{At: at(9), Kind: failed, Name: "error"}) }, oneBroken},
		"a count without its effect": {func(f *forged) {
			f.effects[0].Hot, f.hot = 3, map[int]int{3: 2}
		}, oneBroken},
		"counts with their effects": {func(f *forged) {
			f.effects[0].Hot, f.effects[1].Hot, f.hot = 3, 3, map[int]int{3: 2, 4: 0}
		}, nothing},
	})
}

// child are the events and the effect of a message that the attempt a sends.
func child(f *forged, by string) {
	f.add(event{At: at(5), Kind: posted, Stream: "child", Attempt: by},
		event{At: at(9), Kind: began, Stream: "child", Attempt: "c"},
		event{At: at(10), Kind: returned, Stream: "child", Attempt: "c"})
	f.effects = append(f.effects, effect{Stream: "child", Attempt: "c", Hot: notHot})
}

// TestForgedReplies is about messages that handlers send in their transactions.
func TestForgedReplies(t *testing.T) {
	judgeAll(t, map[string]forgery{
		"sound":                              {func(f *forged) { child(f, "a") }, nothing},
		"lost":                               {func(f *forged) { child(f, "a"); f.effects = f.effects[:2] }, oneLost},
		"by an attempt that failed":          {func(f *forged) { child(f, "failed") }, oneBroken},
		"an effect that the lost reply owed": {func(f *forged) { child(f, "a"); f.effects = f.effects[1:2] }, oneLost},
		"not there, by an attempt that failed": {func(f *forged) {
			child(f, "failed")
			f.effects = f.effects[:2]
		}, nothing},
		"by the second attempt": {func(f *forged) {
			child(f, "failed")
			f.add(event{At: at(5), Kind: posted, Stream: "child", Attempt: "a"})
		}, nothing},
	})
}

// TestForgedDeadlocks is about transactions that only send.
func TestForgedDeadlocks(t *testing.T) {
	lost := event{At: at(9), Kind: deadlocked, Name: "deadlock"}
	judgeAll(t, map[string]forgery{
		"without a fault": {func(f *forged) { f.add(lost) }, oneBroken},
		"during a fault": {func(f *forged) {
			f.add(event{At: at(8), Kind: fault, Name: "cut"}, lost, event{At: at(10), Kind: healed, Name: "cut"})
		}, nothing},
		"at the end of a fault": {func(f *forged) {
			f.add(event{At: at(7), Kind: fault, Name: "cut"}, event{At: at(8), Kind: healed, Name: "cut"}, lost)
		}, nothing},
		"long after a fault": {func(f *forged) {
			f.add(event{At: at(5), Kind: fault, Name: "cut"}, event{At: at(6), Kind: healed, Name: "cut"}, lost)
		}, oneBroken},
	})
}

// TestForgedHolds is about receivers of one group.
func TestForgedHolds(t *testing.T) {
	judgeAll(t, map[string]forgery{
		"two holders of a stream": {func(f *forged) { f.history[5] = step(9, returned, 0, "a") }, oneBroken},
		"a fenced holder may overlap": {func(f *forged) {
			f.add(step(5, began, 1, "late"), step(20, returned, 1, "late"))
		}, nothing},
		"two holders of a group": {func(f *forged) {
			child(f, "a")
			f.history[len(f.history)-2].Group = "g"
			f.history[len(f.history)-2].At = at(7).Add(time.Millisecond)
		}, oneBroken},
		"other groups may overlap": {func(f *forged) {
			child(f, "a")
			f.history[len(f.history)-2].Group = "other"
			f.history[len(f.history)-2].At = at(7).Add(time.Millisecond)
		}, nothing},
		"settled after its lease was taken over": {func(f *forged) {
			child(f, "a")
			f.history[len(f.history)-2].Group = "g"
			f.effects[1], f.effects[2] = f.effects[2], f.effects[1]
		}, oneBroken},
		"settled, and its effect left to its reply": {func(f *forged) {
			child(f, "a")
			f.history[len(f.history)-2].Group = "g"
			f.effects[1].Hot = leftToReply
			f.effects[1], f.effects[2] = f.effects[2], f.effects[1]
		}, nothing},
	})
}

// TestForgedProgress is about times in which nothing moves.
func TestForgedProgress(t *testing.T) {
	judgeAll(t, map[string]forgery{
		"stuck": {func(f *forged) { f.history[7] = step(60, returned, 1, "b") }, oneStuck},
		"one program's stop excuses no stall": {func(f *forged) {
			f.history[7] = step(60, returned, 1, "b")
			f.add(event{At: at(7).Add(1), Kind: fault, Name: "stop"}, event{At: at(59), Kind: healed, Name: "stop"})
		}, oneStuck},
		"a fault excuses a stall": {func(f *forged) {
			f.history[7] = step(60, returned, 1, "b")
			f.add(event{At: at(7).Add(1), Kind: fault, Name: "server killed"}, event{At: at(59), Kind: healed, Name: "server killed"})
		}, nothing},
		"a delayed post is late": {func(f *forged) {
			f.history[2].After = int64(20 * time.Second)
			f.history[6], f.history[7] = step(59, began, 1, "b"), step(60, returned, 1, "b")
		}, oneStuck},
		"a delayed post comes in time": {func(f *forged) {
			f.history[2].After = int64(50 * time.Second)
			f.history[6], f.history[7] = step(59, began, 1, "b"), step(60, returned, 1, "b")
		}, nothing},
		"a reply is late": {func(f *forged) {
			child(f, "b")
			f.history[8].At = at(7)
			f.history[9].At, f.history[10].At = at(30), at(31)
		}, oneStuck},
	})
}

// TestForgedBlocks is about groups that operators park and defer.
func TestForgedBlocks(t *testing.T) {
	block := func(second int, k kind, after time.Duration) event {
		return event{At: at(second), Kind: k, Group: "g", After: int64(after), Since: at(second - 1)}
	}
	const between = 6 // seconds, when neither handler is called
	judgeAll(t, map[string]forgery{
		"handled while parked": {func(f *forged) { f.add(block(between, parked, 0), block(9, unparking, 0)) }, oneBroken},
		"never unparked":       {func(f *forged) { f.add(block(between, parked, 0)) }, oneBroken},
		"unparked before":      {func(f *forged) { f.add(block(3, parked, 0), block(4, unparking, 0)) }, nothing},
		"parked afterwards":    {func(f *forged) { f.add(block(9, parked, 0)) }, nothing},
		"another group":        {func(f *forged) { e := block(between, parked, 0); e.Group = "h"; f.add(e) }, nothing},
		"before it is due":     {func(f *forged) { f.add(block(between, parked, 3*time.Second)) }, oneBroken},
		"when it is due":       {func(f *forged) { f.add(block(between, parked, time.Second)) }, nothing},
		"retried before it is due": {func(f *forged) {
			f.add(block(4, parked, time.Minute), block(5, unparking, 0))
		}, nothing},
		"released before it was parked": {func(f *forged) {
			f.add(block(2, unparking, 0), block(3, unparked, 0), block(between, parked, 0))
		}, oneBroken},
		"released before the operator knows that it is parked": {func(f *forged) {
			f.add(block(between-1, unparking, 0), block(between, unparked, 0), block(between, parked, 0))
		}, nothing},
		"by a release whose program was killed": {func(f *forged) {
			f.add(block(2, unparking, 0), block(between, parked, 0))
		}, nothing},
		"by a handler that did not commit": {func(f *forged) {
			f.add(block(9, parked, 0), step(10, began, 1, "late"), step(11, returned, 1, "late"))
		}, nothing},
	})
}

// look is a claim and what came of it.
func look(from, to int, attempt, stream, name string) []event {
	return []event{{At: at(from), Kind: claiming, Attempt: attempt},
		{At: at(to), Kind: claimed, Attempt: attempt, Stream: stream, Name: name}}
}

// TestForgedPromotions is about the post p, whose promotion has committed at 12 s.
func TestForgedPromotions(t *testing.T) {
	promotion := func(f *forged) {
		f.add(event{At: at(11), Kind: promoting, Stream: "p"}, event{At: at(12), Kind: promoted, Stream: "p"})
	}
	judgeAll(t, map[string]forgery{
		"ignored": {func(f *forged) {
			promotion(f)
			f.add(look(13, 14, "x.1", "u", "")...)
			f.add(look(15, 16, "x.2", "p", "")...)
		}, oneBroken},
		"never received": {func(f *forged) { promotion(f); f.add(look(13, 14, "x.1", "u", "")...) }, oneBroken},
		"a claim that had begun before": {func(f *forged) {
			promotion(f)
			f.add(look(11, 14, "x.1", "u", "")...)
			f.add(look(15, 16, "x.2", "p", "")...)
		}, nothing},
		"another claim has it": {func(f *forged) {
			promotion(f)
			f.add(look(13, 20, "y.1", "p", "")...)
			f.add(look(14, 15, "x.1", "u", "")...)
		}, nothing},
		"a claim that failed may have it": {func(f *forged) {
			promotion(f)
			f.add(look(13, 14, "y.1", "", "error")...)
			f.add(look(15, 16, "x.1", "u", "")...)
			f.add(look(20, 21, "x.2", "p", "")...)
		}, nothing},
		"a program that was killed may have it": {func(f *forged) {
			promotion(f)
			f.add(look(13, 14, "y.1", "", "")[0])
			f.add(look(15, 16, "x.1", "u", "")...)
		}, nothing},
		"a program that was killed has it no more": {func(f *forged) {
			promotion(f)
			f.add(look(13, 14, "y.1", "", "")[0])
			f.add(look(33, 34, "x.1", "u", "")...)
		}, oneBroken},
		"another promoted one comes first": {func(f *forged) {
			promotion(f)
			f.add(event{At: at(12), Kind: promoting, Stream: "u"})
			f.add(look(13, 14, "x.1", "u", "")...)
			f.add(look(15, 16, "x.2", "p", "")...)
		}, nothing},
		"received before": {func(f *forged) {
			f.add(look(9, 10, "x.1", "p", "")...)
			promotion(f)
			f.add(look(13, 14, "x.2", "u", "")...)
		}, nothing},
	})
}

// task are the events of a task, and its effect if it commits.
func task(f *forged, stream string, from, to int, commits bool) {
	f.add(event{At: at(1), Kind: sending, Stream: stream},
		event{At: at(from), Kind: began, Stream: stream, Attempt: stream + "!"},
		event{At: at(to), Kind: returned, Stream: stream, Attempt: stream + "!"})
	if commits {
		f.effects = append(f.effects, effect{Stream: stream, Attempt: stream + "!", Hot: notHot})
	}
}

// TestForgedPhases is about the order of phases.
func TestForgedPhases(t *testing.T) {
	judgeAll(t, map[string]forgery{
		"in order": {func(f *forged) {
			task(f, taskStream("n", 1, 1), 5, 8, true)
			task(f, taskStream("n", 1, 2), 5, 7, true)
			task(f, taskStream("n", 2, 3), 8, 9, true)
		}, nothing},
		"too early": {func(f *forged) {
			task(f, taskStream("n", 1, 1), 5, 8, true)
			task(f, taskStream("n", 2, 3), 7, 9, true)
		}, oneBroken},
		"too early, and failed": {func(f *forged) {
			task(f, taskStream("n", 1, 1), 5, 8, true)
			task(f, taskStream("n", 3, 3), 7, 9, false)
		}, oneBroken},
		"other schedules": {func(f *forged) {
			task(f, taskStream("n", 1, 1), 5, 8, true)
			task(f, taskStream("m", 2, 3), 7, 9, true)
		}, nothing},
	})
}

// owned are the events of a lock that is held, and released if to is not zero.
func owned(f *forged, attempt, mode string, from, to int) {
	e := event{At: at(from), Kind: locked, Stream: "l", Name: mode, Attempt: attempt}
	f.add(e)
	for _, e.Kind = range []kind{unlocking, unlocked} {
		if e.At = at(to); to > 0 {
			f.add(e)
		}
	}
}

// TestForgedLocks is about modes and fences of application locks.
func TestForgedLocks(t *testing.T) {
	judgeAll(t, map[string]forgery{
		"exclusive together":  {func(f *forged) { owned(f, "a", "X", 1, 5); owned(f, "b", "X", 4, 6) }, oneBroken},
		"exclusive in shared": {func(f *forged) { owned(f, "a", "S", 1, 9); owned(f, "b", "X", 4, 6) }, oneBroken},
		"behind another one": {func(f *forged) {
			owned(f, "a", "S", 1, 9)
			owned(f, "c", "S", 2, 3)
			owned(f, "b", "IX", 4, 6)
		}, oneBroken},
		"shared":              {func(f *forged) { owned(f, "a", "S", 1, 9); owned(f, "b", "U", 4, 6) }, nothing},
		"one after the other": {func(f *forged) { owned(f, "a", "X", 1, 4); owned(f, "b", "X", 4, 6) }, nothing},
		"lost meanwhile":      {func(f *forged) { owned(f, "a", "X", 1, 0); owned(f, "b", "X", 4, 6) }, nothing},
		"a stale fence": {func(f *forged) {
			f.locks = []lockEffect{{"l", 1, "a"}, {"l", 3, "b"}, {"l", 2, "c"}}
		}, oneBroken},
		"fences in order": {func(f *forged) {
			f.locks = []lockEffect{{"l", 1, "a"}, {"m", 3, "b"}, {"l", 2, "c"}, {"l", 2, "c"}}
		}, nothing},
	})
}

// TestMatrix has the checker's table of modes agree with itself: it is symmetric.
func TestMatrix(t *testing.T) {
	if len(together) != len(lockModes) {
		t.Errorf("%d modes, want %d", len(together), len(lockModes))
	}
	for a := range together {
		for b := range together {
			if compatible(a, b) != compatible(b, a) {
				t.Errorf("%s with %s is not as %s with %s", a, b, b, a)
			}
		}
	}
}

// valued are the events of a post with a value, which is pending until a handler is called for it.
func valued(f *forged, name, value string, from, to int) {
	m := event{Stream: name, Name: value, Since: at(from)}
	add := func(second int, k kind) { m.At, m.Kind = at(second), k; f.add(m) }
	add(from, sending)
	add(from+1, sent)
	f.add(event{At: at(to), Kind: began, Stream: name, Attempt: name}, event{At: at(to), Kind: returned, Stream: name, Attempt: name})
	f.effects = append(f.effects, effect{Stream: name, Attempt: name, Hot: notHot})
}

// TestForgedValues is about values of which one post may be pending, or one posted in a period.
func TestForgedValues(t *testing.T) {
	const oneDoubled = "lost 0, doubled 1, out of order 0, stuck 0, broken 0"
	judgeAll(t, map[string]forgery{
		"one after the other": {func(f *forged) { valued(f, "v1", "unique 1", 1, 4); valued(f, "v2", "unique 1", 3, 6) }, nothing},
		"pending together":    {func(f *forged) { valued(f, "v1", "unique 1", 1, 6); valued(f, "v2", "unique 1", 3, 5) }, oneDoubled},
		"pending together, but for an operator": {func(f *forged) {
			valued(f, "v1", "unique 1", 1, 6)
			f.add(event{At: at(2), Kind: skipping, Stream: "v1"})
			valued(f, "v2", "unique 1", 3, 5)
		}, nothing},
		"pending behind a longer one": {func(f *forged) {
			valued(f, "v1", "unique 1", 1, 9)
			valued(f, "v2", "unique 2", 2, 4)
			valued(f, "v3", "unique 1", 6, 8)
		}, oneDoubled},
		"two periods": {func(f *forged) { valued(f, "v1", "per 1", 1, 6); valued(f, "v2", "per 1", 3, 5) }, nothing},
		"one period":  {func(f *forged) { valued(f, "v1", "per 1", 1, 4); valued(f, "v2", "per 1", 1, 5) }, oneDoubled},
	})
}

// tick is a message of a job.
func tick(f *forged, number, due, called int) {
	stream, attempt := "tick/any/"+strconv.Itoa(number), "t"+strconv.Itoa(len(f.effects))
	f.add(event{At: at(called), Kind: ticked, Stream: stream, Seq: number, Since: at(due)},
		event{At: at(called), Kind: began, Stream: stream, Seq: number, Attempt: attempt},
		event{At: at(called), Kind: returned, Stream: stream, Seq: number, Attempt: attempt})
	f.effects = append(f.effects, effect{Stream: stream, Seq: number, Attempt: attempt, Hot: notHot})
}

// TestForgedTicks is about messages of recurring jobs.
func TestForgedTicks(t *testing.T) {
	judgeAll(t, map[string]forgery{
		"sound":     {func(f *forged) { tick(f, 7, 1, 1); tick(f, 8, 2, 4); tick(f, 9, 3, 3) }, nothing},
		"missing":   {func(f *forged) { tick(f, 7, 1, 1); tick(f, 9, 3, 3) }, oneLost},
		"twice":     {func(f *forged) { tick(f, 7, 1, 1); tick(f, 7, 1, 2) }, "lost 0, doubled 1, out of order 0, stuck 0, broken 0"},
		"too early": {func(f *forged) { tick(f, 7, 2, 1); tick(f, 8, 3, 3) }, oneBroken},
	})
}

// TestForgedCancels: a post is done once or removed once.
func TestForgedCancels(t *testing.T) {
	post := func(f *forged, handled bool, outcomes ...kind) {
		m := event{Stream: "c", Attempt: "c"}
		for i, k := range append([]kind{sending, sent, cancelling}, outcomes...) {
			m.At, m.Kind = at(1+i), k
			f.add(m)
		}
		if handled {
			f.add(event{At: at(2), Kind: began, Stream: "c", Attempt: "c"}, event{At: at(7), Kind: returned, Stream: "c", Attempt: "c"})
			f.effects = append(f.effects, effect{Stream: "c", Attempt: "c", Hot: notHot})
		}
	}
	judgeAll(t, map[string]forgery{
		"removed":                 {func(f *forged) { post(f, false, removed) }, nothing},
		"removed and handled":     {func(f *forged) { post(f, true, removed) }, "lost 0, doubled 1, out of order 0, stuck 0, broken 0"},
		"kept and handled":        {func(f *forged) { post(f, true, kept) }, nothing},
		"kept and gone":           {func(f *forged) { post(f, false, kept) }, oneLost},
		"unknown and gone":        {func(f *forged) { post(f, false) }, nothing},
		"unknown and handled":     {func(f *forged) { post(f, true) }, nothing},
		"removed by another call": {func(f *forged) { post(f, false, kept, cancelling, removed) }, nothing},
	})
}

// TestForgedOnce: a key is new for one transaction.
func TestForgedOnce(t *testing.T) {
	found := func(f *forged, stream string, outcome kind, handled bool) {
		m := event{Stream: stream, Name: "once 1", Attempt: stream}
		for i, k := range []kind{sending, outcome} {
			m.At, m.Kind = at(1+i), k
			f.add(m)
		}
		if handled {
			f.add(event{At: at(3), Kind: began, Stream: stream, Attempt: stream}, event{At: at(4), Kind: returned, Stream: stream, Attempt: stream})
			f.effects = append(f.effects, effect{Stream: stream, Attempt: stream, Hot: notHot})
		}
	}
	judgeAll(t, map[string]forgery{
		"new once":               {func(f *forged) { found(f, "x", sent, true); found(f, "y", undone, false) }, nothing},
		"new twice":              {func(f *forged) { found(f, "x", sent, true); found(f, "y", unknown, true) }, "lost 0, doubled 1, out of order 0, stuck 0, broken 0"},
		"known":                  {func(f *forged) { found(f, "x", unknown, true); f.add(event{At: at(5), Kind: known, Name: "once 1"}) }, nothing},
		"known, and never new":   {func(f *forged) { f.add(event{At: at(5), Kind: known, Name: "once 1"}) }, oneBroken},
		"known by what was lost": {func(f *forged) { found(f, "x", undone, false); f.add(event{At: at(5), Kind: known, Name: "once 1"}) }, oneBroken},
	})
}

// TestForgedErrors: an error ends a conversation with what waits there.
func TestForgedErrors(t *testing.T) {
	handled := func(f *forged, streams ...string) {
		for i, stream := range streams {
			f.add(event{At: at(9 + i), Kind: began, Stream: stream, Attempt: stream}, event{At: at(10 + i), Kind: returned, Stream: stream, Attempt: stream})
			f.effects = append(f.effects, effect{Stream: stream, Attempt: stream, Hot: notHot})
		}
	}
	begun := func(f *forged) {
		f.add(event{At: at(1), Kind: sending, Stream: "dialog/d/entry"}, event{At: at(1), Kind: waived, Stream: "dialog/d/entry"},
			event{At: at(1), Kind: sending, Stream: "dialog/d/error"},
			event{At: at(2), Kind: sent, Stream: "dialog/d/entry"}, event{At: at(2), Kind: sent, Stream: "dialog/d/error"})
	}
	judgeAll(t, map[string]forgery{
		"before the error":   {func(f *forged) { begun(f); handled(f, "dialog/d/entry", "dialog/d/error") }, nothing},
		"gone with it":       {func(f *forged) { begun(f); handled(f, "dialog/d/error") }, nothing},
		"behind it":          {func(f *forged) { begun(f); handled(f, "dialog/d/error", "dialog/d/entry") }, oneBroken},
		"the error was lost": {func(f *forged) { begun(f); handled(f, "dialog/d/entry") }, oneLost},
	})
}
