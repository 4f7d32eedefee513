package main

import (
	"slices"
	"time"
)

// onePrograms are faults of a single program, which must not hinder the others.
var onePrograms = []string{"kill", "stop"}

// progress looks for a time in which messages waited, nothing hindered all programs, and no
// handler that committed returned.
func (j *judge) progress(stall time.Duration) {
	type change struct {
		at              time.Time
		waiting, faults int
	}
	var list []change
	done := make(map[message]time.Time)
	for _, c := range j.committedCalls() {
		if c.to.IsZero() {
			continue
		}
		done[c.message] = c.to
		list = append(list, change{at: c.to})
	}
	begin := j.arrivals()
	for m, to := range done {
		// A handler may return before its sender has written down its success.
		if from, ok := begin[m]; ok && from.Before(to) {
			list = append(list, change{from, 1, 0}, change{to, -1, 0})
		}
	}
	for _, e := range j.history {
		if slices.Contains(onePrograms, e.Name) {
			continue
		}
		switch e.Kind {
		case fault:
			list = append(list, change{e.At, 0, 1})
		case healed:
			list = append(list, change{e.At, 0, -1})
		}
	}
	slices.SortFunc(list, func(a, b change) int { return a.at.Compare(b.at) })
	var since time.Time // of the last progress, or when there was something to do
	waiting, faults := 0, 0
	for _, c := range list {
		if d := c.at.Sub(since); waiting > 0 && faults == 0 && d > stall {
			j.problem(&j.Stuck, "%d messages waited, and for %v none was settled", waiting, d.Round(time.Millisecond))
		}
		if waiting, faults = waiting+c.waiting, faults+c.faults; c.waiting <= 0 || waiting == 1 {
			since = c.at
		}
	}
}

// arrivals says since when messages wait: from their commit, or when they are due.
func (j *judge) arrivals() map[message]time.Time {
	list := make(map[message]time.Time)
	for _, e := range j.history {
		m := message{e.Stream, e.Seq}
		p := j.messages[m]
		switch {
		case p == nil || p.state != sent:
		case e.Kind == sent:
			list[m] = e.At
		case e.Kind == posted && j.committed[e.Attempt] && j.calls[e.Attempt] != nil:
			list[m] = j.calls[e.Attempt].to
		}
	}
	for m, at := range list {
		if due := j.messages[m].arrives; due.After(at) {
			list[m] = due
		}
	}
	return list
}
