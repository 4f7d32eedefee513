package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A history is what a run did, as far as its processes could tell, and what it
// left in the database. The check compares the two and knows nothing of how
// either came about.
type history struct {
	sent    []*sent
	effects []effect
	holds   []hold
	cuts    []cut
}

// sent is a message of a sender. Its token is in its body and nowhere else.
type sent struct {
	token  string
	stream string
	origin string // who counted place
	place  int    // in the order in which origin wrote to its streams
	fate   fate
}

// fate is what became of the transaction that sent a message.
type fate int

const (
	undone    fate = iota // rolled back, or never ended
	committed             // the commit returned without error
	maybe                 // the run does not know: the process or its connection died in the commit
)

func (f fate) String() string { return [...]string{"undone", "committed", "maybe"}[f] }

// effect is a row that was written in the transaction that acknowledged a
// message: the only proof of receipt that a crash between commit and report
// leaves intact.
type effect struct {
	stream string
	index  int // 0, 1, 2, … in each stream, in the order of the commits
	token  string
}

// hold is a time during which a receiver had a group, and with it the streams of which
// it was given messages, to itself. It lasts from after the group was given to before
// it was given back. Time is counted from the start of the run.
type hold struct {
	who     string
	group   string
	streams []string
	from    time.Duration
	to      time.Duration
	// settled holds were ours to the end. Others may have ended when the next
	// process was killed.
	settled bool
	// until is when a hold by lease may have run out, if its heartbeats did not
	// get through. Zero: it was no lease.
	until time.Duration
	// undone holds were of a transaction that was rolled back. A lease that ran
	// out may have one in it and be settled all the same: nothing has changed.
	undone bool
}

// cut is a time in which a process was killed, or a connection cut.
type cut struct{ from, to time.Duration }

func (h hold) String() string {
	end := "settled"
	switch {
	case h.undone:
		end = "rolled back"
	case !h.settled:
		end = "not settled"
	}
	if h.until > 0 {
		end += fmt.Sprintf(", lease until %v or longer", h.until)
	}
	return fmt.Sprintf("%s from %v to %v (%s)", h.who, h.from, h.to, end)
}

// violations is what the check found. The first five are faults.
type violations struct {
	lost, doubled, twoInGroup, outOfOrder, ghosts int

	received int
	problems []string // what happened, with its surroundings
}

// maxProblems is how many of a kind are told in full.
const maxProblems = 5

func (h *history) check() *violations {
	v := &violations{}
	h.checkReceipts(v)
	h.checkOrder(v)
	h.checkHolds(v)
	return v
}

// checkReceipts looks for what was lost, what was received twice, and what was
// received though it was never sent.
func (h *history) checkReceipts(v *violations) {
	times := make(map[string]int, len(h.effects))
	for _, e := range h.effects {
		times[e.token]++
	}
	v.received = len(times)
	known := make(map[string]*sent, len(h.sent))
	for _, s := range h.sent {
		known[s.token] = s
		if s.fate == committed && times[s.token] == 0 {
			v.lost++
			v.tell(v.lost, "lost", h.around(s.stream, s.token))
		}
	}
	for _, e := range h.effects {
		s := known[e.token]
		if s == nil || s.fate == undone || s.stream != e.stream {
			v.ghosts++
			v.tell(v.ghosts, "received though it was not sent", h.around(e.stream, e.token))
		}
		if times[e.token] > 1 {
			v.doubled += times[e.token] - 1
			v.tell(v.doubled, fmt.Sprintf("received %d times", times[e.token]), h.around(e.stream, e.token))
			times[e.token] = 1
		}
	}
}

// checkOrder compares, in each stream and for each sender that counts, the order
// of receipt with the order of sending. Messages that stand in no order have a
// stream each.
func (h *history) checkOrder(v *violations) {
	known := make(map[string]*sent, len(h.sent))
	for _, s := range h.sent {
		known[s.token] = s
	}
	type counter struct{ stream, origin string }
	last := make(map[counter]*sent)
	for _, e := range h.ordered() {
		s := known[e.token]
		if s == nil {
			continue
		}
		c := counter{e.stream, s.origin}
		if before := last[c]; before != nil && s.place < before.place {
			v.outOfOrder++
			v.tell(v.outOfOrder, "received after "+before.token, h.around(e.stream, e.token))
			continue
		}
		last[c] = s
	}
}

// ordered returns the effects by stream and then in the order of the commits.
func (h *history) ordered() []effect {
	list := slices.Clone(h.effects)
	slices.SortStableFunc(list, func(a, b effect) int {
		if c := strings.Compare(a.stream, b.stream); c != 0 {
			return c
		}
		return a.index - b.index
	})
	return list
}

// checkHolds looks for two receivers in one group, or with the same stream in
// hand, at the same time.
func (h *history) checkHolds(v *violations) {
	spans := make(map[string][]hold)
	for _, one := range h.holds {
		one.to = h.end(one)
		if one.to <= one.from {
			continue
		}
		spans["group "+one.group] = append(spans["group "+one.group], one)
		for _, s := range one.streams {
			spans["stream "+s] = append(spans["stream "+s], one)
		}
	}
	for what, list := range spans {
		slices.SortFunc(list, func(a, b hold) int { return int(a.from - b.from) })
		var open []hold // that may reach beyond the one looked at
		for _, b := range list {
			open = slices.DeleteFunc(open, func(a hold) bool { return a.to <= b.from })
			for _, a := range open {
				if b.undone && a.until > 0 && a.until <= b.from {
					continue
				}
				v.twoInGroup++
				v.tell(v.twoInGroup, "two receivers", fmt.Sprintf("%s: %v and %v", what, a, b))
			}
			open = append(open, b)
		}
	}
}

// end is until when a hold can be relied on.
func (h *history) end(one hold) time.Duration {
	if one.settled {
		return one.to
	}
	to := one.to
	if one.until > 0 && one.until < to {
		to = one.until
	}
	for _, c := range h.cuts {
		if c.to > one.from && c.from < to {
			to = max(c.from, one.from)
		}
	}
	return to
}

func (v *violations) tell(count int, what, where string) {
	if count <= maxProblems {
		v.problems = append(v.problems, what+": "+where)
	}
}

// around shows a message in what was sent and received on its stream.
func (h *history) around(stream, token string) string {
	const reach = 4
	window := func(n int, name func(int) (string, bool)) string {
		at := -1
		var all []string
		for i := range n {
			text, here := name(i)
			if text == "" {
				continue
			}
			if here && at < 0 {
				at = len(all)
			}
			all = append(all, text)
		}
		if at < 0 {
			at = len(all)
		}
		return strings.Join(all[max(at-reach, 0):min(at+reach+1, len(all))], ", ")
	}
	out := window(len(h.sent), func(i int) (string, bool) {
		s := h.sent[i]
		if s.stream != stream || s.fate == undone && s.token != token {
			return "", false
		}
		return fmt.Sprintf("%s@%d %v", s.token, s.place, s.fate), s.token == token
	})
	effects := h.ordered()
	in := window(len(effects), func(i int) (string, bool) {
		e := effects[i]
		if e.stream != stream {
			return "", false
		}
		return fmt.Sprintf("%d:%s", e.index, e.token), e.token == token
	})
	return fmt.Sprintf("message %s of stream %s\n    sent: %s\n    received: %s", token, stream, out, in)
}
