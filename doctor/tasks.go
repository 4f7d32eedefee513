package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// plans looks at all plans that are not over.
func (d *diagnosis) plans(ctx context.Context) error {
	list, err := backend.Offered(d.be.Plans(ctx, ""))
	for _, s := range list {
		if err := d.plan(ctx, s); err != nil {
			return err
		}
	}
	return err
}

// idleFor is how long nothing has to happen in a plan for a finding.
const idleFor = 10 * time.Second

func (d *diagnosis) plan(ctx context.Context, s backend.PlanStatus) error {
	obj := objPlan(s.Name)
	waiting := s.Counts[backend.TaskQueued] + s.Counts[backend.TaskFailed]
	switch {
	case s.Over:
	case s.Halted:
		d.add(true, codeHalted, obj, "parley plan retry or skip "+s.Name+", with the id of the dead task",
			"halted before phase %d, since a task is dead, and %d tasks wait: %s", s.Phase, waiting, firstLine(s.Error))
	case s.Running > 0 && waiting > 0:
		later, err := d.later(ctx, s)
		if err != nil {
			return err
		}
		if later > 0 {
			d.add(false, codeBarrier, obj, "parley plan running",
				"%d tasks or more wait for phase %d, of which %d are running", later, s.Phase, s.Running)
		}
	case waiting > 0:
		idle, err := d.idle(ctx, s)
		if err != nil {
			return err
		}
		if idle > idleFor {
			d.add(true, codeNoPool, obj, "start a phases.Pool with a handler for its tasks",
				"%d tasks wait, none is running, and nothing has happened for %s", waiting, round(idle))
		}
	}
	return nil
}

// later counts tasks of later phases, among those that were submitted last.
func (d *diagnosis) later(ctx context.Context, s backend.PlanStatus) (n int, err error) {
	return n, d.eachTask(ctx, s.Name, func(t backend.TaskStatus) bool {
		if t.Phase > s.Phase && !t.State.Terminal() {
			n++
		}
		return n < 100
	})
}

// idle is the time since a task of the open phase was submitted or ended. It is zero if a failed
// task waits for its next attempt.
func (d *diagnosis) idle(ctx context.Context, s backend.PlanStatus) (time.Duration, error) {
	if s.Counts[backend.TaskQueued] == 0 {
		return 0, nil
	}
	var last time.Time
	queued := false
	err := d.eachTask(ctx, s.Name, func(t backend.TaskStatus) bool {
		queued = queued || t.State == backend.TaskQueued && t.Phase == s.Phase
		for _, at := range []time.Time{t.Submitted, t.Started, t.Ended} {
			if at.After(last) {
				last = at
			}
		}
		return true
	})
	if err != nil || !queued {
		return 0, err
	}
	now, err := d.now(ctx)
	return now.Sub(last), err
}

// eachTask calls f for the tasks of a plan until it returns false.
func (d *diagnosis) eachTask(ctx context.Context, plan string, f func(backend.TaskStatus) bool) error {
	const page = 1000
	for after := (parley.ID{}); ; {
		list, err := d.be.TaskLog(ctx, backend.TaskQuery{Plan: plan, After: after, Limit: page})
		if err != nil {
			return err
		}
		for _, t := range list {
			if !f(t) {
				return nil
			}
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

// task looks for a task in all plans.
func (d *diagnosis) task(ctx context.Context, id parley.ID) (known bool, err error) {
	list, err := backend.Offered(d.be.Plans(ctx, ""))
	for _, s := range list {
		if err != nil || known {
			break
		}
		err = d.eachTask(ctx, s.Name, func(t backend.TaskStatus) bool {
			if t.ID == id {
				known = true
				d.tell(s, t)
			}
			return !known
		})
		if err == nil && known {
			err = d.plan(ctx, s)
		}
	}
	return known, err
}

func (d *diagnosis) tell(s backend.PlanStatus, t backend.TaskStatus) {
	obj := "task " + t.ID.String() + " of " + objPlan(s.Name)
	switch {
	case t.State.Terminal():
		d.add(t.State == backend.TaskDead, codeTaskOver, obj, "", "it is %s, after %d attempts: %s", t.State, t.Attempts, firstLine(t.Error))
	case t.State == backend.TaskRunning:
		d.add(false, codeTaskHeld, obj, "", "held by %s", t.Owner)
	case t.Phase > s.Phase:
		d.add(false, codeBarrier, obj, "parley plan show "+s.Name, "a task of phase %d waits for phase %d", t.Phase, s.Phase)
	}
}

// locks looks for requests of application locks that wait.
func (d *diagnosis) locks(ctx context.Context) error {
	list, err := backend.Offered(d.be.AppLocks(ctx, ""))
	holders := make(map[string][]string)
	for _, l := range list {
		if !l.Waiting {
			holders[l.Name] = append(holders[l.Name], fmt.Sprintf("%s (%s, for %s)", l.Owner, l.Mode, round(l.For)))
		}
	}
	for _, l := range list {
		if l.Waiting {
			d.add(false, codeLock, objLock(l.Name), "parley locks", "%s has waited for it, in mode %s, for %s; it is held by %s",
				l.Owner, l.Mode, round(l.For), strings.Join(holders[l.Name], ", "))
		}
	}
	return err
}

func objPlan(name string) string { return fmt.Sprintf("plan %q", name) }

// objLock shortens a name, which may be any text.
func objLock(name string) string {
	if long := []rune(name); len(long) > 60 {
		name = string(long[:60]) + "…"
	}
	return fmt.Sprintf("lock %q", name)
}

// firstLine is the first line of a stored error that says anything.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}
