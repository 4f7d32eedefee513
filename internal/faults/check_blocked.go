package main

import "time"

// block is a time in which a group was parked or deferred.
type block struct{ from, to time.Time }

// blocked finds effects of handlers that were called for a group while it was parked,
// or deferred and not yet due.
func (j *judge) blocked() {
	blocks := make(map[string][]*block)
	for _, e := range j.history {
		switch e.Kind {
		case parked:
			b := &block{from: e.At}
			if e.After > 0 {
				b.to = e.Since.Add(time.Duration(e.After))
			}
			blocks[e.Group] = append(blocks[e.Group], b)
		case unparking:
			for _, b := range blocks[e.Group] {
				if b.to.IsZero() || e.At.Before(b.to) {
					b.to = e.At
				}
			}
		}
	}
	for _, c := range j.committedCalls() {
		for _, b := range blocks[c.group] {
			if c.from.After(b.from) && (b.to.IsZero() || c.from.Before(b.to)) {
				j.problem(&j.Broken, "%v was handled while its group %s was parked or deferred", c.message, c.group)
			}
		}
	}
}
