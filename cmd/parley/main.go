// Command parley looks after a database's conversations: it migrates, shows what
// waits and why, posts, and promotes. It retries or discards messages that failed,
// checks a database with the conformance suite, and runs the examples.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/mssql"
	_ "github.com/parleymq/parley/backend/mysql"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what the command has to say, it says itself
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// call is what commands work with.
type call struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	db             string
	json           bool
	begun          bool // flags and arguments are in order
}

// exitCode ends the program with a code and nothing more to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is an error that the command answers with its usage.
type usageError struct{ error }

func badUsage(format string, args ...any) error {
	return usageError{fmt.Errorf("parley: "+format, args...)}
}

// run runs a command and returns the exit code: 2 if it was called in a wrong way, 1 if it
// failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &call{stdin: os.Stdin, stdout: stdout, stderr: plain{stderr}}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(c.stderr)
	called, err := root.ExecuteContextC(ctx)
	var code exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage) || !c.begun:
		text := strings.TrimPrefix(err.Error(), "parley: ")
		fmt.Fprintf(c.stderr, "parley: %s\n\n%s", text, called.UsageString())
		return 2
	}
	fmt.Fprintln(c.stderr, err)
	return 1
}

const databases = `The database is named by --db or PARLEY_DB:
  sqlite:app.db  postgres://user@host/name  mysql://user@host/name  sqlserver://user@host?database=name`

// root is the command with all others below it.
func (c *call) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "parley",
		Short:         "Inspect and operate message queues in a database",
		Long:          "parley inspects and operates message queues in a database.\n\n" + databases,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(*cobra.Command, []string) error { return badUsage("which command?") },
	}
	root.SetVersionTemplate("parley {{.Version}}\n")
	root.PersistentFlags().StringVar(&c.db, "db", os.Getenv("PARLEY_DB"), "the `database`: sqlite:FILE, postgres://…, mysql://…, sqlserver://…")
	root.PersistentFlags().Lookup("db").DefValue = "" // it may have a password
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON")
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"See what there is", []*cobra.Command{c.status(), c.top(), c.groups(), c.conversations(), c.peek(), c.doctor(), c.locks(), c.console()}},
		{"Work with messages", []*cobra.Command{c.post(), c.cancel(), c.promote(), c.demote(), c.retry(), c.parked(), c.dead()}},
		{"Work with queues, plans and recurring jobs", []*cobra.Command{c.enable(), c.disable(), c.drain(), c.plan(), c.recurring()}},
		{"Set up and check", []*cobra.Command{c.migrate(), c.grants(), c.bench(), c.conformance(), c.demo(), c.version(), c.man()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("Set up and check")
	root.SetCompletionCommandGroupID("Set up and check")
	return root
}

// command makes a command that needs no database.
func (c *call) command(use, short, example string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Example: indented(example), Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		c.begun = true
		return run(cmd.Context(), args)
	}}
}

// indented is text as help shows it below a title.
func indented(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// verb makes a command that works on a database.
func (c *call) verb(use, short, example string, args cobra.PositionalArgs, run func(ctx context.Context, b *parley.Broker, args []string) error) *cobra.Command {
	return c.command(use, short, example, args, func(ctx context.Context, args []string) error {
		b, err := c.open(ctx)
		if err != nil {
			return err
		}
		defer b.Close()
		return run(ctx, b, args)
	})
}

// family makes a command that has verbs.
func (c *call) family(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return badUsage("%s: which verb?", use)
	}}
	cmd.AddCommand(verbs...)
	return cmd
}

// open opens the database without maintenance: the tool only looks.
func (c *call) open(ctx context.Context) (*parley.Broker, error) {
	if err := c.named(); err != nil {
		return nil, err
	}
	if err := existing(c.db); err != nil {
		return nil, err
	}
	return parley.Open(ctx, c.db, &parley.Options{NoMaintenance: true})
}

// named returns an error if no database was named.
func (c *call) named() error {
	if c.db == "" {
		return badUsage("which database? Give --db or set PARLEY_DB")
	}
	return nil
}

// existing returns an error if the name is that of a missing SQLite file. Opening it would create
// it, and a mistyped path would look like an empty database.
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
