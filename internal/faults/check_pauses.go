package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// pauses are, by the kind of fault, how many seconds no handler committed.
type pauses map[string][]float64

// summary is the median and the longest pause of a kind of fault.
func (p pauses) summary(name string) string {
	list := slices.Sorted(slices.Values(p[name]))
	if len(list) == 0 {
		return dash(0)
	}
	return fmt.Sprintf("%.1f, %.1f", list[(len(list)-1)/2], list[len(list)-1])
}

// moves are the faults that put another server in charge.
var moves = []string{"failover", "switchover"}

// pauses measures, for each move to another server, the longest time without the return of a handler that committed:
// from the fault until the first such return after it was healed.
func (j *judge) pauses() pauses {
	var returns []time.Time
	for _, c := range j.committedCalls() {
		if !c.to.IsZero() {
			returns = append(returns, c.to)
		}
	}
	slices.SortFunc(returns, time.Time.Compare)
	list := make(pauses)
	begun := make(map[string]time.Time)
	for _, e := range j.history {
		if !slices.Contains(moves, e.Name) {
			continue
		}
		if e.Kind == fault {
			begun[e.Name] = e.At
		}
		if from, ok := begun[e.Name]; ok && e.Kind == healed {
			if pause, over := longest(returns, from, e.At); over {
				list[e.Name] = append(list[e.Name], math.Round(pause.Seconds()*10)/10)
			}
		}
	}
	return list
}

// longest is the longest time between two of the returns, or a return and the beginning, until the first return after
// the end. Without such a return it is not over.
func longest(returns []time.Time, from, to time.Time) (pause time.Duration, over bool) {
	last := from
	for _, at := range returns {
		if at.Before(from) {
			continue
		}
		pause, last = max(pause, at.Sub(last)), at
		if at.After(to) {
			return pause, true
		}
	}
	return pause, false
}
