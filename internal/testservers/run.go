package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parleymq/parley/internal/slow"
)

// testCommand runs parts of the table, one after the other.
func testCommand(ctx context.Context, env environment, args []string, stdout io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(env.log)
	logs := flags.String("logs", ".cache", "the folder for what the tests print")
	if err := flags.Parse(args); err != nil {
		return 2, nil
	}
	var chosen []part
	for _, name := range flags.Args() {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return 2, fmt.Errorf("unknown part %q", name)
		}
		chosen = append(chosen, parts[i])
	}
	if len(chosen) == 0 {
		for _, p := range parts {
			fmt.Fprintf(stdout, "%-8s %s\n", p.name, p.says)
		}
		return 2, nil
	}
	if err := os.MkdirAll(*logs, 0o755); err != nil {
		return 1, err
	}
	for _, p := range chosen {
		ok, err := runPart(ctx, env, p, *logs, stdout)
		if err != nil {
			return 1, fmt.Errorf("%s: %w", p.name, err)
		}
		if !ok {
			code = 1
		}
	}
	return code, nil
}

// runPart runs a part and says how it went.
func runPart(ctx context.Context, env environment, p part, logs string, stdout io.Writer) (ok bool, err error) {
	required := env.requiredOf(p)
	list, err := resolve(ctx, env, p.servers)
	defer func() { err = errors.Join(err, list.leave(context.WithoutCancel(ctx))) }()
	if err == nil {
		err = list.checkRequired(required)
	}
	if err != nil {
		return false, err
	}
	browser := ""
	if p.browser {
		if browser, err = env.browser(ctx); err != nil {
			return false, err
		}
	}
	fmt.Fprintf(stdout, "testservers: %s: %s, on these servers:\n", p.name, p.says)
	list.print(stdout)
	if p.browser {
		fmt.Fprintf(stdout, "  in %s\n", browser)
	}
	list.printChanges(stdout, "docs")
	r := &runner{part: p, logs: logs, out: stdout, servers: list, required: required, begun: time.Now()}
	r.settings(env)
	fmt.Fprintf(stdout, "testservers: seed %d, factor %.1f, load %s\n", r.seed, r.factor, load())
	ctx, r.cancel = context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("the limit of %v is over", p.limit))
	defer r.cancel()
	r.results = newResults(func(line string) { fmt.Fprintln(stdout, line) }, r.cancel)
	var chains sync.WaitGroup
	for _, chain := range p.chains {
		chains.Go(func() { r.chain(ctx, chain) })
	}
	over := make(chan struct{})
	go r.heartbeats(over)
	chains.Wait()
	close(over)
	if len(r.results.failures) == 0 && ctx.Err() == nil {
		r.again(ctx)
	}
	return r.report(ctx), nil
}

// requiredOf are the servers without which a part is not run: those that it names, or else those that the
// environment does.
func (env environment) requiredOf(p part) string {
	if len(p.servers) > 0 {
		return strings.Join(p.servers, ",")
	}
	return env.get("PARLEY_TEST_REQUIRE")
}

// runner runs a part.
type runner struct {
	part     part
	logs     string
	out      io.Writer
	servers  foundList
	required string
	seed     int64
	factor   float64
	begun    time.Time
	cancel   context.CancelFunc
	results  *results
}

// settings takes the seed and the factor from the environment. Without them the seed is 1, or another one
// each time in a part of make verify, and the factor is measured.
func (r *runner) settings(env environment) {
	if r.seed = 1; r.part.draws {
		r.seed = time.Now().UnixNano() % 1_000_000
	}
	if n, err := strconv.ParseInt(env.get("SEED"), 10, 64); err == nil {
		r.seed = n
	}
	if f, err := strconv.ParseFloat(env.get(slow.Variable), 64); err == nil {
		r.factor = slow.Clamp(f)
	} else {
		r.factor = slow.Measure()
	}
}

// environ is what tests get.
func (r *runner) environ() []string {
	e := append(withoutServers(os.Environ()), r.servers.variables()...)
	return append(e, fmt.Sprintf("%s=%.1f", slow.Variable, r.factor), fmt.Sprint("SEED=", r.seed), fmt.Sprint("PARLEY_CONFORMANCE_SEED=", r.seed), "PARLEY_TEST_FAST=1", "PARLEY_TEST_REQUIRE="+r.required)
}

func (r *runner) chain(ctx context.Context, steps []step) {
	for _, s := range steps {
		if ctx.Err() != nil {
			return
		}
		if err := r.step(ctx, s); err != nil {
			r.results.fail(failure{step: s, text: []string{err.Error()}})
		}
	}
}

// step runs one call of go test to its end, and kills it when ctx ends.
func (r *runner) step(ctx context.Context, s step) error {
	packages, err := s.packages(ctx)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(r.logs, s.name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = r.goTest(ctx, s, append(s.arguments(), packages...), log)
	return err
}

// goTest runs go test, reads what it says, and reports whether a test failed.
func (r *runner) goTest(ctx context.Context, s step, args []string, log io.Writer) (failed bool, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Env = s.folder, r.environ()
	var complaints bytes.Buffer
	cmd.Stderr = io.MultiWriter(log, &complaints)
	said, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() {
		signalGroup(cmd.Process, syscall.SIGTERM)
		time.AfterFunc(5*time.Second, func() { signalGroup(cmd.Process, syscall.SIGKILL) })
	})
	defer stop()
	failed = r.results.read(s, said, log)
	err = cmd.Wait()
	if err != nil && !failed && ctx.Err() == nil {
		return false, fmt.Errorf("go test: %w\n%s", err, complaints.String())
	}
	return failed, nil
}

// arguments are those of go test, without packages.
func (s step) arguments() []string {
	args := []string{"-vet=off", "-count=1", "-p=1", "-parallel=4", "-timeout=45m"}
	if s.race {
		args = append(args, raceFlags...)
	}
	if s.run != "" {
		args = append(args, "-run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-skip="+s.skip)
	}
	return append(args, s.flags...)
}

// packages are those with tests that the patterns leave.
func (s step) packages(ctx context.Context) ([]string, error) {
	list := func(patterns []string) ([]string, error) {
		if len(patterns) == 0 {
			return nil, nil
		}
		cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)...)
		cmd.Dir = s.folder
		out, err := cmd.Output()
		return strings.Fields(string(out)), err
	}
	var with, without []string
	for _, t := range s.tests {
		if rest, ok := strings.CutPrefix(t, "!"); ok {
			without = append(without, rest)
		} else {
			with = append(with, t)
		}
	}
	all, err := list(with)
	if err != nil {
		return nil, fmt.Errorf("go list %v: %w", with, err)
	}
	left, err := list(without)
	if err != nil {
		return nil, fmt.Errorf("go list %v: %w", without, err)
	}
	all = slices.DeleteFunc(all, func(p string) bool { return slices.Contains(left, p) })
	if len(all) == 0 {
		return nil, fmt.Errorf("no tests in %v", s.tests)
	}
	return all, nil
}

// heartbeats says from time to time what is under way.
func (r *runner) heartbeats(over <-chan struct{}) {
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, line := range r.results.underWay() {
				fmt.Fprintf(r.out, "%4.0f s  … %s\n", time.Since(r.begun).Seconds(), line)
			}
		case <-over:
			return
		}
	}
}

// mostAgain is how many tests are tried again.
const mostAgain = 5

// again tries the tests that have only timed out once more, each alone. What passes then is
// flaky, and listed as that.
func (r *runner) again(ctx context.Context) {
	late := r.results.late
	r.results.late = nil
	if len(late) > mostAgain {
		r.results.failures = append(r.results.failures, late...)
		return
	}
	for _, f := range late {
		fmt.Fprintf(r.out, "%4.0f s  trying again, alone: %s %s\n", time.Since(r.begun).Seconds(), f.key.pkg, f.key.test)
		log, err := os.OpenFile(filepath.Join(r.logs, f.step.name+".again.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			r.results.fail(failure{step: f.step, text: []string{err.Error()}})
			return
		}
		failed, err := r.goTest(ctx, f.step, append(f.step.arguments(), "-run="+f.pattern(), f.key.pkg), log)
		log.Close()
		if failed || err != nil || ctx.Err() != nil {
			r.results.failures = append(r.results.failures, f)
			return
		}
		r.results.flaky = append(r.results.flaky, f)
	}
}

// pattern matches the failed test alone.
func (f failure) pattern() string {
	names := strings.Split(f.key.test, "/")
	for i, n := range names {
		names[i] = "^" + regexp.QuoteMeta(n) + "$"
	}
	return strings.Join(names, "/")
}

// load is the system's load average, where it can be had.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// lines reads lines of any length.
func lines(r io.Reader, f func(line []byte)) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			f(line)
		}
		if err != nil {
			return
		}
	}
}
