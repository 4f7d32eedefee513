package main

import (
	"strconv"
	"strings"
	"time"
)

// taskStream names a task: its schedule, phase, and number there.
func taskStream(schedule string, phase, n int) string {
	return strings.Join([]string{"task", schedule, strconv.Itoa(phase), strconv.Itoa(n)}, "/")
}

// phaseOf reads the name of a task.
func phaseOf(stream string) (schedule string, phase int, ok bool) {
	part := strings.Split(stream, "/")
	if len(part) != 4 || part[0] != "task" {
		return "", 0, false
	}
	phase, err := strconv.Atoi(part[2])
	return part[1], phase, err == nil
}

// phases finds tasks that were begun, whatever became of that, before one of an earlier
// phase had come to its end.
func (j *judge) phases() {
	type start struct {
		phase int
		at    time.Time
	}
	starts := make(map[string][]start)
	for _, c := range j.calls {
		if schedule, phase, ok := phaseOf(c.Stream); ok {
			starts[schedule] = append(starts[schedule], start{phase, c.from})
		}
	}
	for _, c := range j.committedCalls() {
		schedule, phase, ok := phaseOf(c.Stream)
		if !ok {
			continue
		}
		for _, s := range starts[schedule] {
			if s.phase > phase && s.at.Before(c.to) {
				j.problem(&j.Broken, "a task of phase %d was begun before %v had ended", s.phase, c.message)
				break
			}
		}
	}
}
