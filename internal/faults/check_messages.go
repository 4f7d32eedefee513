package main

import (
	"cmp"
	"slices"
	"time"
)

// effects compares what was committed by senders with what receivers committed.
func (j *judge) effects() {
	attempts := make(map[message][]string)
	last := make(map[string]int)
	for _, e := range j.rows.effects {
		m := message{e.Stream, e.Seq}
		if attempts[m] = append(attempts[m], e.Attempt); len(attempts[m]) > 1 {
			j.problem(&j.Doubled, "%v has %d effects, of the attempts %v", m, len(attempts[m]), attempts[m])
			continue
		}
		switch p := j.messages[m]; {
		case isTick(m.Stream):
		case p == nil:
			j.problem(&j.Broken, "%v was received, and never sent", m)
		case p.state == undone:
			j.problem(&j.Broken, "%v was rolled back, and was received", m)
		case j.cancelled[m] == removed:
			j.problem(&j.Doubled, "%v was removed by its sender, and was received", m)
		}
		if before, ok := last[e.Stream]; ok && e.Seq < before {
			j.problem(&j.Disordered, "%v came behind number %d", m, before)
		}
		last[e.Stream] = max(last[e.Stream], e.Seq)
	}
	for m, p := range j.messages {
		if k := j.cancelled[m]; p.state == sent && attempts[m] == nil && k != removed && k != cancelling {
			j.problem(&j.Lost, "%v was committed, and has no effect", m)
		}
	}
}

// early finds delayed posts and timers that were handled before their time, also by
// handlers that did not commit.
func (j *judge) early(slack time.Duration) {
	for _, c := range j.calls {
		if p := j.messages[c.message]; p != nil && len(p.parents) == 0 && c.from.Before(p.arrives.Add(-slack)) {
			j.problem(&j.Broken, "%v was handled %v too early", c.message, p.arrives.Sub(c.from))
		}
	}
}

// committedCalls returns the calls that have an effect, in the order of the effects.
func (j *judge) committedCalls() (list []*call) {
	for _, e := range j.rows.effects {
		if c := j.calls[e.Attempt]; c != nil && c.message == (message{e.Stream, e.Seq}) {
			c.later = e.Hot == leftToReply
			list = append(list, c)
		}
	}
	return list
}

// holders finds two receivers that were in one stream or group at the same time and both
// committed. A fenced receiver may overlap with its successor.
func (j *judge) holders() {
	for _, e := range j.rows.effects {
		if c := j.calls[e.Attempt]; c == nil || c.message != (message{e.Stream, e.Seq}) {
			j.problem(&j.Broken, "effect of %s #%d by attempt %q, which no handler was called for", e.Stream, e.Seq, e.Attempt)
		}
	}
	for held, list := range byHold(j.committedCalls()) {
		slices.SortFunc(list, func(a, b *call) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
		for i := 1; i < len(list); i++ {
			if a, b := list[i-1], list[i]; b.from.Before(a.to) {
				j.problem(&j.Broken, "two receivers had %s at the same time, with %v and %v", held, a.message, b.message)
			}
		}
	}
}

// handovers finds an effect by an attempt whose hold had been taken over: it stands
// behind one of an attempt that began later.
func (j *judge) handovers() {
	for held, list := range byHold(slices.DeleteFunc(j.committedCalls(), func(c *call) bool { return c.later })) {
		for i := 1; i < len(list); i++ {
			if a, b := list[i-1], list[i]; b.from.Before(a.from) {
				j.problem(&j.Broken, "%v was settled by a receiver that had lost %s to that of %v", b.message, held, a.message)
			}
		}
	}
}

// byHold sorts calls by what only one receiver may have: streams, and groups of several
// streams.
func byHold(calls []*call) map[string][]*call {
	held := make(map[string][]*call)
	streams := make(map[string]string) // the first one of a group
	mixed := make(map[string]bool)
	for _, c := range calls {
		held["stream "+c.Stream] = append(held["stream "+c.Stream], c)
		if c.group != "" {
			held["group "+c.group] = append(held["group "+c.group], c)
			if first, ok := streams[c.group]; !ok {
				streams[c.group] = c.Stream
			} else if first != c.Stream {
				mixed[c.group] = true
			}
		}
	}
	for group := range streams {
		if !mixed[group] { // the stream says the same
			delete(held, "group "+group)
		}
	}
	return held
}

// hot compares the counts in hot rows with the effects that were written with them.
func (j *judge) hot() {
	count := make(map[int]int)
	for _, e := range j.rows.effects {
		if e.Hot >= 0 {
			count[e.Hot]++
		}
	}
	for id, n := range j.rows.hot {
		if count[id] != n {
			j.problem(&j.Broken, "row %d was counted up %d times, and has %d effects", id, n, count[id])
		}
	}
}
