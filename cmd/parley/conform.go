package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance"
	"github.com/parleymq/parley/internal/demo"
)

// conform runs the suite in tables of its own, beside whatever is there.
func conform(ctx context.Context, c *call) error {
	keep := c.flags.Bool("keep", false, "leave the suite's tables behind")
	run := c.flags.String("run", "", "run only the checks whose ID/name matches the regular `expression`")
	list := c.flags.Bool("list", false, "list the sentences and their checks, and run nothing")
	if err := c.parse(0, 0); err != nil {
		return err
	}
	out := c.stdout
	if !*c.json {
		out = plain{out}
	}
	args := []string{"-run", *run, fmt.Sprintf("-json=%t", *c.json)}
	if *list {
		return result(conformance.Command(ctx, "parley", conformance.Store{}, append(args, "-list"), out, c.stderr))
	}
	if *c.db == "" {
		fmt.Fprintln(c.stderr, "parley: which database? Give --db or set PARLEY_DB.")
		return errUsage
	}

	own := os.Getenv(conformance.StoreEnv) // in a child process: its parent's
	if own == "" {
		id := backend.NewID().String()
		own = demo.WithPrefix(*c.db, "parley_c"+id[24:]+"_")
		if !*keep {
			defer uninstall(ctx, c, own)
		}
	}
	store := conformance.Store{
		Process:    own,
		Disposable: !*keep,
		Open:       func(ctx context.Context) (backend.Backend, error) { return backend.Open(ctx, own) },
		NoPool:     strings.HasPrefix(own, "sqlite:"),
		Limit: func(ctx context.Context, conns int) (backend.Backend, error) {
			return backend.Open(ctx, demo.WithParam(own, "parley_max_conns", strconv.Itoa(conns)))
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return backend.Open(ctx, demo.WithPrefix(*c.db, "parley_c"+backend.NewID().String()[24:]+"_"))
		},
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			dsn := demo.WithPrefix(*c.db, "parley_c"+backend.NewID().String()[24:]+"_")
			return func(ctx context.Context) (backend.Backend, error) { return backend.Open(ctx, dsn) }
		}),
	}
	return result(conformance.Command(ctx, "parley", store, args, out, c.stderr, "conformance", "--db", *c.db))
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
