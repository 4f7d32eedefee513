package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/recurring"
)

// recurring has the verbs for recurring jobs.
func (c *call) recurring() *cobra.Command {
	change := func(name, short string, do func(context.Context, *parley.Broker, string) error) *cobra.Command {
		return c.verb(name+" JOB", short, "parley recurring "+name+" digest", cobra.ExactArgs(1),
			func(ctx context.Context, b *parley.Broker, args []string) error { return do(ctx, b, args[0]) })
	}
	cmd := c.family("recurring", "Inspect and operate recurring jobs",
		c.verb("list", "List jobs, when they are due and what went wrong", "parley recurring list", cobra.NoArgs,
			func(ctx context.Context, b *parley.Broker, _ []string) error {
				list, err := recurring.List(ctx, b)
				if err != nil {
					return err
				}
				return c.printRecurring(list)
			}),
		c.defineRecurring(),
		change("run", "Post the job's message now; the due times stay as they are", func(ctx context.Context, b *parley.Broker, job string) error {
			id, err := recurring.RunNow(ctx, b, job)
			if err == nil || errors.Is(err, recurring.ErrPending) {
				c.printf("%s\n", id)
			}
			return err
		}),
		change("pause", "Pause a job, so that its due times pass", recurring.Pause),
		change("resume", "Resume a job after a pause", recurring.Resume),
		change("remove", "Remove a job; messages that were posted stay", recurring.Remove),
	)
	cmd.Aliases = []string{"cron"}
	return cmd
}

// defineRecurring makes a job, or changes what flags say of an existing job.
func (c *call) defineRecurring() *cobra.Command {
	var given recurring.Job
	var body string
	var said func(flag string) bool
	cmd := c.verb("define JOB", "Create a job, or change what the flags say of an existing job",
		"parley recurring define digest --queue mail --type Digest --cron '0 7 * * MON-FRI' --zone Europe/Berlin\nparley recurring define poll --queue poll --every 30s --overlap skip",
		cobra.ExactArgs(1), func(ctx context.Context, b *parley.Broker, args []string) error {
			job := given
			job.Name, job.Body = args[0], []byte(body)
			all, err := b.Backend().RecurringJobs(ctx) // a removed one has a revision too
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(all, func(j recurring.Status) bool { return j.Name == job.Name }); i >= 0 {
				job = over(job, all[i], said)
			}
			return recurring.Define(ctx, b, job)
		})
	f := cmd.Flags()
	said = f.Changed
	f.StringVar(&given.Queue, "queue", "", "post to this `queue`")
	f.StringVar(&given.Type, "type", parley.DefaultType, "post this message `type`")
	f.StringVar(&body, "body", "", "post this `text`")
	f.StringVar(&given.Cron, "cron", "", "due by this cron `expression`, with or without seconds")
	f.StringVar(&given.Zone, "zone", "", "the time `zone` of --cron; without it, UTC")
	f.DurationVar(&given.Every, "every", 0, "due at this `interval`")
	f.DurationVar(&given.Jitter, "jitter", 0, "delay each message by up to this `time`")
	f.StringVar((*string)(&given.CatchUp), "catch-up", "skip", "`policy` for missed due times: skip, once or all")
	f.DurationVar(&given.Grace, "grace", time.Minute, "count a due time as missed after this `time`")
	f.StringVar((*string)(&given.Overlap), "overlap", "allow", "`policy` while the previous message is pending: allow, skip or queue")
	f.Int64Var(&given.Revision, "revision", 0, "the revision `number` of this definition; without it, the next one")
	return cmd
}

// over returns the given job with what no flag has said as it is stored.
func over(given recurring.Job, old recurring.Status, said func(flag string) bool) recurring.Job {
	if !said("revision") {
		given.Revision = old.Revision + 1
	}
	if old.State == recurring.StateActive || old.State == recurring.StatePaused {
		when := said("cron") || said("every")
		keep(said("queue"), &given.Queue, old.Queue)
		keep(said("type"), &given.Type, old.Type)
		keep(said("body"), &given.Body, old.Body)
		keep(when, &given.Cron, old.Cron)
		keep(said("zone") || said("every"), &given.Zone, old.Zone)
		keep(when, &given.Every, old.Every)
		keep(said("jitter"), &given.Jitter, old.Jitter)
		keep(said("grace"), &given.Grace, old.Grace)
		keep(said("catch-up"), &given.CatchUp, recurring.CatchUp(old.CatchUp))
		keep(said("overlap"), &given.Overlap, recurring.Overlap(old.Overlap))
	}
	return given
}

// keep sets what no flag has said to what is stored.
func keep[T any](said bool, given *T, old T) {
	if !said {
		*given = old
	}
}

func (c *call) printRecurring(list []recurring.Status) error {
	const titles = "JOB\tREVISION\tSTATE\tDUE\tQUEUE\tTYPE\tWHEN\tCATCH-UP\tOVERLAP\tLAST\tFIRED\tSKIPPED\tFAILURES\tSAYS"
	return c.print(list, titles, func(row func(...any)) {
		for _, j := range list {
			when := strings.TrimSpace(j.Cron + " " + j.Zone)
			if j.Every > 0 {
				when = "every " + j.Every.String()
			}
			if j.Jitter > 0 {
				when = fmt.Sprintf("%s, up to %v later", when, j.Jitter)
			}
			row(j.Name, j.Revision, j.State, date(j.Due), j.Queue, j.Type, when, j.CatchUp, j.Overlap,
				date(j.Last), j.Fired, j.Skipped, j.Failures, firstLine(j.Error))
		}
	})
}
