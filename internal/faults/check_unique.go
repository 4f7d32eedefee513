package main

import (
	"slices"
	"strings"
	"time"
)

// uniques finds two posts with one value that were pending at the same time, and two that were posted in one period. A
// post is pending at least from the moment when its sender knows of the commit until a handler is called for it.
func (j *judge) uniques() {
	type pending struct {
		message
		from, to time.Time
	}
	first := make(map[message]time.Time) // the first call
	for _, c := range j.calls {
		if at, ok := first[c.message]; !ok || c.from.Before(at) {
			first[c.message] = c.from
		}
	}
	skipped := make(map[message]bool)
	for _, e := range j.history {
		if e.Kind == skipping {
			skipped[message{e.Stream, e.Seq}] = true
		}
	}
	values := make(map[string][]pending)
	periods := make(map[string]map[time.Time]message)
	for _, e := range j.history {
		m := message{e.Stream, e.Seq}
		switch {
		case e.Name == "" || e.Kind != sent || skipped[m] || j.cancelled[m] != "":
		case strings.HasPrefix(e.Name, "unique "):
			if to, ok := first[m]; ok && to.After(e.At) {
				values[e.Name] = append(values[e.Name], pending{m, e.At, to})
			}
		case strings.HasPrefix(e.Name, "per ") && !j.messages[m].logged.IsZero():
			start, end := e.Since.Truncate(period), j.messages[m].logged.Truncate(period)
			if !start.Equal(end) {
				continue
			}
			if periods[e.Name] == nil {
				periods[e.Name] = make(map[time.Time]message)
			}
			if before, ok := periods[e.Name][start]; ok {
				j.problem(&j.Doubled, "%v and %v were posted as %q in one period", before, m, e.Name)
			}
			periods[e.Name][start] = m
		}
	}
	for value, list := range values {
		slices.SortFunc(list, func(a, b pending) int { return a.from.Compare(b.from) })
		last := list[0]
		for _, p := range list[1:] {
			if p.from.Before(last.to) {
				j.problem(&j.Doubled, "%v and %v were pending at the same time as %q", last.message, p.message, value)
			}
			if p.to.After(last.to) {
				last = p
			}
		}
	}
}
