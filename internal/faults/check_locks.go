package main

import (
	"slices"
	"strings"
	"time"
)

// together says which modes two owners may hold, written down here once more so that
// the library is not its own judge.
var together = map[string]string{
	"IS": "IS S U IX",
	"S":  "IS S U",
	"U":  "IS S",
	"IX": "IS IX",
	"X":  "",
}

// hold is a time in which a lock was certainly held.
type hold struct {
	attempt, mode string
	from, to      time.Time
}

// locks finds two owners that held one lock at once in modes that exclude each other, and still had
// it when they released it. It also finds writes behind those of a later owner.
func (j *judge) locks() {
	open := make(map[string]*hold)
	held := make(map[string][]*hold) // by the name of the lock, in the order of their beginnings
	for _, e := range j.history {
		switch e.Kind {
		case locked:
			h := &hold{attempt: e.Attempt, mode: e.Name, from: e.At}
			open[e.Attempt] = h
			held[e.Stream] = append(held[e.Stream], h)
		case unlocking:
			if h := open[e.Attempt]; h != nil {
				h.to = e.At
			}
		case unlocked:
			delete(open, e.Attempt)
		}
	}
	for name, list := range held {
		var certain []*hold
		for _, h := range list {
			if open[h.attempt] == h {
				continue // it may have been lost at an unknown time
			}
			for _, other := range certain {
				if h.from.Before(other.to) && !compatible(h.mode, other.mode) {
					j.problem(&j.Broken, "%s was held by %s in mode %s and by %s in mode %s",
						name, other.attempt, other.mode, h.attempt, h.mode)
				}
			}
			certain = append(latest(certain, h.from), h)
		}
	}
	last := make(map[string]int64)
	for _, e := range j.rows.locks {
		if e.Fence < last[e.Lock] {
			j.problem(&j.Broken, "%s: %s wrote with fence %d behind %d", e.Lock, e.Attempt, e.Fence, last[e.Lock])
		}
		last[e.Lock] = max(last[e.Lock], e.Fence)
	}
}

// latest leaves those of the holds that last beyond a time.
func latest(list []*hold, at time.Time) (rest []*hold) {
	for _, h := range list {
		if h.to.After(at) {
			rest = append(rest, h)
		}
	}
	return rest
}

func compatible(a, b string) bool { return slices.Contains(strings.Fields(together[a]), b) }
