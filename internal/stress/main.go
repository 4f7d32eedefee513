// Command stress puts a random load on a database through the public API and
// checks what came of it.
//
//	go run ./internal/stress --db sqlite:/tmp/stress.db --for 60s
//	go run ./internal/stress --db "postgres://user@host/db" --for 60s --seed 7
//	go run ./internal/stress --db "mysql://user@host/db" --for 60s
//
// Senders write to conversations, to keys and to neither, and roll back now and then.
// Receivers do all that can be done with a delivery. Others promote, move and unpark
// groups. Processes are killed, some of them real ones. In the end all that is left is
// received, and the run prints one line. It exits with 1 if something happened that
// must not:
//
//	lost          a message whose sending was committed was not received
//	doubled       a message was acknowledged twice
//	two-in-group  two receivers had a group, or a stream, at the same time
//	out-of-order  messages of a stream were acknowledged in another order than sent
//	stranded      in one snapshot, a visible message had no place in the ready order
//	deadlocks     a transaction lost against another one
//	ghosts        a message was received that was never sent, or rolled back
//	sender-behind-receiver
//	              a sender waited for a receiver that was not about to commit
//	fenced-in-transaction
//	              messages were taken away from a transaction that held their group
//	errors        anything that the run did not expect
//
// The rest of the line says how much happened. "maybe" are messages whose sender did not live
// to hear of the commit; what was received of them is not in "sent". The time of a send is
// measured on streams with one sender each. On PostgreSQL, MySQL and MariaDB waits are counted
// as well: "slow-commits" are senders behind a receiver's commit for more than 100 ms,
// "receiver-behind-handler" and "meddler-behind-handler" are others than senders behind a
// receiver whose handler was at work. With --control there are only senders, killed as often
// as in a full run. Their times can be compared with those of a run whose receivers hold
// groups for long and use little of the processor (--work 2s).
//
// A run works under its own prefix and removes it in the end, unless the name of the
// database sets parley_prefix to an existing prefix.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	if childMain() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is main without the process: it returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	f := flag.NewFlagSet("stress", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.db, "db", "", "the database, like sqlite:/tmp/stress.db or postgres://user@host/db")
	f.DurationVar(&o.length, "for", time.Minute, "how long to send")
	f.Uint64Var(&o.seed, "seed", 0, "what chance begins with; 0 takes the time")
	f.IntVar(&o.senders, "senders", 16, "senders in this process")
	f.IntVar(&o.receivers, "receivers", 12, "receivers in this process")
	f.IntVar(&o.groups, "groups", 40, "groups of conversations")
	f.IntVar(&o.streams, "streams", 3, "conversations in each group at the start")
	f.IntVar(&o.children, "children", 1, "child processes that send, and as many that receive")
	f.DurationVar(&o.pause, "pause", 20*time.Millisecond, "what a sender waits between transactions, on average")
	f.DurationVar(&o.work, "work", 0, "how long every handler works; 0 is a few milliseconds, and now and then a second")
	f.BoolVar(&o.control, "control", false, "senders only")
	f.BoolVar(&o.keep, "keep", false, "leave everything in the database")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if o.db == "" || f.NArg() > 0 || o.senders < 1 || o.receivers < 1 || o.groups < 1 || o.streams < 1 || o.children < 0 {
		fmt.Fprintln(stderr, "stress: want --db, and numbers above zero")
		return 2
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	fmt.Fprintf(stderr, "stress: seed %d\n", o.seed)
	r, err := runLoad(ctx, o, &lockedWriter{w: stderr})
	if err != nil {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return 1
	}
	for _, p := range r.violations.problems {
		fmt.Fprintln(stderr, p)
	}
	for name, l := range r.longest {
		fmt.Fprintf(stderr, "stress: longest %s: %v in %s\n", name, l.Duration.Round(time.Millisecond), l.what)
	}
	fmt.Fprintln(stdout, r.line())
	if r.failures() > 0 {
		return 1
	}
	return 0
}
