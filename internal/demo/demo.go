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
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/mssql"
	_ "github.com/parleymq/parley/backend/mysql"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
	phases "github.com/parleymq/parley/examples/phases/sample"
	"github.com/parleymq/parley/examples/priority/sample"
	"github.com/parleymq/parley/examples/recycling/auditlog"
	scheduler "github.com/parleymq/parley/examples/scheduler/sample"
)

// Demos are the examples by name.
var Demos = map[string]struct {
	Says string
	Run  func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}{
	"mailer":    {"mails sent in parallel, with retries, and -crash", Mailer},
	"phases":    {"ten tasks in five phases, with a picture of what overlapped", Phases},
	"priority":  {"requests that overtake a backlog on demand, after Remus Rusanu's sample", Priority},
	"recycling": {"an audit log on dialogs that are reused and renewed, after Remus Rusanu's article", Recycling},
	"scheduler": {"a caller that submits tasks, waits for them and looks at the log", Scheduler},
}

// Main is the main function of the example with that name.
func Main(name string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := Demos[name].Run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Priority runs the sample of priority order.
func Priority(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o sample.Options
	return run(ctx, "priority", &o, args, stderr, func(b *parley.Broker, _ string) error {
		return sample.Run(ctx, b, o, stdout)
	})
}

// Phases runs the sample of phases.
func Phases(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o phases.Options
	return run(ctx, "phases", &o, args, stderr, func(b *parley.Broker, _ string) error {
		return phases.Run(ctx, b, o, stdout)
	})
}

// Scheduler runs the sample of the caller's scheduler.
func Scheduler(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o scheduler.Options
	return run(ctx, "scheduler", &o, args, stderr, func(b *parley.Broker, _ string) error {
		return scheduler.Run(ctx, b, o, stdout)
	})
}

// Recycling pushes an audit log over recycled dialogs.
func Recycling(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o auditlog.Options
	return run(ctx, "recycling", &o, args, stderr, func(b *parley.Broker, _ string) error {
		return auditlog.Run(ctx, b, o, stdout)
	})
}

// run reads the flags of a sample, which has options o of its own, and runs it on
// a migrated broker: on a temporary file, or beside whatever is in the database
// that the flags name, in tables of its own that are removed at the end.
func run(ctx context.Context, name string, o interface{ Flags(*flag.FlagSet) }, args []string, stderr io.Writer,
	f func(b *parley.Broker, db string) error) (err error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	named := flags.String("db", "", "run on this `database` instead of a temporary SQLite file")
	o.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	db := *named
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
	return f(b, db)
}

// WithPrefix names the same database with other tables.
func WithPrefix(dsn, prefix string) string { return WithParam(dsn, "parley_prefix", prefix) }

// WithParam adds a parameter to the name of a database.
func WithParam(dsn, name, value string) string {
	sep := "?"
	if strings.Contains(dsn, "?") {
		sep = "&"
	}
	return dsn + sep + name + "=" + url.QueryEscape(value)
}
