package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// verdict counts violations of the promises.
type verdict struct {
	Lost, Doubled, Disordered, Stuck, Broken int

	Operations int            // sends and handler calls
	Faults     map[string]int // by kind
	Problems   []string       // the first of them, for people
}

func (v *verdict) problem(n *int, format string, args ...any) {
	*n++
	if len(v.Problems) < 20 {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

func (v *verdict) bad() bool { return v.Lost+v.Doubled+v.Disordered+v.Stuck+v.Broken > 0 }

func (v *verdict) String() string {
	return fmt.Sprintf("lost %d, doubled %d, out of order %d, stuck %d, broken %d",
		v.Lost, v.Doubled, v.Disordered, v.Stuck, v.Broken)
}

// message names a message by its place in its stream.
type message struct {
	Stream string
	Seq    int
}

// span is the time of a handler call whose effect was committed.
type span struct {
	message
	from, to time.Time
}

// check judges a history by the effects that are there at its end, in the order in
// which they were written. stall is the longest time without progress, while messages
// wait and no fault is on.
func check(history []event, effects []effect, stall time.Duration) *verdict {
	v := &verdict{Faults: make(map[string]int)}
	slices.SortStableFunc(history, func(a, b event) int { return a.At.Compare(b.At) })
	state := make(map[message]kind)
	due := make(map[message]time.Time)
	calls := make(map[string]*span)
	for _, e := range history {
		m := message{e.Stream, e.Seq}
		switch e.Kind {
		case sending:
			v.Operations++
			state[m] = unknown
			due[m] = e.At.Add(time.Duration(e.After))
		case sent, undone, unknown:
			state[m] = e.Kind
		case began:
			v.Operations++
			calls[e.Attempt] = &span{message: m, from: e.At}
			if at, ok := due[m]; ok && e.At.Before(at) {
				v.problem(&v.Broken, "%v was handled %v too early", m, at.Sub(e.At))
			}
		case returned:
			if s := calls[e.Attempt]; s != nil {
				s.to = e.At
			}
		case fault:
			v.Faults[e.Name]++
		}
	}
	v.effects(state, effects)
	v.holders(calls, effects)
	v.progress(history, effects, stall)
	return v
}

// effects compares what was committed by senders with what receivers committed.
func (v *verdict) effects(state map[message]kind, effects []effect) {
	count := make(map[message]int)
	last := make(map[string]int)
	for _, e := range effects {
		m := message{e.Stream, e.Seq}
		count[m]++
		if count[m] > 1 {
			v.problem(&v.Doubled, "%v has %d effects", m, count[m])
			continue
		}
		switch state[m] {
		case undone:
			v.problem(&v.Broken, "%v was rolled back, and was received", m)
		case "":
			v.problem(&v.Broken, "%v was received, and never sent", m)
		}
		if before, ok := last[e.Stream]; ok && e.Seq < before {
			v.problem(&v.Disordered, "%v came behind number %d", m, before)
		}
		last[e.Stream] = max(last[e.Stream], e.Seq)
	}
	for m, k := range state {
		if k == sent && count[m] == 0 {
			v.problem(&v.Lost, "%v was committed, and has no effect", m)
		}
	}
}

// holders finds two receivers that were in one stream at the same time, both of
// which committed. One that was fenced may overlap with its successor.
func (v *verdict) holders(calls map[string]*span, effects []effect) {
	byStream := make(map[string][]*span)
	for _, e := range effects {
		s := calls[e.Attempt]
		switch {
		case s == nil || s.message != message{e.Stream, e.Seq}:
			v.problem(&v.Broken, "effect of %s %d by attempt %q, which no handler was called for", e.Stream, e.Seq, e.Attempt)
		case !s.to.IsZero():
			byStream[e.Stream] = append(byStream[e.Stream], s)
		}
	}
	for stream, list := range byStream {
		slices.SortFunc(list, func(a, b *span) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
		for i := 1; i < len(list); i++ {
			if list[i].from.Before(list[i-1].to) {
				v.problem(&v.Broken, "two receivers had stream %s at the same time, with %d and %d",
					stream, list[i-1].Seq, list[i].Seq)
			}
		}
	}
}

// progress looks for a time in which messages waited, nothing hindered, and no handler
// that committed returned.
func (v *verdict) progress(history []event, effects []effect, stall time.Duration) {
	committed := make(map[string]bool, len(effects))
	arrives := make(map[message]bool, len(effects))
	for _, e := range effects {
		committed[e.Attempt] = true
		arrives[message{e.Stream, e.Seq}] = true
	}
	var since time.Time // of the last progress, or when there was something to do
	waiting, faults := 0, 0
	tell := func(now time.Time) {
		if waiting > 0 && faults == 0 && !since.IsZero() && now.Sub(since) > stall {
			v.problem(&v.Stuck, "%d messages waited, and for %v none was settled", waiting, now.Sub(since).Round(time.Millisecond))
			since = now
		}
	}
	for _, e := range history {
		tell(e.At)
		switch e.Kind {
		case sent:
			// A handler may return before its sender has written down its success.
			if e.After == 0 {
				if waiting++; waiting == 1 {
					since = e.At
				}
			}
		case returned:
			if committed[e.Attempt] && arrives[message{e.Stream, e.Seq}] {
				waiting, since = max(0, waiting-1), e.At
			}
		case fault:
			faults++
		case healed:
			if faults--; faults == 0 {
				since = e.At
			}
		}
	}
}
