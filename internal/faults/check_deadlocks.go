package main

import "time"

// aftermath is how long after a fault transactions may still end in its way.
const aftermath = 2 * time.Second

// deadlocks finds transactions that only sent, and lost against another one without a fault. Senders wait for each
// other in one order, and never for a handler.
func (j *judge) deadlocks() {
	faults, calm := 0, time.Time{} // since when
	for _, e := range j.history {
		switch e.Kind {
		case fault:
			faults++
		case healed:
			faults--
			calm = e.At.Add(aftermath)
		case deadlocked:
			if faults == 0 && e.At.After(calm) {
				j.problem(&j.Broken, "a sender lost against another transaction: %s", e.Name)
			}
		}
	}
}
