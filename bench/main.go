// Command bench measures Parley beside the queues that a Go program would use
// instead, on the same server, with the same durability, in one run.
//
//	go run . -quick          PostgreSQL and SQLite, under five minutes
//	go run .                 everything, medians of five
//	go run . -engines sqlite -rows drain,send -systems parley,raw
//	go run . -engines postgres -rows send1,ownrow,drainrow,latency -delay 500us
//
// Without addresses it starts throwaway servers that wait for the disk at every commit (see
// internal/testservers). BENCH_POSTGRES, BENCH_MYSQL and BENCH_MARIADB name servers of your own.
//
// Every measurement begins on a fresh database. The systems of a row take turns,
// round by round, so that what else the machine does hits all alike. The results
// are a table, a JSON file, a picture, and a line for each bar of ratios.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	var engines, rows, systems string
	flag.BoolVar(&o.quick, "quick", false, "medians of three, shorter, without the rows that take minutes")
	flag.StringVar(&engines, "engines", "", "only these, with commas between: postgres, sqlite, mysql, mariadb")
	flag.StringVar(&rows, "rows", "", "only rows whose names contain one of these")
	flag.StringVar(&systems, "systems", "", "only systems whose names contain one of these")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds, of which the median counts (default 3 with -quick, else 5)")
	flag.DurationVar(&o.delay, "delay", -1, "on PostgreSQL, how much longer a round trip takes, through a proxy; 0: the proxy alone")
	flag.StringVar(&o.json, "json", "", "write the results here")
	flag.StringVar(&o.svg, "svg", "", "draw them here")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a profile of this process here")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	o.engines, o.rows, o.systems = split(engines), split(rows), split(systems)
	if len(o.engines) == 0 {
		o.engines = []string{"postgres", "sqlite"}
		if !o.quick {
			o.engines = append(o.engines, "mysql", "mariadb")
		}
	}
	if o.rounds == 0 {
		o.rounds = 5
		if o.quick {
			o.rounds = 3
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	quick                  bool
	engines, rows, systems []string
	rounds                 int
	delay                  time.Duration // below zero: there is no proxy
	json, svg, profile     string
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func run(ctx context.Context, o options) error {
	var servers []string
	for _, name := range o.engines {
		switch {
		case name == "sqlite" || os.Getenv(addressOf(name)) != "":
		case name == "postgres" || name == "mysql" || name == "mariadb":
			servers = append(servers, name)
		default:
			return fmt.Errorf("engine %q: want postgres, sqlite, mysql or mariadb", name)
		}
	}
	if len(servers) > 0 && os.Getenv("BENCH_STARTED") == "" {
		return again(ctx, servers)
	}
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	report := newReport(o)
	for _, name := range o.engines {
		e, err := openEngine(ctx, name)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s is left out: %v\n", name, err)
			continue
		}
		err = measure(ctx, o, e, report)
		e.forget(context.WithoutCancel(ctx))
		e.close()
		if err != nil {
			return err
		}
	}
	return report.write(o)
}

func addressOf(engine string) string { return "BENCH_" + strings.ToUpper(engine) }

// again runs this program once more, with the servers that are missing.
func again(ctx context.Context, servers []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "parley-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // servers may run as another user
		return err
	}
	// Built and not run by "go run", which does not hand signals down.
	tool := dir + "/testservers"
	build := exec.CommandContext(ctx, "go", "build", "-o", tool, "github.com/parleymq/parley/internal/testservers")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building internal/testservers (run in the folder bench, or set %s): %w", addressOf(servers[0]), err)
	}
	c := exec.CommandContext(ctx, tool, append([]string{"exec", "-only", strings.Join(servers, ","), "--", self}, os.Args[1:]...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	c.Env = append(withoutServers(os.Environ()), "BENCH_STARTED=1", "PARLEY_TEST_CACHE="+dir+"/servers")
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New("the run failed")
	}
	return err
}

// withoutServers leaves out the addresses of test servers, which may not wait
// for the disk.
func withoutServers(env []string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, "PARLEY_TEST_") {
			out = append(out, v)
		}
	}
	return out
}
