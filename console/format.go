package console

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/phases"
)

// functions are what templates call.
var functions = template.FuncMap{
	"age":     age,
	"number":  number,
	"size":    size,
	"short":   short,
	"id":      func(id parley.ID) string { return id.String() },
	"no":      func(id parley.ID) bool { return id.IsZero() },
	"exact":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"stamp":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"ago":     func(t time.Time) string { return relative(time.Since(t)) },
	"brief":   brief,
	"static":  func(name string) string { return "static/" + name + "?v=" + statics[name].digest },
	"nav":     navigation,
	"plus":    func(a, b int) int { return a + b },
	"nameof":  nameOf,
	"plural":  plural,
	"waits":   waitOrWaits,
	"acts":    func(queue string, g parley.GroupStatus, place int) groupActs { return groupActs{g, queue, place} },
	"shape":   shape,
	"before":  func(d time.Duration) time.Time { return time.Now().Add(-d) },
	"waited":  taskWaited,
	"took":    func(t phases.TaskStatus) time.Duration { return taskTook(t, time.Now()) },
	"grouped": grouped,
	"f":       func(x float64) string { return fmt.Sprintf("%.1f", x) },
}

// groupActs is a group of a queue, for what can be done to it.
type groupActs struct {
	parley.GroupStatus
	Queue string
	Place int // in the order
}

// age formats a duration for people, with two units at most. Examples are 4 ms, 3.2 s, 5 min 10 s and 3
// d 4 h.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + age(-d)
	case d == 0:
		return "–"
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return two(int(d.Hours()/24), "d", int(d.Hours())%24, "h")
}

func two(n int, unit string, m int, lesser string) string {
	if m == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, m, lesser)
}

// relative says when something was, or will be.
func relative(d time.Duration) string {
	switch {
	case d < -time.Second:
		return "in " + age(-d)
	case d < time.Second:
		return "now"
	}
	return age(d) + " ago"
}

// number is a count, of which the store counts no more than backend.CountLimit.
func number(n int) string {
	if n >= backend.CountLimit {
		return "10k+"
	}
	return grouped(int64(n))
}

// grouped is a number with a narrow space between thousands.
func grouped(n int64) string {
	if n < 0 {
		return "−" + grouped(-n)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s\u202f%03d", grouped(n/1000), n%1000)
}

func size(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// short is the part of an id by which people tell ids apart. The beginning is the time, which many share.
func short(id parley.ID) string { return "…" + id.String()[24:] }

// brief is the first line of a text, as far as a table shows it.
func brief(s string) string {
	const long = 160
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if utf8.RuneCountInString(s) > long {
		s, more = string([]rune(s)[:long]), true
	}
	if more {
		s += " …"
	}
	return s
}

// states are the styles of all states: a shape as well as a colour, because not everyone can tell colours apart.
var shapes = map[string]string{
	"ready": "ready", "queued": "ready", "open": "ready", "active": "ready", "CO": "ready", "SO": "ready",
	"held": "busy", "running": "busy",
	"deferred": "late", "failed": "late", "delayed": "late", "paused": "late", "waits": "late", "withheld": "late", "disabled": "late",
	"parked": "bad", "dead": "bad", "halted": "bad", "error": "bad",
	"done": "done", "over": "over", "skipped": "over", "cancelled": "over", "sealed": "over", "closed": "over",
}

func shape(state any) string {
	if s, ok := shapes[fmt.Sprint(state)]; ok {
		return s
	}
	return "plain"
}

// spark is the picture of a queue's depth: its way and the room below it.
type spark struct{ Line, Area string }

const sparkWidth, sparkHeight = 120, 28

// sparkOf draws samples of the last minutes. It is empty if there are fewer than two.
func sparkOf(list []sample) *spark {
	if len(list) < 2 {
		return nil
	}
	from, to := list[0].at, list[len(list)-1].at
	highest := slices.MaxFunc(list, func(a, b sample) int { return a.depth - b.depth }).depth
	var line strings.Builder
	for i, s := range list {
		x := float64(sparkWidth) * float64(s.at.Sub(from)) / float64(max(to.Sub(from), 1))
		y := sparkHeight - 2 - float64(sparkHeight-4)*float64(s.depth)/float64(max(highest, 1))
		if i > 0 {
			line.WriteByte(' ')
		}
		fmt.Fprintf(&line, "%.1f,%.1f", x, y)
	}
	return &spark{line.String(), fmt.Sprintf("0,%d %s %d,%d", sparkHeight, line.String(), sparkWidth, sparkHeight)}
}
