package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

// plan has the verbs for plans and their tasks.
func (c *call) plan() *cobra.Command {
	return c.family("plan", "Inspect and operate plans and their tasks",
		c.verb("list", "List plans", "parley plan list", cobra.NoArgs, func(ctx context.Context, b *parley.Broker, _ []string) error {
			list, err := phases.List(ctx, b)
			if err != nil {
				return err
			}
			return c.printPlans(list)
		}),
		c.planVerb("show NAME", "Show a plan", "parley plan show night", func(ctx context.Context, p *phases.Plan) error {
			status, err := p.Status(ctx)
			if err != nil {
				return err
			}
			return c.printPlans([]phases.Status{status})
		}),
		c.planLog(), c.runningTasks(),
		c.planVerb("seal NAME", "Seal a plan, so that it accepts no more tasks", "parley plan seal night",
			func(ctx context.Context, p *phases.Plan) error { return p.Seal(ctx) }),
		c.planVerb("delete NAME", "Delete a plan that is over", "parley plan delete night",
			func(ctx context.Context, p *phases.Plan) error { return p.Delete(ctx) }),
		c.taskVerb("cancel", "Cancel waiting and running tasks", (*phases.Plan).Cancel),
		c.taskVerb("retry", "Retry dead tasks", (*phases.Plan).Retry),
		c.taskVerb("skip", "Skip dead tasks, so that the plan goes on", (*phases.Plan).Skip),
	)
}

// planVerb makes a command that works on one plan.
func (c *call) planVerb(use, short, example string, do func(context.Context, *phases.Plan) error) *cobra.Command {
	return c.verb(use, short, example, cobra.ExactArgs(1), func(ctx context.Context, b *parley.Broker, args []string) error {
		p, err := phases.Find(ctx, b, args[0])
		if err != nil {
			return err
		}
		return do(ctx, p)
	})
}

// taskVerb makes a command that works on some tasks of a plan, or on all.
func (c *call) taskVerb(name, short string, do func(*phases.Plan, context.Context, ...parley.ID) (int, error)) *cobra.Command {
	return c.verb(name+" NAME [TASK...]", short+"; without TASK, all tasks of the plan", "parley plan "+name+" night", cobra.MinimumNArgs(1),
		func(ctx context.Context, b *parley.Broker, args []string) error {
			p, err := phases.Find(ctx, b, args[0])
			if err != nil {
				return err
			}
			tasks, err := ids(args[1:])
			if err != nil {
				return err
			}
			n, err := do(p, ctx, tasks...)
			if err != nil {
				return err
			}
			return c.count(name, "tasks", n)
		})
}

func (c *call) planLog() *cobra.Command {
	var after string
	var limit int
	cmd := c.planVerb("log NAME", "List a plan's tasks, with who ran them and when", "parley plan log night --limit 20",
		func(ctx context.Context, p *phases.Plan) (err error) {
			var from parley.ID
			if after != "" {
				if from, err = parley.ParseID(after); err != nil {
					return err
				}
			}
			return c.printTasks(p.Log(ctx, from, limit))
		})
	cmd.Flags().StringVar(&after, "after", "", "begin after this task `id`")
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most `n` tasks")
	return cmd
}

func (c *call) runningTasks() *cobra.Command {
	var limit int
	cmd := c.verb("running", "List the running tasks of all plans", "parley plan running", cobra.NoArgs,
		func(ctx context.Context, b *parley.Broker, _ []string) error {
			return c.printTasks(phases.Log(ctx, b, phases.Query{Running: true, Limit: limit}))
		})
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most `n` tasks")
	return cmd
}

func (c *call) printPlans(list []phases.Status) error {
	const columns = "PLAN\tSTATE\tPHASE\tQUEUED\tRUNNING\tFAILED\tDONE\tDEAD\tCANCELLED\tSKIPPED\tACTIVE\tSAYS"
	return c.print(list, columns, func(row func(...any)) {
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
			n := s.Counts
			row(s.Name, state, phase, n[phases.StateQueued], n[phases.StateRunning], n[phases.StateFailed], n[phases.StateDone],
				n[phases.StateDead], n[phases.StateCancelled], n[phases.StateSkipped], active, firstLine(s.Error))
		}
	})
}

func (c *call) printTasks(list []phases.TaskStatus, err error) error {
	if err != nil {
		return err
	}
	const columns = "TASK\tPLAN\tPHASE\tTYPE\tSTATE\tATTEMPTS\tCALLER\tWORKER\tSUBMITTED\tSTARTED\tTOOK\tSAYS"
	return c.print(list, columns, func(row func(...any)) {
		for _, t := range list {
			took := "-"
			switch {
			case !t.Ended.IsZero() && !t.Started.IsZero():
				took = age(t.Ended.Sub(t.Started))
			case t.State == phases.StateRunning:
				took = age(time.Since(t.Started)) + "…"
			}
			row(t.ID, t.Plan, t.Phase, t.Type, t.State, t.Attempts, t.Caller, t.Owner, clock(t.Submitted), clock(t.Started), took, firstLine(t.Error))
		}
	})
}
