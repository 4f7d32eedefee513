package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

// planRow is a plan with its tasks by state.
type planRow struct {
	phases.Status
	Tasks int
}

// Bar is the share of each state.
func (p planRow) Bar() []share100 {
	n := p.Counts
	return shares(part100{"done", n[phases.StateDone]}, part100{"over", n[phases.StateSkipped] + n[phases.StateCancelled]},
		part100{"busy", n[phases.StateRunning]}, part100{"wait", n[phases.StateQueued]}, part100{"late", n[phases.StateFailed]}, part100{"bad", n[phases.StateDead]})
}

// Waiting is how many tasks wait for their phase, a worker or their next attempt.
func (p planRow) Waiting() int { return p.Counts[phases.StateQueued] + p.Counts[phases.StateFailed] }

// Dead is how many tasks have failed for good.
func (p planRow) Dead() int { return p.Counts[phases.StateDead] }

// State says how the plan is, in a word.
func (p planRow) State() string {
	switch {
	case p.Halted:
		return "halted"
	case p.Over:
		return "over"
	case p.Running > 0:
		return "running"
	}
	return "open"
}

// stateCount is how many tasks are in a state.
type stateCount struct {
	State phases.State
	N     int
}

// Each is the number of tasks in each state.
func (p planRow) Each() (list []stateCount) {
	for _, s := range []phases.State{phases.StateQueued, phases.StateRunning, phases.StateFailed, phases.StateDead, phases.StateDone,
		phases.StateSkipped, phases.StateCancelled} {
		if n := p.Counts[s]; n > 0 {
			list = append(list, stateCount{s, n})
		}
	}
	return list
}

func newPlanRow(s phases.Status) planRow {
	p := planRow{Status: s}
	for _, n := range s.Counts {
		p.Tasks += n
	}
	return p
}

func (h *Handler) readPlans(ctx context.Context, _ url.Values) (any, error) {
	// Counting reads all tasks, so it is done less often.
	return cached(ctx, &h.cache, "plans", 2*h.opt.Interval, func() ([]planRow, error) {
		list, err := phases.List(ctx, h.b)
		rows := make([]planRow, len(list))
		for i, s := range list {
			rows[i] = newPlanRow(s)
		}
		return rows, err
	})
}

// planData is a plan with its picture and a page of its log.
type planData struct {
	Row     planRow
	Picture *gantt
	Tasks   []phases.TaskStatus
	After   string
	Next    string
	Limited bool // the picture shows the first tasks only
}

func (d *planData) pageTitle() string { return "Plan " + d.Row.Name }

// How many tasks a page has, a picture is drawn of, and a picture has a bar for.
const (
	tasksShown = 100
	tasksRead  = 10000
	tasksDrawn = 500
)

func (h *Handler) readPlan(ctx context.Context, q url.Values) (any, error) {
	p, err := phases.Find(ctx, h.b, q.Get("name"))
	if err != nil {
		return nil, err
	}
	s, err := p.Status(ctx)
	if err != nil {
		return nil, err
	}
	d := &planData{Row: newPlanRow(s), After: q.Get("after")}
	all, err := tasksOf(ctx, p)
	if err != nil {
		return nil, err
	}
	d.Limited = len(all) < d.Row.Tasks
	d.Picture = picture(all, s.Halted, time.Now())
	d.Tasks = all
	if d.After != "" {
		after, err := parseID(d.After)
		if err != nil {
			return nil, err
		}
		if d.Tasks, err = p.Log(ctx, after, tasksShown+1); err != nil {
			return nil, err
		}
	}
	if len(d.Tasks) > tasksShown {
		d.Tasks = d.Tasks[:tasksShown]
		d.Next = d.Tasks[tasksShown-1].ID.String()
	}
	return d, nil
}

// tasksOf reads a plan's first tasks.
func tasksOf(ctx context.Context, p *phases.Plan) (all []phases.TaskStatus, err error) {
	const page = 2000
	var after parley.ID
	for len(all) < tasksRead {
		list, err := p.Log(ctx, after, page)
		all = append(all, list...)
		if err != nil || len(list) < page {
			return all, err
		}
		after = list[len(list)-1].ID
	}
	return all, nil
}

// taskTook is how long a task ran, or runs.
func taskTook(t phases.TaskStatus, now time.Time) time.Duration {
	switch {
	case t.Started.IsZero():
		return 0
	case !t.Ended.IsZero():
		return max(t.Ended.Sub(t.Started), 1)
	case t.State == phases.StateRunning:
		return max(now.Sub(t.Started), 1)
	}
	return 0
}

// taskWaited is how long a task waited before its last attempt began.
func taskWaited(t phases.TaskStatus) time.Duration {
	if t.Started.IsZero() {
		return 0
	}
	return max(t.Started.Sub(t.Submitted), 0)
}

// byPhase are the tasks of each phase, in order.
func byPhase(all []phases.TaskStatus) (list [][]phases.TaskStatus) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b phases.TaskStatus) int { return cmp.Compare(a.Phase, b.Phase) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Phase == all[0].Phase {
			n++
		}
		list, all = append(list, all[:n]), all[n:]
	}
	return list
}
