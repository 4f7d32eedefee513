package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
)

func (c *call) status() *cobra.Command {
	return c.verb("status [QUEUE...]", "Show queues with their depth, age and blocked groups", "parley status --db sqlite:app.db",
		cobra.ArbitraryArgs, func(ctx context.Context, b *parley.Broker, args []string) error {
			queues, err := b.Admin().Queues(ctx, args...)
			if err != nil {
				return err
			}
			blocked := 0
			err = c.print(queues, "QUEUE\tSTATUS\tDEPTH\tOLDEST\tDELAYED\tLEASED\tDEFERRED\tPARKED\tWITHHELD", func(row func(...any)) {
				for _, q := range queues {
					state := "on"
					if q.Disabled {
						state = "disabled"
					}
					blocked += q.Deferred + q.Parked
					row(q.Name, state, atLeast(q.Depth), age(q.Oldest), atLeast(q.Delayed), q.Leased, q.Deferred, q.Parked, atLeast(q.Withheld))
				}
			})
			if blocked > 0 && err == nil {
				c.printf("DEPTH leaves out what waits in the %d deferred and parked groups: parley groups QUEUE, parley parked\n", blocked)
			}
			return err
		})
}

func (c *call) groups() *cobra.Command {
	var limit int
	var after parley.Place
	cmd := c.verb("groups QUEUE", "List a queue's groups in the order in which they will be received", "parley groups orders --limit 20",
		cobra.ExactArgs(1), func(ctx context.Context, b *parley.Broker, args []string) error {
			list, err := b.Admin().Groups(ctx, args[0], after, limit)
			if err != nil {
				return err
			}
			err = c.print(list, groupColumns, func(row func(...any)) {
				for _, g := range list {
					row(groupRow(g)...)
				}
			})
			if len(list) == limit && err == nil {
				next, _ := list[limit-1].Place.MarshalText()
				c.printf("there may be more: parley groups %s --after %s\n", args[0], next)
			}
			return err
		})
	cmd.Flags().TextVar(&after, "after", parley.Place{}, "show groups after this `place`, which the previous page and the JSON of a group show")
	cmd.Flags().IntVar(&limit, "limit", 100, "show at most `n` groups")
	return cmd
}

const groupColumns = "GROUP\tOF\tSTATE\tMESSAGES\tOLDEST\tSINCE\tPROMOTED\tPRIORITY\tBY"

func groupRow(g parley.GroupStatus) []any {
	of, promoted := g.Service, "-"
	switch {
	case g.Post:
		of = "post"
	case g.Key != "":
		of = fmt.Sprintf("key %q", g.Key)
	}
	if g.Promoted {
		promoted = strconv.Itoa(g.Level)
		if g.Sticky {
			promoted += " sticky"
		}
		if g.UntilEmpty {
			promoted += " until empty"
		}
	}
	by := g.Owner
	if g.Reason != "" {
		by = g.Reason
	}
	return []any{g.Group, of, g.State, atLeast(g.Messages), age(g.Oldest), age(g.Since), promoted, g.Priority, by}
}

func (c *call) enable() *cobra.Command {
	return c.verb("enable QUEUE...", "Enable queues, so that they deliver messages again", "parley enable orders", cobra.MinimumNArgs(1),
		func(ctx context.Context, b *parley.Broker, args []string) error {
			return c.each(args, "enable", "queues", func(q string) error { return b.Admin().EnableQueue(ctx, q) })
		})
}

func (c *call) disable() *cobra.Command {
	return c.verb("disable QUEUE...", "Disable queues: they deliver no messages, and lose none", "parley disable orders", cobra.MinimumNArgs(1),
		func(ctx context.Context, b *parley.Broker, args []string) error {
			return c.each(args, "disable", "queues", func(q string) error { return b.Admin().DisableQueue(ctx, q) })
		})
}

// each does something to each of several things, and says how many there were.
func (c *call) each(args []string, verb, what string, do func(string) error) error {
	for i, arg := range args {
		if err := do(arg); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w (after %d %s)", err, i, what)
			}
			return err
		}
	}
	return c.count(verb, what, len(args))
}

func (c *call) drain() *cobra.Command {
	var limit, every time.Duration
	cmd := c.verb("drain QUEUE...", "Wait until workers have emptied queues", "parley drain orders --timeout 5m && systemctl restart app",
		cobra.MinimumNArgs(1), func(ctx context.Context, b *parley.Broker, args []string) error {
			over := make(<-chan time.Time)
			if limit > 0 {
				over = time.After(limit)
			}
			p := c.progress("waiting", 0)
			defer p.end()
			for {
				queues, err := b.Admin().Queues(ctx, args...)
				if err != nil {
					return err
				}
				left, text := 0, ""
				for _, q := range queues {
					left += q.Depth
					text += fmt.Sprintf(", %s: %s left", q.Name, atLeast(q.Depth))
				}
				if p.set(0, "waiting"+text); left == 0 {
					return c.count("drain", "queues", len(queues))
				}
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-over:
					return fmt.Errorf("parley: drain: gave up after %v%s", limit, text)
				case <-time.After(every):
				}
			}
		})
	cmd.Long = "Wait until workers have emptied queues. Delayed, deferred, parked and withheld messages do not count."
	cmd.Flags().DurationVar(&limit, "timeout", 0, "give up after this `time`; zero means never")
	cmd.Flags().DurationVar(&every, "every", time.Second, "look every `time`")
	return cmd
}

// chooses is what groups are chosen by.
type chooses struct {
	prefix, service string
	older           time.Duration
}

func (f *chooses) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "promote the posts of all keys that begin with this `text`; the argument is their queue")
	cmd.Flags().StringVar(&f.service, "service", "", "promote all groups of this `service`; the argument is its queue")
	cmd.Flags().DurationVar(&f.older, "older", 0, "promote all groups of the queue that have waited longer than this `time`")
}

func (f *chooses) is(g parley.GroupStatus) bool {
	return strings.HasPrefix(g.Key, f.prefix) && (f.service == "" || g.Service == f.service) && g.Oldest >= f.older
}

func (c *call) promote() *cobra.Command {
	var sticky, untilEmpty bool
	var key string
	var f chooses
	cmd := c.verb("promote GROUP|QUEUE [LEVEL]", "Promote a group, the posts of a key, or many groups, to be received first",
		"parley promote 0195e0a0-5f3e-7000-8000-3c8e2b1f0a11\nparley promote orders --key customer-7 90\nparley promote orders --prefix eu/ --older 10m",
		cobra.RangeArgs(1, 2),
		func(ctx context.Context, b *parley.Broker, args []string) error {
			level := parley.DefaultLevel
			if len(args) == 2 {
				n, err := strconv.Atoi(args[1])
				if err != nil {
					return fmt.Errorf("parley: level: %w", err)
				}
				level = n
			}
			o := []parley.PromoteOption{parley.PromoteLevel(level)}
			if sticky {
				o = append(o, parley.Sticky())
			}
			if untilEmpty {
				o = append(o, parley.UntilEmpty())
			}
			if key != "" {
				return b.PromoteKey(ctx, args[0], key, o...)
			}
			if f != (chooses{}) {
				n, err := b.Admin().PromoteWhere(ctx, args[0], f.is, o...)
				if err != nil {
					return fmt.Errorf("%w (after %d)", err, n)
				}
				return c.count("promote", "groups", n)
			}
			group, err := parley.ParseID(args[0])
			if err != nil {
				return err
			}
			return b.Promote(ctx, group, o...)
		})
	cmd.Flags().BoolVar(&sticky, "sticky", false, "keep it until demote")
	cmd.Flags().BoolVar(&untilEmpty, "until-empty", false, "keep it until nothing waits in the group")
	cmd.Flags().StringVar(&key, "key", "", "promote all posts under the `key`; the argument is their queue")
	f.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("sticky", "until-empty")
	cmd.MarkFlagsMutuallyExclusive("key", "prefix")
	cmd.MarkFlagsMutuallyExclusive("key", "service")
	cmd.MarkFlagsMutuallyExclusive("key", "older")
	return cmd
}

func (c *call) demote() *cobra.Command {
	return c.verb("demote GROUP", "End a group's promotion", "parley demote 0195e0a0-5f3e-7000-8000-3c8e2b1f0a11", cobra.ExactArgs(1),
		func(ctx context.Context, b *parley.Broker, args []string) error {
			group, err := parley.ParseID(args[0])
			if err != nil {
				return err
			}
			return b.Demote(ctx, group)
		})
}

// retry makes blocked groups ready, whatever blocks them.
func (c *call) retry() *cobra.Command {
	return c.verb("retry GROUP...", "Make parked and deferred groups ready again", "parley retry 0195e0a0-5f3e-7000-8000-3c8e2b1f0a11",
		cobra.MinimumNArgs(1), func(ctx context.Context, b *parley.Broker, args []string) error {
			return c.each(args, "retry", "groups", func(arg string) error {
				id, err := parley.ParseID(arg)
				if err != nil {
					return err
				}
				return b.Admin().Unpark(ctx, id)
			})
		})
}
