package main

import (
	"slices"
	"strings"
	"time"
)

// gone is how long after its last sign what a program had in hand is certainly free
// again: its lease is over.
const gone = 10 * time.Second

// claim is a look for one message.
type claim struct {
	stream   string // what it returned, "" if that was nothing
	from, to time.Time
	known    bool      // it returned without an error
	free     time.Time // if not: what it may have taken is certainly free from then on
}

// promotions finds a claim that returned a post without promotion though a promoted one
// waited all the while. The promotion had committed before the claim began, and no
// other claim can have had the promoted post by the end of this one.
func (j *judge) promotions() {
	claims := j.claims()
	asked := j.firsts(promoting)
	taken := make(map[string]time.Time) // when the first claim began that returned it
	var doubtful []*claim
	for _, c := range claims {
		if !c.known {
			doubtful = append(doubtful, c)
		} else if _, ok := taken[c.stream]; !ok {
			taken[c.stream] = c.from
		}
	}
	for stream, since := range j.firsts(promoted) {
		first, _ := slices.BinarySearchFunc(claims, since, func(c *claim, t time.Time) int { return c.from.Compare(t) })
		for _, c := range claims[first:] {
			if at, ok := taken[stream]; ok && at.Before(c.to) {
				break // and so before the ends of all that follow, if they look at it at all
			}
			if at, ok := asked[c.stream]; !c.known || c.stream == "" || ok && at.Before(c.to) {
				continue
			}
			if !slices.ContainsFunc(doubtful, func(d *claim) bool { return d.from.Before(c.to) && d.free.After(c.from) }) {
				j.problem(&j.Broken, "%s was received while %s waited, whose promotion had committed %v before",
					c.stream, stream, c.from.Sub(since).Round(time.Microsecond))
				break // one of them tells enough
			}
		}
	}
}

// firsts says when the first event of a kind was written for each stream.
func (j *judge) firsts(k kind) map[string]time.Time {
	list := make(map[string]time.Time)
	for _, e := range j.history {
		if _, ok := list[e.Stream]; e.Kind == k && !ok {
			list[e.Stream] = e.At
		}
	}
	return list
}

// claims returns the claims in the order of their beginnings.
func (j *judge) claims() (list []*claim) {
	open := make(map[string]*claim)
	last := make(map[string]time.Time) // the last sign of each program
	for _, e := range j.history {
		last[programOf(e.Attempt)] = e.At
		switch e.Kind {
		case claiming:
			open[e.Attempt] = &claim{from: e.At}
			list = append(list, open[e.Attempt])
		case claimed:
			if c := open[e.Attempt]; c != nil {
				c.stream, c.to, c.known, c.free = e.Stream, e.At, e.Name == "", e.At.Add(gone)
				delete(open, e.Attempt)
			}
		}
	}
	for attempt, c := range open {
		c.free = last[programOf(attempt)].Add(gone)
	}
	return list
}

// programOf is the program's part of the name of an attempt.
func programOf(attempt string) string {
	name, _, _ := strings.Cut(attempt, ".")
	return name
}
