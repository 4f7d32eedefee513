package main

import "time"

// block is a time in which a group was parked or deferred.
type block struct{ from, to time.Time }

// release is an operator's call that makes a group ready. A call that did not return may
// take effect at any time: its program was killed.
type release struct {
	from, to time.Time // to is zero if it did not return
}

// blocked finds effects of handlers that were called for a group while it was parked,
// or deferred and not yet due.
func (j *judge) blocked(slack time.Duration) {
	releases := make(map[string]map[string]*release) // by group, and by attempt
	for _, e := range j.history {
		switch e.Kind {
		case unparking:
			if releases[e.Group] == nil {
				releases[e.Group] = make(map[string]*release)
			}
			releases[e.Group][e.Attempt] = &release{from: e.At}
		case unparked:
			if r := releases[e.Group][e.Attempt]; r != nil {
				r.to = e.At
			}
		}
	}
	blocks := make(map[string][]block)
	for _, e := range j.history {
		if e.Kind != parked {
			continue
		}
		b := block{from: e.At}
		if e.After > 0 {
			b.to = e.Since.Add(time.Duration(e.After) - slack)
		}
		// Another operator may release the group before the one who parked it has
		// written that down.
		for _, r := range releases[e.Group] {
			if (r.to.IsZero() || r.to.After(e.Since)) && (b.to.IsZero() || r.from.Before(b.to)) {
				b.to = r.from
			}
		}
		blocks[e.Group] = append(blocks[e.Group], b)
	}
	for _, c := range j.committedCalls() {
		for _, b := range blocks[c.group] {
			if c.from.After(b.from) && (b.to.IsZero() || c.from.Before(b.to)) {
				j.problem(&j.Broken, "%v was handled while its group %s was parked or deferred", c.message, c.group)
			}
		}
	}
}
