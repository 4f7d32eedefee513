package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	phases "github.com/parleymq/parley/examples/phases/sample"
	priority "github.com/parleymq/parley/examples/priority/sample"
)

// demo has the examples that the command can run.
func (c *call) demo() *cobra.Command {
	var tasks phases.Options
	var requests priority.Options
	cmd := c.family("demo", "Run an example on a temporary SQLite file, or in separate tables of the database of --db",
		c.example("phases", "Ten tasks in five phases, with a picture of what overlapped", &tasks,
			func(ctx context.Context, b *parley.Broker, w io.Writer) error { return phases.Run(ctx, b, tasks, w) }),
		c.example("priority", "Requests that overtake a backlog, after Remus Rusanu's article", &requests,
			func(ctx context.Context, b *parley.Broker, w io.Writer) error {
				return priority.Run(ctx, b, requests, w)
			}),
	)
	return cmd
}

// example makes a command of an example, which has its own flags. It runs on a migrated
// broker: on a temporary file, or in separate tables that it removes at the end.
func (c *call) example(name, short string, o interface{ Flags(*flag.FlagSet) }, run func(context.Context, *parley.Broker, io.Writer) error) *cobra.Command {
	cmd := c.command(name, short, "parley demo "+name, cobra.NoArgs, nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		c.begun = true
		ctx := cmd.Context()
		own := withPrefix(c.db, "parley_demo_"+parley.NewID().String()[24:]+"_")
		if !cmd.Flags().Changed("db") { // PARLEY_DB is for work
			dir, err := os.MkdirTemp("", "parley-demo-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			own = "sqlite:" + filepath.Join(dir, "demo.db")
		}
		b, err := parley.Open(ctx, own, nil)
		if err != nil {
			return err
		}
		defer b.Close()
		if err := b.Migrate(ctx); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		defer func() {
			err = errors.Join(err, b.Backend().Uninstall(context.WithoutCancel(ctx)))
		}()
		if u, err := url.Parse(own); err == nil {
			fmt.Fprintf(c.stderr, "To look at it: parley console --write --db '%s'\n", u.Redacted())
		}
		return run(ctx, b, c.stdout)
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	o.Flags(flags)
	cmd.Flags().AddGoFlagSet(flags)
	return cmd
}
