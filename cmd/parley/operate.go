package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func migrate(ctx context.Context, c *call) error {
	show := c.flags.Bool("print", false, "print the SQL instead, to be run by hand")
	from := c.flags.Int("from", 0, "with --print: what a schema of `version` lacks")
	wait := c.flags.Duration("wait", time.Minute, "how long to wait for locks, and for what older programs have in hand")
	if err := c.parse(0, 0); err != nil {
		return err
	}
	if *show && existing(*c.db) != nil { // nothing of the file matters to the SQL
		_, query, _ := strings.Cut(*c.db, "?")
		*c.db = "sqlite::memory:?" + query
	}
	c.creates = true
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	if *show {
		return printMigration(ctx, c, b, *from)
	}
	m, ok := b.Backend().(backend.Migrator)
	if !ok {
		return b.Migrate(ctx)
	}
	before, err := b.Info(ctx)
	if err != nil {
		return err
	}
	var did []string
	err = m.MigrateWith(ctx, backend.MigrateOptions{Wait: *wait, Report: func(text string) {
		if did = append(did, text); !*c.json {
			fmt.Fprintln(c.stdout, text)
		}
	}})
	if err != nil {
		return fmt.Errorf("parley: migrate: %w", err)
	}
	after, err := b.Info(ctx)
	switch {
	case err != nil:
		return err
	case *c.json:
		return json.NewEncoder(c.stdout).Encode(migrated{before.Schema, after.Schema, did})
	case before.Schema == after.Schema:
		fmt.Fprintf(c.stdout, "the schema has version %d; there was nothing to add\n", after.Schema)
	default:
		fmt.Fprintf(c.stdout, "the schema had version %d and has version %d now\n", before.Schema, after.Schema)
	}
	return nil
}

// migrated is what a migration did.
type migrated struct {
	From  int      `json:"from"`
	To    int      `json:"to"`
	Steps []string `json:"steps"`
}

func printMigration(ctx context.Context, c *call, b *parley.Broker, from int) error {
	p, ok := b.Backend().(backend.Printer)
	if !ok {
		return fmt.Errorf("parley: this backend has no SQL to print")
	}
	info, err := b.Info(ctx)
	if err != nil {
		return err
	}
	if from < 0 || from > info.Program {
		return fmt.Errorf("parley: --from %d: want a version from 0 to %d", from, info.Program)
	}
	_, err = io.WriteString(c.stdout, p.MigrationSQL(from))
	return err
}

func status(ctx context.Context, c *call) error {
	if err := c.parse(0, math.MaxInt); err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	queues, err := b.Admin().Queues(ctx, c.args...)
	if err != nil {
		return err
	}
	return c.print(queues, "QUEUE\tSTATUS\tDEPTH\tOLDEST\tDELAYED\tLEASED\tDEFERRED\tPARKED\tWITHHELD", func(row func(...any)) {
		for _, q := range queues {
			state := "on"
			if q.Disabled {
				state = "disabled"
			}
			row(q.Name, state, atLeast(q.Depth), age(q.Oldest), atLeast(q.Delayed), q.Leased, q.Deferred, q.Parked, atLeast(q.Withheld))
		}
	})
}

func groups(ctx context.Context, c *call) error {
	offset := c.flags.Int("offset", 0, "leave out the first `n` groups")
	limit := c.flags.Int("limit", 100, "show at most `n` groups")
	if err := c.parse(1, 1); err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	list, err := b.Admin().Groups(ctx, c.args[0], *offset, *limit)
	if err != nil {
		return err
	}
	return c.print(list, "GROUP\tOF\tPROMOTED\tPRIORITY\tMESSAGES\tOLDEST\tSTATE\tSINCE\tBY", func(row func(...any)) {
		for _, g := range list {
			of, promoted := g.Service, "-"
			switch {
			case g.Post:
				of = "post"
			case g.Key != "":
				of = fmt.Sprintf("key %q", g.Key)
			}
			if g.Promoted {
				promoted = strconv.Itoa(g.Level)
				if g.Sticky {
					promoted += " sticky"
				}
			}
			by := g.Owner
			if g.Reason != "" {
				by = g.Reason
			}
			row(g.Group, of, promoted, g.Priority, atLeast(g.Messages), age(g.Oldest), g.State, age(g.Since), by)
		}
	})
}

func conversations(ctx context.Context, c *call) error {
	after := c.flags.String("after", "", "begin after this conversation `id`")
	limit := c.flags.Int("limit", 100, "show at most `n` conversations")
	if err := c.parse(0, 1); err != nil {
		return err
	}
	q := parley.ConversationQuery{Limit: *limit}
	var err error
	if *after != "" {
		if q.After, err = parley.ParseID(*after); err != nil {
			return err
		}
	}
	if len(c.args) == 1 {
		if q.Handle, err = parley.ParseID(c.args[0]); err != nil {
			return err
		}
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	list, err := b.Admin().Conversations(ctx, q)
	if err != nil {
		return err
	}
	return c.print(list, "CONVERSATION\tHANDLE\tSIDE\tSERVICE\tFAR\tSTATE\tGROUP\tPRIORITY\tSENT\tWAITING\tWITHHELD\tTIMER\tSAYS", func(row func(...any)) {
		for _, s := range list {
			side, says := "target", s.Status
			if s.Initiator {
				side = "initiator"
			}
			if s.Error != nil {
				says = s.Error.Error()
			}
			row(s.Conversation, s.Handle, side, s.Service, s.Far, s.State, s.Group, s.Priority, s.NextSeq, atLeast(s.Waiting), atLeast(s.Held), age(s.Timer), says)
		}
	})
}

func promote(ctx context.Context, c *call) error {
	sticky := c.flags.Bool("sticky", false, "keep it until demote")
	if err := c.parse(1, 2); err != nil {
		return err
	}
	group, err := parley.ParseID(c.args[0])
	if err != nil {
		return err
	}
	level := parley.DefaultLevel
	if len(c.args) == 2 {
		if level, err = strconv.Atoi(c.args[1]); err != nil {
			return fmt.Errorf("parley: level: %w", err)
		}
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	o := []parley.PromoteOption{parley.Level(level)}
	if *sticky {
		o = append(o, parley.Sticky())
	}
	return b.Promote(ctx, group, o...)
}

func demote(ctx context.Context, c *call) error {
	if err := c.parse(1, 1); err != nil {
		return err
	}
	group, err := parley.ParseID(c.args[0])
	if err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.Demote(ctx, group)
}

// print writes v as JSON, or as a table.
func (c *call) print(v any, head string, rows func(row func(...any))) error {
	if *c.json {
		enc := json.NewEncoder(c.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, shown(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	})
	return w.Flush()
}

// atLeast shows a count that may have been cut off.
func atLeast(n int) string {
	if n >= backend.CountLimit {
		return fmt.Sprintf("%d+", backend.CountLimit)
	}
	return strconv.Itoa(n)
}

func age(d time.Duration) string {
	switch {
	case d == 0:
		return "-"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
