// Package demo runs the examples as commands: on a temporary SQLite file, or on
// a database that is named.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

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

// with runs f on a migrated broker: on a temporary file, or beside whatever is in
// the database, in tables of its own that are removed at the end.
func with(ctx context.Context, db string, f func(*parley.Broker) error) (err error) {
	if db == "" {
		dir, err := os.MkdirTemp("", "parley-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		db = "sqlite:" + filepath.Join(dir, "demo.db")
	} else {
		db = WithPrefix(db, "parley_demo_"+parley.NewID().String()[24:]+"_")
	}
	b, err := parley.Open(ctx, db, nil)
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
	return f(b)
}

// WithPrefix names the same database with other tables.
func WithPrefix(dsn, prefix string) string {
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	return dsn + sep + "parley_prefix=" + url.QueryEscape(prefix)
}
