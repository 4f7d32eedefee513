package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
)

// schedule looks after schedules and their tasks.
func schedule(ctx context.Context, c *call) error {
	after := c.flags.String("after", "", "begin the log after this task `id`")
	limit := c.flags.Int("limit", 100, "show at most `n` tasks")
	if err := c.parse(1, math.MaxInt); err != nil {
		return err
	}
	verb := c.args[0]
	lists := verb == "list" || verb == "running"
	changes := map[string]func(*parley.Scheduler, context.Context, ...parley.ID) (int, error){
		"cancel": (*parley.Scheduler).Cancel, "retry": (*parley.Scheduler).Retry, "skip": (*parley.Scheduler).Skip,
	}
	switch change := changes[verb]; {
	case lists && len(c.args) == 1:
	case change != nil && len(c.args) > 1:
	case len(c.args) == 2 && strings.Contains(" show log seal release ", " "+verb+" "):
	default:
		c.flags.Usage()
		return errUsage
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	switch verb {
	case "list":
		list, err := b.Admin().Schedules(ctx)
		if err != nil {
			return err
		}
		return c.printSchedules(list)
	case "running":
		return c.printTasks(b.Admin().TaskLog(ctx, parley.TaskQuery{Running: true, Limit: *limit}))
	}
	s, err := b.FindScheduler(ctx, c.args[1])
	if err != nil {
		return err
	}
	switch verb {
	case "show":
		status, err := s.Status(ctx)
		if err != nil {
			return err
		}
		return c.printSchedules([]parley.ScheduleStatus{status})
	case "log":
		var from parley.ID
		if *after != "" {
			if from, err = parley.ParseID(*after); err != nil {
				return err
			}
		}
		return c.printTasks(s.Log(ctx, from, *limit))
	case "seal":
		return s.Seal(ctx)
	case "release":
		return s.Release(ctx)
	}
	var tasks []parley.ID
	for _, arg := range c.args[2:] {
		id, err := parley.ParseID(arg)
		if err != nil {
			return err
		}
		tasks = append(tasks, id)
	}
	n, err := changes[verb](s, ctx, tasks...)
	if err == nil {
		c.printf("%s: %d tasks\n", verb, n)
	}
	return err
}

func (c *call) printSchedules(list []parley.ScheduleStatus) error {
	return c.print(list, "SCHEDULE\tSTATE\tPHASE\tQUEUED\tRUNNING\tFAILED\tDONE\tDEAD\tCANCELLED\tSKIPPED\tACTIVE\tSAYS", func(row func(...any)) {
		for _, s := range list {
			state, phase, active := "open", fmt.Sprint(s.Phase), "-"
			switch {
			case s.Halted:
				state = "halted"
			case s.Over:
				state = "over"
			}
			if s.Over {
				phase = "-"
			}
			if s.Sealed {
				state += ", sealed"
			}
			if s.Options.MaxActive > 0 {
				active = fmt.Sprint(s.Options.MaxActive)
			}
			row(s.Name, state, phase, s.Counts[parley.TaskQueued], s.Counts[parley.TaskRunning], s.Counts[parley.TaskFailed],
				s.Counts[parley.TaskDone], s.Counts[parley.TaskDead], s.Counts[parley.TaskCancelled], s.Counts[parley.TaskSkipped], active, firstLine(s.Error))
		}
	})
}

func (c *call) printTasks(list []parley.TaskStatus, err error) error {
	if err != nil {
		return err
	}
	return c.print(list, "TASK\tSCHEDULE\tPHASE\tTYPE\tSTATE\tATTEMPTS\tCALLER\tWORKER\tSUBMITTED\tSTARTED\tTOOK\tSAYS", func(row func(...any)) {
		for _, t := range list {
			took := "-"
			switch {
			case !t.Ended.IsZero() && !t.Started.IsZero():
				took = age(t.Ended.Sub(t.Started))
			case t.State == parley.TaskRunning:
				took = age(time.Since(t.Started)) + "…"
			}
			row(t.ID, t.Schedule, t.Phase, t.Type, t.State, t.Attempts, t.Caller, t.Owner, clock(t.Submitted), clock(t.Started), took, firstLine(t.Error))
		}
	})
}

// locks lists who has application locks and who waits for them.
func locks(ctx context.Context, c *call) error {
	if err := c.parse(0, 1); err != nil {
		return err
	}
	prefix := ""
	if len(c.args) == 1 {
		prefix = c.args[0]
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	list, err := applock.List(ctx, b, prefix)
	if err != nil {
		return err
	}
	return c.print(list, "LOCK\tOWNER\tMODE\tSTATE\tTIMES\tFENCE\tSINCE", func(row func(...any)) {
		for _, l := range list {
			state := "held"
			if l.Waiting {
				state = "waits"
			}
			row(l.Name, l.Owner, l.Mode, state, l.Count, l.Fence, age(l.For))
		}
	})
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("15:04:05.000")
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
