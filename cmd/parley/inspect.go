package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/doctor"
)

// locks lists who has application locks and who waits for them.
func (c *call) locks() *cobra.Command {
	return c.verb("locks [PREFIX]", "List application locks with their holders and waiters", "parley locks stock/", cobra.MaximumNArgs(1),
		func(ctx context.Context, b *parley.Broker, args []string) error {
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
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
		})
}

func (c *call) doctor() *cobra.Command {
	cmd := c.verb("doctor [QUEUE|PLAN|ID]", "Explain why messages and tasks are stuck, and check the set-up", "parley doctor\nparley doctor orders",
		cobra.MaximumNArgs(1), func(ctx context.Context, b *parley.Broker, args []string) error {
			what := ""
			if len(args) == 1 {
				what = args[0]
			}
			found, failed := doctor.Diagnose(ctx, b, what)
			if len(found) == 0 && failed != nil {
				return failed
			}
			if len(found) == 0 && !c.json {
				c.printf("nothing stands in the way of messages\n")
				return nil
			}
			bad := false
			err := c.print(found, "CODE\tOF\tWHAT\tDO", func(row func(...any)) {
				for _, f := range found {
					row(f.Code, f.Object, f.Text, f.Hint)
				}
			})
			for _, f := range found {
				bad = bad || f.Bad
			}
			if err = errors.Join(failed, err); err == nil && bad {
				return exitCode(1)
			}
			return err
		})
	cmd.Long = "Explain why messages and tasks are stuck, and check the set-up. The exit code is 1 if anything is bad."
	return cmd
}

// grants prints the SQL that gives an account the rights of a role.
func (c *call) grants() *cobra.Command {
	var role, account string
	cmd := c.verb("grants", "Print the rights that a role needs, as SQL", "parley grants --role worker --to app | psql app", cobra.NoArgs,
		func(ctx context.Context, b *parley.Broker, _ []string) error {
			g := b.Backend().Capabilities().Granter
			if g == nil {
				return fmt.Errorf("parley: grants: this backend has no roles")
			}
			text, err := g.Grants(ctx, backend.Role(role), account)
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.stdout, text)
			return err
		})
	cmd.Flags().StringVar(&role, "role", "", "`role`: owner, worker, operator, sender, or poster for posts by plain SQL")
	cmd.Flags().StringVar(&account, "to", "", "grant the rights to this `account`; without it, to a new role")
	must(cmd.MarkFlagRequired("role"))
	return cmd
}

// must panics on what cannot happen: a flag that the line before has not made.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
