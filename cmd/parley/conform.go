package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance"
)

// conformance runs the suite in separate tables, beside whatever is there.
func (c *call) conformance() *cobra.Command {
	var o conformOptions
	cmd := c.command("conformance", "Check a database with the conformance suite",
		"parley conformance --db postgres://app@db/app --run '^P'\nparley conformance --db sqlserver://sa@db --report out.json",
		cobra.NoArgs, func(ctx context.Context, _ []string) error { return c.conform(ctx, o) })
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep the suite's tables")
	cmd.Flags().StringVar(&o.run, "run", "", "run only the checks whose ID/name matches the regular `expression`")
	cmd.Flags().StringVar(&o.report, "report", "", "also probe locks and measure, and write a report to the `file`: JUnit if .xml, else JSON")
	cmd.Flags().DurationVar(&o.long, "time", 20*time.Second, "the `time` to measure for a report")
	cmd.Flags().BoolVar(&o.list, "list", false, "list the sentences and their checks, and run nothing")
	return cmd
}

type conformOptions struct {
	keep, list  bool
	run, report string
	long        time.Duration
}

func (c *call) conform(ctx context.Context, o conformOptions) error {
	out := c.stdout
	if !c.json {
		out = plain{out}
	}
	args := []string{"-run", o.run, "-report", o.report, fmt.Sprintf("-json=%t", c.json)}
	if o.list {
		return result(conformance.Command(ctx, "parley", conformance.Store{}, append(args, "-list"), out, c.stderr))
	}
	if err := c.named(); err != nil {
		return err
	}
	own := os.Getenv(conformance.StoreEnv) // in a child process: its parent's
	if own == "" {
		id := backend.NewID().String()
		own = withPrefix(c.db, "parley_c"+id[24:]+"_")
		if !o.keep {
			defer uninstall(ctx, c, own)
		}
	}
	store := conformance.Store{
		Process:    own,
		Disposable: !o.keep,
		Open:       func(ctx context.Context) (backend.Backend, error) { return backend.Open(ctx, own) },
		Limit: func(ctx context.Context, conns int) (backend.Backend, error) {
			return backend.Open(ctx, withParam(own, "parley_max_conns", strconv.Itoa(conns)))
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return backend.Open(ctx, withPrefix(c.db, "parley_c"+backend.NewID().String()[24:]+"_"))
		},
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			dsn := withPrefix(c.db, "parley_c"+backend.NewID().String()[24:]+"_")
			return func(ctx context.Context) (backend.Backend, error) { return backend.Open(ctx, dsn) }
		}),
	}
	var err error
	if store.Lose, err = lose(ctx, own); err != nil {
		return err
	}
	if o.report != "" {
		store.Secrets = secrets(c.db)
		store.Measure = func(ctx context.Context) (any, error) {
			_, figures, err := measure(ctx, c, benchmark{whole: max(o.long, time.Second), size: 200, senders: 16, readers: 10})
			return figures, err
		}
	}
	return result(conformance.Command(ctx, "parley", store, args, out, c.stderr, "conformance", "--db", c.db))
}

// losses are statements, by engine, with which the database ends the transaction that they are in, or its connection.
var losses = map[string]string{
	"sqlite":   "INSERT OR ROLLBACK INTO {prefix}meta SELECT * FROM {prefix}meta",
	"postgres": "SELECT pg_terminate_backend(pg_backend_pid())",
	"mysql":    "KILL CONNECTION_ID()",
	"mariadb":  "KILL CONNECTION_ID()",
	"mssql":    "SET XACT_ABORT ON; THROW 51000, N'lost', 1",
}

// lose returns how the store that is checked can lose a transaction.
func lose(ctx context.Context, dsn string) ([]func(context.Context, backend.Tx), error) {
	be, err := backend.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer be.Close()
	info, err := be.Info(ctx)
	if statement := losses[info.Engine]; statement != "" {
		return conformance.LoseBySQL(strings.ReplaceAll(statement, "{prefix}", info.Settings["prefix"])), err
	}
	return nil, err
}

// secrets are the parts of a database's name that are to stay private: all but its
// scheme and the names of parameters.
func secrets(db string) []string {
	u, err := url.Parse(db)
	if err != nil {
		return []string{db}
	}
	list := []string{db, u.Host, u.Opaque, strings.TrimPrefix(u.Path, "//")}
	for host := range strings.SplitSeq(u.Host, ",") {
		name, _, _ := strings.Cut(host, ":")
		list = append(list, name, strings.Trim((&url.URL{Host: host}).Hostname(), "[]"))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		list = append(list, password, url.QueryEscape(password))
	}
	for name, values := range u.Query() {
		if strings.Contains(strings.ToLower(name), "host") || strings.Contains(strings.ToLower(name), "pass") ||
			strings.Contains(strings.ToLower(name), "server") {
			list = append(list, values...)
		}
	}
	return slices.DeleteFunc(list, func(s string) bool { return strings.Trim(s, "/.") == "" })
}

func result(code int) error {
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

func uninstall(ctx context.Context, c *call, dsn string) {
	be, err := backend.Open(context.WithoutCancel(ctx), dsn)
	if err == nil {
		defer be.Close()
		err = be.Uninstall(context.WithoutCancel(ctx))
	}
	if err != nil {
		fmt.Fprintf(c.stderr, "parley: the suite's tables are left behind: %v\n", err)
	}
}
