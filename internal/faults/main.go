// Command faults runs programs on a database while it kills, stops and cuts them off,
// and checks afterwards what they wrote down.
//
//	go run ./internal/faults --db sqlite:/tmp/faults.db --operations 10000 --faults 20
//
// A database server must be the run's own: connections of its users are ended. On MySQL and MariaDB the run makes users.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if os.Getenv(childVariable) != "" {
		go endWith(os.Getppid())
		var s sown
		err := s.parse(os.Getenv(childVariable))
		if err == nil {
			s.use()
			err = runProgram(os.Args[1], os.Args[2], os.Args[3])
		}
		fmt.Fprintln(os.Stderr, "faults: program:", err)
		os.Exit(1)
	}
	var o options
	flag.StringVar(&o.db, "db", "", "the database, like sqlite:/tmp/faults.db or postgres://user@host/db")
	flag.StringVar(&o.server, "server", "", "instead of --db: start a server, like sqlite, postgres, mariadb, mysql")
	flag.StringVar(&o.tool, "testservers", ".cache/testservers", "the program that starts it")
	flag.StringVar(&o.diskSize, "disk", "", "the size of a file system for it, like 1G: it will be full at times; takes root")
	flag.StringVar(&o.only, "only", "", "the kinds of faults, with commas between; all by default")
	flag.BoolVar(&o.clock, "clock", false, "have the clock of --server step back, which takes libfaketime")
	flag.IntVar(&o.operations, "operations", 10_000, "sends and handler calls")
	flag.IntVar(&o.faults, "faults", 20, "faults")
	flag.IntVar(&o.programs, "programs", 3, "processes")
	flag.DurationVar(&o.limit, "limit", time.Minute, "the longest time for both")
	flag.DurationVar(&o.drain, "drain", time.Minute,
		"how long nothing may be settled while messages are left after the last fault")
	flag.DurationVar(&o.slack, "slack", 0,
		"by how much clocks of programs may differ, where theirs is the database's: nothing is early by less")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixMicro()), "what the run's decisions are made by")
	flag.StringVar(&o.slices, "record", "", "a `file` to which the run is added, like internal/faults/testdata/slices.jsonl")
	flag.StringVar(&o.anew, "anew", "", "with --record: why earlier runs on the server count no more")
	flag.Parse()
	// What the run has started ends with it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	v, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	if v == nil {
		os.Exit(codeError)
	}
	for _, p := range v.Problems {
		fmt.Fprintln(os.Stderr, p)
	}
	fmt.Printf("%s: seed %d, %d operations, %v, faults %v: %s\n", o.kind(), o.seed, v.Operations, v.Load, v.Faults, v)
	switch {
	case v.bad():
		os.Exit(codeFound)
	case err != nil:
		os.Exit(codeError)
	case v.Operations < o.operations || sum(v.Faults) < o.faults:
		fmt.Fprintf(os.Stderr, "faults: want %d operations and %d faults\n", o.operations, o.faults)
		os.Exit(codeShort)
	}
}

// endWith ends a program whose parent is gone.
func endWith(parent int) {
	for os.Getppid() == parent {
		time.Sleep(time.Second)
	}
	os.Exit(0)
}

// Exit codes: a promise was broken, the run failed, it was too short to count.
const (
	codeFound = 1 + iota
	codeError
	codeShort
)

func sum(m map[string]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}
