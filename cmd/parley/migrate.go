package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func (c *call) migrate() *cobra.Command {
	var show bool
	var from int
	var o backend.MigrateOptions
	cmd := c.command("migrate", "Create or update Parley's tables", "parley migrate --db sqlite:app.db\nparley migrate --print --from 5 --db postgres://app@db/app",
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			if show && existing(c.db) != nil { // nothing of the file matters to the SQL
				_, query, _ := strings.Cut(c.db, "?")
				c.db = "sqlite::memory:?" + query
			}
			if err := c.named(); err != nil {
				return err
			}
			b, err := parley.Open(ctx, c.db, &parley.Options{NoMaintenance: true}) // it makes a file that is not there
			if err != nil {
				return err
			}
			defer b.Close()
			if show {
				return printMigration(ctx, c.stdout, b, from)
			}
			return c.migrateSchema(ctx, b, o)
		})
	cmd.Flags().BoolVar(&show, "print", false, "print the SQL instead of running it")
	cmd.Flags().IntVar(&from, "from", 0, "with --print, print only what a schema of this `version` lacks")
	cmd.Flags().DurationVar(&o.Wait, "wait", time.Minute, "how long to wait for locks, and for the messages that older programs hold")
	cmd.Flags().BoolVar(&o.Finish, "finish", false, "refuse programs of older versions from now on, and allow data that they would lose")
	return cmd
}

// migrated is what a migration did.
type migrated struct {
	From, To int
	Steps    []string
}

func (c *call) migrateSchema(ctx context.Context, b *parley.Broker, o backend.MigrateOptions) error {
	m := b.Backend().Capabilities().Migrator
	if m == nil {
		return b.Migrate(ctx)
	}
	before, err := b.Info(ctx)
	if err != nil {
		return err
	}
	var did []string
	p := c.progress("migrating", 0)
	o.Report = func(text string) {
		if did = append(did, text); !c.json {
			p.hide()
			c.printf("%s\n", text)
		}
	}
	err = m.MigrateWith(ctx, o)
	p.end()
	if err != nil {
		return fmt.Errorf("parley: migrate: %w", err)
	}
	after, err := b.Info(ctx)
	switch {
	case err != nil:
		return err
	case c.json:
		return c.encode(migrated{before.Schema, after.Schema, did})
	case before.Schema == after.Schema:
		c.printf("the schema has version %d; there was nothing to add\n", after.Schema)
	default:
		c.printf("the schema had version %d and has version %d now\n", before.Schema, after.Schema)
	}
	return nil
}

func printMigration(ctx context.Context, w io.Writer, b *parley.Broker, from int) error {
	p := b.Backend().Capabilities().Printer
	if p == nil {
		return fmt.Errorf("parley: this backend has no SQL to print")
	}
	info, err := b.Info(ctx)
	if err != nil {
		return err
	}
	if from < 0 || from > info.Program {
		return fmt.Errorf("parley: --from %d: want a version from 0 to %d", from, info.Program)
	}
	_, err = io.WriteString(w, p.MigrationSQL(from))
	return err
}
