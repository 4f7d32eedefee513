package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// matrixRow is a version of a server and the tests that run on it.
type matrixRow struct {
	server string   // its tests get no other one, but what it stands in front of
	tests  []string // for go test: the package, and flags if not all of it is meant
}

// matrix is what matrixCommand runs. A pooler's row has the tests that go through it.
var matrix = []matrixRow{
	{"sqlite", []string{"./backend/sqlite"}},
	{"postgres-15", []string{"./backend/postgres/..."}},
	{"postgres", []string{"./backend/postgres/..."}},
	{"pgbouncer-1.18", []string{"-run", "PgBouncer", "./backend/postgres"}},
	{"pgbouncer", []string{"-run", "PgBouncer", "./backend/postgres"}},
	{"mariadb-10.11", []string{"./backend/mysql"}},
	{"mariadb-10.11-snapshots", []string{"./backend/mysql"}},
	{"mariadb", []string{"./backend/mysql"}},
	{"mysql", []string{"./backend/mysql"}},
	{"vitess", []string{"-run", "Vitess", "./backend/mysql"}},
}

// matrixCommand tests on each version that can be had here, one after the other, prints a line for
// each, and writes docs/conformance.md. Addresses from the environment are left aside.
func matrixCommand(ctx context.Context, env environment, signals *signals, args []string, stdout io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	flags.SetOutput(env.log)
	logs := flags.String("logs", ".", "the folder for what the tests print")
	if err := flags.Parse(args); err != nil {
		return 2, nil
	}
	names := splitNames(strings.Join(flags.Args(), ","))
	if err := checkNames(names); err != nil {
		return 2, err
	}
	if err := os.MkdirAll(*logs, 0o755); err != nil {
		return 1, err
	}
	env = env.withoutAddresses()
	for _, row := range matrix {
		if len(names) > 0 && !contains(names, row.server) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 1, err
		}
		ok, line, err := runRow(ctx, env, signals, row, filepath.Join(*logs, row.server+".log"))
		if err != nil {
			return 1, fmt.Errorf("%s: %w", row.server, err)
		}
		fmt.Fprintf(stdout, "%-23s %s\n", row.server, line)
		if !ok {
			code = 1
		}
	}
	return code, nil
}

// runRow runs the tests of a row and says how they went. A server that cannot be had
// is no failure.
func runRow(ctx context.Context, env environment, signals *signals, row matrixRow, log string) (ok bool, line string, err error) {
	list, err := resolve(ctx, env, []string{row.server})
	defer func() { err = errors.Join(err, list.leave(context.WithoutCancel(ctx))) }()
	if err != nil {
		return false, "", err
	}
	at := slices.IndexFunc(list, func(f found) bool { return f.spec.name == row.server })
	if missing := list[at].missing; missing != nil {
		return true, "cannot be had: " + missing.Error(), nil
	}
	out, err := os.Create(log)
	if err != nil {
		return false, "", err
	}
	defer out.Close()
	begun := time.Now()
	args := append([]string{"test", "-json", "-count=1", "-vet=off", "-parallel", "4", "-timeout", "30m"}, row.tests...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(withoutServers(os.Environ()), list.variables()...)
	cmd.Stderr = out
	results, err := cmd.StdoutPipe()
	if err != nil {
		return false, "", err
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return false, "", err
	}
	signals.to(func(s os.Signal) { signalGroup(cmd.Process, s) })
	tests := readTests(results, out)
	failed := cmd.Wait()
	line = fmt.Sprintf("%-34s %s in %v", list[at].version, tests.counts(), time.Since(begun).Round(time.Second))
	if failed != nil {
		line += fmt.Sprintf(", %v: see %s", failed, log)
	}
	if err := ctx.Err(); err != nil { // the tests were cut off
		return false, "", err
	}
	return failed == nil, line, keep(ctx, "docs", list[at], tests)
}

// withoutServers takes out of an environment what tells tests about servers.
func withoutServers(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "PARLEY_TEST_REQUIRE" || slices.ContainsFunc(specs, func(s spec) bool { return s.variable == name })
	})
}

// counts are results of tests that have no tests in them.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}

// testResults is what go test -json says of tests.
type testResults struct {
	ended   map[testKey]string // pass, fail or skip
	parents map[testKey]bool
	said    map[testKey]string // the last line of their own
}

// saying is a line of a test's log.
var saying = regexp.MustCompile(`^\s+\w+\.go:\d+: (.+)`)

// readTests reads what go test -json prints, and copies the tests' own output.
func readTests(results io.Reader, out io.Writer) testResults {
	r := testResults{make(map[testKey]string), make(map[testKey]bool), make(map[testKey]string)}
	lines(results, func(line []byte) {
		var event testEvent
		if json.Unmarshal(line, &event) != nil {
			out.Write(line)
			return
		}
		io.WriteString(out, event.Output)
		key := testKey{event.Package, event.Test}
		if slices.Contains([]string{"pass", "fail", "skip"}, event.Action) && event.Test != "" {
			r.ended[key] = event.Action
		}
		if m := saying.FindStringSubmatch(event.Output); m != nil {
			r.said[key] = strings.TrimSpace(m[1])
		}
		if i := strings.LastIndexByte(event.Test, '/'); i > 0 {
			r.parents[testKey{event.Package, event.Test[:i]}] = true
		}
	})
	return r
}

// counts counts the tests that have no tests in them.
func (r testResults) counts() (c counts) {
	for key, action := range r.ended {
		if !r.parents[key] {
			c.add(action)
		}
	}
	return c
}
