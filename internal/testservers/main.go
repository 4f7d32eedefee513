// Command testservers gives the project's tests real database servers.
//
//	go run ./internal/testservers exec [-only names] -- COMMAND ARGS…
//	go run ./internal/testservers start [names]
//	go run ./internal/testservers stop [names]
//	go run ./internal/testservers status
//	go run ./internal/testservers test [-logs folder] PART…
//	go run ./internal/testservers matrix [-logs folder] [names]
//	go run ./internal/testservers own LABEL VERB NAME
//
// exec runs a command, passes signals on to it and returns its exit code. The command has one
// environment variable per server: PARLEY_TEST_POSTGRES, PARLEY_TEST_PGBOUNCER,
// PARLEY_TEST_MARIADB, PARLEY_TEST_MYSQL, and PARLEY_TEST_GALERA or PARLEY_TEST_VITESS if -only
// names it. It starts servers that are not running, and the last exec that uses a server stops it
// again. The verb start keeps servers up until stop, which makes every exec in between faster. It
// prints export lines for a shell's eval.
//
// A server comes from the first of these that can be had:
//
//  1. its environment variable, if that is set already: used as it is;
//  2. the newest version in Debian, if apt knows a Debian archive; it needs no root, lives in a
//     cache folder, and runs on 127.0.0.1;
//  3. programs on this machine, of whatever version, run in the same way;
//  4. for root on Debian: the same, from packages installed on the spot;
//  5. nowhere: the variable stays unset, and a line on standard error says
//     what is missing and that its tests will be skipped.
//
// test runs parts of the project's tests, each on servers whose versions it prints first. Its last
// lines explain what failed. parts.go lists the parts.
//
// Older versions come only from Debian's packages, and only by name (exec -only postgres-15); they
// have the same variables. The verb matrix runs the backends' tests on each version, one after the
// other.
//
// own gives a test a separate server, which the test may kill, restart and fail over. It starts
// beside the others, whatever the variables say.
//
// These environment variables change that:
//
//	PARLEY_TEST_REQUIRE    names, with commas between, that must not be missing
//	PARLEY_TEST_CACHE      the cache folder, otherwise parley-test in the user's
//	PARLEY_TEST_INSTALL=0  fetch and install no packages
//	PARLEY_TEST_FAST=1     start servers that do not wait for the disk
//	PARLEY_TEST_SLOW       the factor of bounds (package slow), which test measures otherwise
//	SEED                   for tests that draw lots
//
// The servers are throwaway: each start begins with empty data, and everyone
// on this machine can log in to them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

const usage = `usage:
  testservers exec [-only names] -- COMMAND ARGS…   run a command with the servers' variables set
  testservers start [names]                         start servers that stay up until stop
  testservers stop [names]                          stop them
  testservers status                                engine, version and address of each
  testservers test [-logs folder] PART…             a part of the project's tests; without one, a list
  testservers matrix [-logs folder] [names]         the backends' tests on each version there is
  testservers own LABEL VERB NAME                   ` + ownUsage + `
`

func main() {
	env := environment{get: os.Getenv, log: os.Stderr, install: installDebian}
	os.Exit(run(env, os.Args[1:], os.Stdout))
}

// environment is what a run takes from outside, so that tests can bring their own.
type environment struct {
	get     func(name string) string
	log     io.Writer // for people; commands print their results elsewhere
	install func(ctx context.Context, log io.Writer, packages []string) error
	own     string // the label of servers that only one user has
}

// withoutAddresses leaves aside the servers that variables name.
func (env environment) withoutAddresses() environment {
	asked := env.get
	env.get = func(name string) string {
		if slices.ContainsFunc(specs, func(s spec) bool { return s.variable == name }) {
			return ""
		}
		return asked(name)
	}
	return env
}

func (env environment) logf(format string, args ...any) {
	fmt.Fprintf(env.log, "testservers: "+format+"\n", args...)
}

// run is main without the process: it returns the exit code.
func run(env environment, args []string, stdout io.Writer) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	signals := catchSignals()
	ctx, cancel := signals.context()
	defer cancel()
	code, err := 0, error(nil)
	switch command {
	case "exec":
		code, err = execCommand(ctx, env, signals, args)
	case "start":
		err = startCommand(ctx, env, args, stdout)
	case "stop":
		err = stopCommand(ctx, env, args)
	case "status":
		err = statusCommand(ctx, env, stdout)
	case "test":
		code, err = testCommand(ctx, env, args, stdout)
	case "own":
		code, err = ownCommand(ctx, env, args, stdout)
	case "matrix":
		code, err = matrixCommand(ctx, env, signals, args, stdout)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
	default:
		fmt.Fprint(env.log, usage)
		code = 2
	}
	if s := signals.received(); s != nil && err != nil {
		env.logf("stopped by signal: %v", s)
		return 128 + signalNumber(s)
	}
	if err != nil {
		env.logf("%v", err)
		return max(code, 1)
	}
	return code
}

// execCommand runs a command beside the servers.
func execCommand(ctx context.Context, env environment, signals *signals, args []string) (code int, err error) {
	flags := flag.NewFlagSet("exec", flag.ContinueOnError)
	flags.SetOutput(env.log)
	only := flags.String("only", "", "the servers to use, with commas between; all by default")
	if err := flags.Parse(args); err != nil {
		return 2, nil // the flag package has said why
	}
	if flags.NArg() == 0 {
		fmt.Fprint(env.log, usage)
		return 2, nil
	}
	found, err := resolve(ctx, env, splitNames(*only))
	// Whatever happened, what was taken into use is given back.
	defer func() {
		if e := found.leave(context.WithoutCancel(ctx)); e != nil && err == nil {
			code, err = 1, e
		}
	}()
	if err != nil {
		return 1, err
	}
	if err := found.checkRequired(env.get("PARLEY_TEST_REQUIRE")); err != nil {
		return 1, err
	}
	code, err = runWith(signals, found.variables(), flags.Args())
	if err != nil {
		return 1, err
	}
	env.logf("the servers of this run:")
	found.print(env.log)
	return code, nil
}

// startCommand starts servers which stay up until stopCommand.
func startCommand(ctx context.Context, env environment, args []string, stdout io.Writer) (err error) {
	names := splitNames(strings.Join(args, ","))
	found, err := resolve(ctx, env, names)
	defer func() {
		if e := found.leave(context.WithoutCancel(ctx)); e != nil && err == nil {
			err = e
		}
	}()
	if err != nil {
		return err
	}
	// A server asked for by name is as good as required.
	require := strings.Join(append(names, env.get("PARLEY_TEST_REQUIRE")), ",")
	if err := found.checkRequired(require); err != nil {
		return err
	}
	for _, f := range found {
		if f.instance != nil {
			if err := f.instance.keep(); err != nil {
				return err
			}
		}
	}
	for _, v := range found.variables() {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(stdout, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return nil
}

// stopCommand takes back what startCommand asked for. A server that an exec
// still uses stops together with that exec.
func stopCommand(ctx context.Context, env environment, args []string) error {
	names := splitNames(strings.Join(args, ","))
	if err := checkNames(names); err != nil {
		return err
	}
	all, err := instances(env)
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- { // a server that stands on another one goes first
		in := all[i]
		if len(names) > 0 && !contains(names, in.spec.name) {
			continue
		}
		state, err := in.unkeep(ctx)
		if err != nil {
			return err
		}
		if state != "" {
			env.logf("%s %s", in.name(), state)
		}
	}
	return nil
}

// statusCommand prints one line per server.
func statusCommand(ctx context.Context, env environment, stdout io.Writer) error {
	all, err := instances(env)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENGINE\tVERSION\tADDRESS\tSTATE")
	for _, s := range specs {
		if s.engine == nil {
			fmt.Fprintf(w, "%s\t%s\t-\tin the test process\n", s.name, s.builtin())
			continue
		}
		if value := env.get(s.variable); value != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\tfrom %s\n", s.name, versionOf(ctx, s, value), shown(value), s.variable)
		}
		lines := 0
		for _, in := range all {
			if in.spec.name != s.name {
				continue
			}
			state, address, err := in.state(ctx)
			if err != nil {
				return err
			}
			if address == "" {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", in.name(), versionOf(ctx, s, address), shown(address), state)
			lines++
		}
		if lines == 0 && env.get(s.variable) == "" {
			state := "stopped"
			if err := s.engine.Find(); err != nil {
				state = err.Error()
			}
			fmt.Fprintf(w, "%s\t-\t-\t%s\n", s.name, state)
		}
	}
	return w.Flush()
}
