package console

import (
	"fmt"
	"time"

	"github.com/parleymq/parley/phases"
)

// gantt is the picture of a plan. Each phase is a band with a line at its end, and each task a bar. The next phase
// waits for that line. Of many tasks a phase has one bar.
type gantt struct {
	Height   float64
	Ticks    []tick
	Bands    []band
	Bars     []bar
	Barriers []barrier
	Now      float64 // where the present is; zero: all tasks are over
	Text     string  // what it shows, for those who do not see it
	Each     bool    // a bar stands for a task
}

type tick struct {
	X     float64
	Label string
}

// band is the room of a phase.
type band struct {
	Y, Height float64
	Label     string
	Note      string
	Waits     string // for what, if none of its tasks has begun
	Odd       bool
}

// LabelY is the height of the label's foot.
func (b band) LabelY() float64 { return b.Y + 15 }

// MiddleY is the height of the foot of a text in its middle.
func (b band) MiddleY() float64 { return b.Y + b.Height/2 + 4 }

// NoteY is the height of the note's foot.
func (b band) NoteY() float64 { return b.Y + 28 }

// bar is a task, or the tasks of a phase.
type bar struct {
	X, Y, Width, Height float64
	Done                float64 // of the width, for the tasks of a phase
	Class               string
	Label               string // beside it, if there is room
	Title               string
	Wait                float64 // where its wait since the submission began, if that is to be seen
}

// barrier is the end of a phase, at which the next one may begin.
type barrier struct {
	X, Y, To float64
	Title    string
}

// The measures of the picture: its width, the rooms to the left and the right of its bars, and that of the times above.
const (
	ganttWidth = 1000
	ganttLeft  = 150
	ganttRight = 90
	ganttTop   = 26
)

// scale places times.
type scale struct {
	from time.Time
	span time.Duration
}

func (s scale) x(t time.Time) float64 {
	part := float64(t.Sub(s.from)) / float64(s.span)
	return ganttLeft + (ganttWidth-ganttLeft-ganttRight)*min(max(part, 0), 1)
}

// picture draws tasks. It is nil if there are none.
func picture(all []phases.TaskStatus, halted bool, now time.Time) *gantt {
	if len(all) == 0 {
		return nil
	}
	s, moving := scaleOf(all, now)
	g := &gantt{Each: len(all) <= tasksDrawn, Ticks: s.ticks()}
	if moving {
		g.Now = s.x(now)
	}
	list := byPhase(all)
	y := float64(ganttTop)
	row := rowHeight(len(all))
	before := 0
	for i, tasks := range list {
		p := phaseOf(tasks, now)
		b := band{Y: y, Label: fmt.Sprintf("Phase %d", tasks[0].Phase), Odd: i%2 == 1, Note: p.note()}
		switch {
		case p.open < len(tasks):
		case before > 0:
			b.Waits = fmt.Sprintf("waits for phase %d", list[i-1][0].Phase)
		case halted:
			b.Waits = "waits: the plan is halted"
		}
		if g.Each {
			b.Height = row*float64(len(tasks)) + 12
			for n, t := range tasks {
				g.Bars = append(g.Bars, s.task(t, now, y+6+row*float64(n), row))
			}
		} else {
			b.Height = 40
			g.Bars = append(g.Bars, s.phase(p, tasks[0].Phase, now, y+10))
		}
		if b.Height < 34 {
			b.Height = 34
		}
		g.Bands = append(g.Bands, b)
		if p.left == 0 && i+1 < len(list) && !p.ended.IsZero() && !(halted && p.dead > 0) {
			g.Barriers = append(g.Barriers, barrier{X: s.x(p.ended), Y: y, To: y + b.Height,
				Title: fmt.Sprintf("Phase %d is over; phase %d may begin", tasks[0].Phase, list[i+1][0].Phase)})
		}
		y += b.Height
		before += p.left
	}
	for i := range g.Barriers { // a line reaches into the phase that waited for it
		for _, b := range g.Bands {
			if b.Y == g.Barriers[i].To {
				g.Barriers[i].To += b.Height
				break
			}
		}
	}
	g.Height = y + 8
	g.Text = fmt.Sprintf("%s in %s over %s", plural(len(all), "task"), plural(len(list), "phase"), age(s.span))
	return g
}

// scaleOf finds the times that the picture shows, and whether the present is one of them.
func scaleOf(all []phases.TaskStatus, now time.Time) (s scale, moving bool) {
	var first, last, submitted time.Time
	for _, t := range all {
		if submitted.IsZero() || t.Submitted.Before(submitted) {
			submitted = t.Submitted
		}
		if !t.Started.IsZero() && (first.IsZero() || t.Started.Before(first)) {
			first = t.Started
		}
		if t.Ended.After(last) {
			last = t.Ended
		}
		moving = moving || !terminal(t.State)
	}
	if first.IsZero() {
		first = submitted
	}
	if moving || last.IsZero() {
		last = now
	}
	return scale{first, max(last.Sub(first), time.Millisecond)}, moving
}

func terminal(s phases.State) bool { return s.Terminal() }

func rowHeight(tasks int) float64 {
	switch {
	case tasks <= 60:
		return 22
	case tasks <= 160:
		return 12
	}
	return 7
}

// phaseTasks is what is known of the tasks of a phase.
type phaseTasks struct {
	n, left, open, dead, running int
	started, ended               time.Time
}

func phaseOf(tasks []phases.TaskStatus, now time.Time) (p phaseTasks) {
	p.n = len(tasks)
	for _, t := range tasks {
		if !terminal(t.State) {
			p.left++
		}
		switch t.State {
		case phases.StateQueued:
			p.open++
		case phases.StateDead:
			p.dead++
		case phases.StateRunning:
			p.running++
		}
		if !t.Started.IsZero() && (p.started.IsZero() || t.Started.Before(p.started)) {
			p.started = t.Started
		}
		if t.Ended.After(p.ended) {
			p.ended = t.Ended
		}
	}
	return p
}

func (p phaseTasks) note() string {
	note := fmt.Sprintf("%s of %s over", number(p.n-p.left), number(p.n))
	if p.running > 0 {
		note += fmt.Sprintf(", %d running", p.running)
	}
	if p.dead > 0 {
		note += fmt.Sprintf(", %d dead", p.dead)
	}
	return note
}

// future is how wide a task is drawn that has not begun: its place is right of the present.
const future = 26

// task draws a task.
func (s scale) task(t phases.TaskStatus, now time.Time, y, row float64) bar {
	b := bar{Y: y, Height: row - max(2, row/4), Class: shape(t.State)}
	took := taskTook(t, now)
	name := t.Type
	if t.Attempts > 1 {
		name = fmt.Sprintf("%s ×%d", name, t.Attempts)
	}
	if took == 0 {
		b.X, b.Width = s.x(now)+6, future
		if terminal(t.State) { // it was cancelled or skipped before it began
			b.X = s.x(t.Ended)
		}
		b.Title = fmt.Sprintf("%s: %s since %s", name, t.State, t.Submitted.UTC().Format(time.DateTime))
	} else {
		b.X = s.x(t.Started)
		b.Width = max(s.x(t.Started.Add(took))-b.X, 3)
		if wait := s.x(t.Submitted); wait < b.X-3 {
			b.Wait = wait
		}
		b.Title = fmt.Sprintf("%s: %s, %s from %s on, by %s", name, t.State, age(took), t.Started.UTC().Format(time.TimeOnly), t.Owner)
	}
	if t.Error != "" {
		b.Title += ": " + brief(t.Error)
	}
	if row >= 20 {
		b.Label = name
	}
	return b
}

// Middle is the height of the bar's middle.
func (b bar) Middle() float64 { return b.Y + b.Height/2 }

// Text is where the label stands: behind the bar, or inside it if there is no room behind.
func (b bar) Text() (at labelAt) {
	at = labelAt{b.X + b.Width + 6, b.Middle() + 4, "start", ""}
	if room := float64(7 * len(b.Label)); at.X+room > ganttWidth {
		at = labelAt{b.X + b.Width - 6, at.Y, "end", " inside"}
	}
	return at
}

// labelAt places a label.
type labelAt struct {
	X, Y   float64
	Anchor string
	Class  string
}

// phase draws the tasks of a phase as one bar, filled as far as they are over.
func (s scale) phase(p phaseTasks, number int, now time.Time, y float64) bar {
	b := bar{Y: y, Height: 20, Class: "busy", Title: fmt.Sprintf("Phase %d: %s", number, p.note())}
	switch {
	case p.dead > 0:
		b.Class = "bad"
	case p.left == 0:
		b.Class = "done"
	}
	if p.started.IsZero() {
		b.X, b.Width, b.Class = s.x(now)+6, future, "ready"
		return b
	}
	end := p.ended
	if p.left > 0 {
		end = now
	}
	b.X = s.x(p.started)
	b.Width = max(s.x(end)-b.X, 3)
	b.Done = b.Width * float64(p.n-p.left) / float64(p.n)
	return b
}

// ticks are times at round distances.
func (s scale) ticks() (list []tick) {
	steps := []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
		10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour,
		3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
	step := steps[len(steps)-1]
	for _, d := range steps {
		if s.span/d <= 8 {
			step = d
			break
		}
	}
	for s.span/step > 12 {
		step *= 2
	}
	for at := time.Duration(0); at <= s.span; at += step {
		label := "0"
		if at > 0 {
			label = "+" + age(at)
		}
		list = append(list, tick{s.x(s.from.Add(at)), label})
	}
	return list
}
