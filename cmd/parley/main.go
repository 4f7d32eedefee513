// Command parley looks after a database's conversations: it migrates, shows
// what waits and why, promotes, deals with what could not be handled, checks a
// database with the conformance suite, and runs the examples.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/mssql"
	_ "github.com/parleymq/parley/backend/mysql"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is one of the tool's verbs. Its error is printed; usage errors exit
// with 2, others with 1.
type command struct {
	args string
	says string
	run  func(ctx context.Context, c *call) error
}

var commands = map[string]command{
	"migrate":       {"[--print [--from VERSION]]", "create or update Parley's tables", migrate},
	"status":        {"[QUEUE...]", "queues with their depth, age and blocked groups", status},
	"groups":        {"QUEUE", "groups of a queue in the order in which they will be received", groups},
	"conversations": {"[HANDLE]", "conversations with both sides", conversations},
	"promote":       {"GROUP [LEVEL]", "put a group before all that are not promoted", promote},
	"demote":        {"GROUP", "end a group's promotion", demote},
	"schedule":      {"VERB [NAME [TASK...]]", "list, show, log, running, seal, cancel, retry, skip, release", schedule},
	"grants":        {"--role ROLE [--to ACCOUNT]", "print the rights that a role needs", grants},
	"locks":         {"[PREFIX]", "application locks, with their holders and waiters", locks},
	"bench":         {"", "measure what a database can do: send, drain, latency", bench},
	"parked":        {"[list|show|retry|skip|discard] [GROUP…]", "groups that are parked, and what to do with them", parked},
	"dead":          {"[list|show|requeue|discard] [MESSAGE…]", "dead letters, and what to do with them", dead},
	"top":           {"[--once]", "queues live: depth, age, readers, what is blocked", top},
	"doctor":        {"[QUEUE|SCHEDULE|ID]", "say why things do not move, and check the set-up", diagnose},
	"conformance":   {"", "check a database with the conformance suite", conform},
	"demo":          {"NAME", "run an example on a temporary SQLite file", runDemo},
}

// call is what a command works with.
type call struct {
	args           []string // after the command's name
	stdin          io.Reader
	stdout, stderr io.Writer
	flags          *flag.FlagSet
	db             *string
	json           *bool
	creates        bool // a database that is not there
}

// errUsage: what went wrong has been printed.
var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stderr = plain{stderr}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(stderr)
		return 2
	}
	cmd, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "parley: unknown command %q\n", args[0])
		usage(stderr)
		return 2
	}
	c := &call{args: args[1:], stdin: os.Stdin, stdout: stdout, stderr: stderr}
	c.flags = flag.NewFlagSet("parley "+args[0], flag.ContinueOnError)
	c.flags.SetOutput(stderr)
	c.flags.Usage = func() {
		fmt.Fprintf(stderr, "parley %s [flags] %s\n    %s\n", args[0], cmd.args, cmd.says)
		c.flags.PrintDefaults()
	}
	err := cmd.run(ctx, c)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errUsage), errors.Is(err, flag.ErrHelp):
		return 2
	}
	fmt.Fprintln(stderr, err)
	return 1
}

// exitCode ends the program with a code and nothing more to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func usage(w io.Writer) {
	fmt.Fprintln(w, "parley looks after conversations in a database.\n\nusage: parley COMMAND [flags] [arguments]")
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		fmt.Fprintf(w, "  %-28s %s\n", name+" "+commands[name].args, commands[name].says)
	}
	fmt.Fprintln(w, "\nThe database is named by --db or PARLEY_DB: sqlite:app.db, postgres://user@host/name, mysql://user@host/name,\nsqlserver://user@host?database=name")
}

// parse reads the flags that most commands have, and checks the number of
// arguments.
func (c *call) parse(least, most int) error {
	c.db = c.flags.String("db", os.Getenv("PARLEY_DB"), "the `database`: sqlite:FILE, postgres://…, mysql://…, sqlserver://…")
	c.json = c.flags.Bool("json", false, "print JSON")
	rest, err := interspersed(c.flags, c.args)
	if err != nil {
		return errUsage
	}
	c.args = rest
	if len(c.args) < least || len(c.args) > most {
		c.flags.Usage()
		return errUsage
	}
	return nil
}

// interspersed lets flags stand behind arguments, which package flag does not.
func interspersed(f *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			return rest, nil
		}
		rest = append(rest, f.Arg(0))
		args = f.Args()[1:]
	}
}

// open opens the database without background duties: the tool only looks.
func (c *call) open(ctx context.Context) (*parley.Broker, error) {
	if *c.db == "" {
		fmt.Fprintln(c.stderr, "parley: which database? Give --db or set PARLEY_DB.")
		return nil, errUsage
	}
	if err := existing(*c.db); err != nil && !c.creates {
		return nil, err
	}
	return parley.Open(ctx, *c.db, &parley.Options{NoDuties: true})
}

// existing returns an error if the name is that of a SQLite file that is not there:
// to open it would make it, and a mistyped path look like an empty database.
func existing(db string) error {
	path, ok := strings.CutPrefix(db, "sqlite:")
	path, _, _ = strings.Cut(strings.TrimPrefix(path, "//"), "?")
	if !ok || path == "" || path == ":memory:" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("parley: no such database: %w (parley migrate makes one)", err)
	}
	return nil
}
