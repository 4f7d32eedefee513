package main

import (
	"slices"
	"strings"
	"time"
)

// isTick reports whether a stream is that of a recurring job, whose messages no sender writes down.
func isTick(stream string) bool { return strings.HasPrefix(stream, "tick/") }

// ticks finds due times without a message between others, and messages that came before their time.
func (j *judge) ticks(slack time.Duration) {
	for _, e := range j.history {
		if early := e.Since.Sub(e.At); e.Kind == ticked && early > slack {
			j.problem(&j.Broken, "%v was handled %v too early", message{e.Stream, e.Seq}, early)
		}
	}
	jobs := make(map[string][]int)
	for _, e := range j.rows.effects {
		if isTick(e.Stream) {
			job := strings.Split(e.Stream, "/")[1]
			jobs[job] = append(jobs[job], e.Seq)
			j.Load["tick"]++
		}
	}
	for job, list := range jobs {
		slices.Sort(list)
		for i, n := range list[1:] {
			for missing := list[i] + 1; missing < n; missing++ {
				j.problem(&j.Lost, "the job %q had no message number %d", job, missing)
			}
		}
	}
}
