// Package demo runs the examples as commands: on a temporary SQLite file, or on
// a database that is named.
package demo

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/examples/priority/sample"
)

// Demos are the examples by name.
var Demos = map[string]struct {
	Says string
	Run  func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}{
	"priority": {"requests that overtake a backlog on demand, after Remus Rusanu's sample", Priority},
}

// Priority runs the sample of priority order.
func Priority(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o sample.Options
	flags := flag.NewFlagSet("priority", flag.ContinueOnError)
	flags.SetOutput(stderr)
	db := flags.String("db", "", "run on this `database` instead of a temporary SQLite file")
	o.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return with(ctx, *db, func(b *parley.Broker) error {
		return sample.Run(ctx, b, o, stdout)
	})
}

// with runs f on a migrated broker.
func with(ctx context.Context, db string, f func(*parley.Broker) error) error {
	if db == "" {
		dir, err := os.MkdirTemp("", "parley-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		db = "sqlite:" + filepath.Join(dir, "demo.db")
	}
	b, err := parley.Open(ctx, db, nil)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Migrate(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return f(b)
}
