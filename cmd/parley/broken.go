package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// What could not be handled: parked groups and dead letters.

// filter chooses among them.
type filter struct {
	queue, typ, pattern string
	older               time.Duration
	yes                 bool
	err                 *regexp.Regexp
	ids                 map[parley.ID]bool
	named               bool // there were ids
}

// flags adds the filter's to a family of commands.
func (f *filter) flags(cmd *cobra.Command) {
	p := cmd.PersistentFlags()
	p.StringVar(&f.queue, "queue", "", "only of this `queue`")
	p.StringVar(&f.typ, "type", "", "only of this message `type`; for a group, the type of its first message")
	p.StringVar(&f.pattern, "error", "", "only those whose reason matches the regular `expression`")
	p.DurationVar(&f.older, "older", 0, "only those older than this `time`")
	p.BoolVar(&f.yes, "yes", false, "destroy messages without asking")
}

// read takes the ids that were given, and compiles the expression.
func (f *filter) read(args []string) (err error) {
	if f.err, err = regexp.Compile(f.pattern); err != nil {
		return err
	}
	list, err := ids(args)
	f.ids, f.named = make(map[parley.ID]bool), len(list) > 0
	for _, id := range list {
		f.ids[id] = true
	}
	return err
}

// must returns an error where many could be meant by mistake.
func (f *filter) must(verb string) error {
	if !f.named && f.queue == "" && f.typ == "" && f.pattern == "" && f.older == 0 {
		return fmt.Errorf("parley: %s which? Give ids or a filter", verb)
	}
	return nil
}

// missing is the error of ids that were given and not found.
func (f *filter) missing(what string) error {
	if len(f.ids) == 0 {
		return nil
	}
	var list []string
	for id := range f.ids {
		list = append(list, id.String())
	}
	slices.Sort(list)
	return fmt.Errorf("parley: no such %s, or the filter leaves it out: %s", what, strings.Join(list, ", "))
}

func ids(args []string) (list []parley.ID, err error) {
	for _, arg := range args {
		id, err := parley.ParseID(arg)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	return list, nil
}

// errAsked is what becomes of an operator's no.
var errAsked = errors.New("parley: nothing was done")

// sure asks before n things are changed for good.
func (c *call) sure(f *filter, question string, n int) error {
	if f.yes || n == 0 {
		return nil
	}
	fmt.Fprintf(c.stderr, "%s [y/N] ", shown(question))
	line, _ := bufio.NewReader(c.stdin).ReadString('\n')
	if line != "y\n" && line != "yes\n" {
		return errAsked
	}
	return nil
}

// manyAtOnce is how many groups or dead letters are listed and acted on at once.
const manyAtOnce = 10000

// pageOf is how many of them are read at a time.
const pageOf = 500

// pages reads page after page of a list.
func pages[T any](read func(after parley.Place) ([]T, parley.Place, error)) (all []T, err error) {
	for after := (parley.Place{}); len(all) < manyAtOnce; {
		page, last, err := read(after)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all, after = append(all, page...), last
	}
	return all, nil
}

func lastPlace[T any](list []T, of func(T) parley.Place) (last parley.Place) {
	if n := len(list); n > 0 {
		last = of(list[n-1])
	}
	return last
}

// parkedGroup is a group with its first messages.
type parkedGroup struct {
	parley.GroupStatus
	First []*parley.Message `json:",omitempty"` // messages, where they are shown
}

// parkedGroups lists those that fit.
func parkedGroups(ctx context.Context, b *parley.Broker, f *filter) ([]parkedGroup, error) {
	var names []string
	if f.queue != "" {
		names = []string{f.queue}
	}
	queues, err := b.Admin().Queues(ctx, names...)
	found := []parkedGroup{}
	for _, q := range queues {
		if q.Parked == 0 {
			continue
		}
		list, err := pages(func(after parley.Place) ([]parley.GroupStatus, parley.Place, error) {
			list, err := b.Admin().Parked(ctx, q.Name, after, pageOf)
			return list, lastPlace(list, func(g parley.GroupStatus) parley.Place { return g.Place }), err
		})
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			if f.named && !f.ids[g.Group] || !f.err.MatchString(g.Reason) || g.Since < f.older {
				continue
			}
			if f.typ != "" {
				first, err := b.Admin().PeekParked(ctx, q.Name, g.Group, 1)
				if err != nil {
					return nil, err
				}
				if len(first) == 0 || first[0].Type != f.typ {
					continue
				}
			}
			delete(f.ids, g.Group)
			found = append(found, parkedGroup{g, nil})
		}
	}
	return found, errors.Join(err, f.missing("parked group"))
}

// parked has the verbs for parked groups.
func (c *call) parked() *cobra.Command {
	var f filter
	verb := func(use, short string, do func(context.Context, *parley.Broker, []parkedGroup) error) *cobra.Command {
		name, _, _ := strings.Cut(use, " ")
		return c.verb(use, short, "parley parked "+name+" --queue orders --error 'no such customer'", cobra.ArbitraryArgs,
			func(ctx context.Context, b *parley.Broker, args []string) error {
				err := f.read(args)
				if err == nil && name != "list" {
					err = f.must(name)
				}
				if err != nil {
					return err
				}
				found, err := parkedGroups(ctx, b, &f)
				if err != nil {
					return err
				}
				return do(ctx, b, found)
			})
	}
	change := func(name, short, question string, do func(context.Context, *parley.Broker, parkedGroup) error) *cobra.Command {
		return verb(name+" [GROUP...]", short, func(ctx context.Context, b *parley.Broker, found []parkedGroup) error {
			if question != "" {
				if err := c.sure(&f, fmt.Sprintf(question, len(found)), len(found)); err != nil {
					return err
				}
			}
			return all(c, name, "groups", found, func(g parkedGroup) error { return do(ctx, b, g) })
		})
	}
	list := verb("list [GROUP...]", "List parked groups", func(_ context.Context, _ *parley.Broker, found []parkedGroup) error {
		return c.print(found, "QUEUE\tGROUP\tOF\tMESSAGES\tSINCE\tREASON", func(row func(...any)) {
			for _, g := range found {
				row(g.Queue, g.Group, g.Service+g.Key, atLeast(g.Messages), age(g.Since), g.Reason)
			}
		})
	})
	cmd := c.family("parked", "List and resolve parked groups", list,
		verb("show [GROUP...]", "Show parked groups with their first messages", c.showParked),
		change("retry", "Make parked groups ready again", "",
			func(ctx context.Context, b *parley.Broker, g parkedGroup) error {
				return b.Admin().Unpark(ctx, g.Group)
			}),
		change("skip", "Make the first message of parked groups a dead letter, and the rest ready",
			"make the first message of %d groups a dead letter? (parley dead requeue puts it back, behind the others)",
			func(ctx context.Context, b *parley.Broker, g parkedGroup) error {
				_, err := b.Admin().SkipParked(ctx, g.Queue, g.Group, "")
				return err
			}),
		change("discard", "Destroy all messages of parked groups", "destroy all messages of %d groups? Nothing brings them back.",
			func(ctx context.Context, b *parley.Broker, g parkedGroup) error {
				_, err := b.Admin().DiscardParked(ctx, g.Queue, g.Group)
				return err
			}),
	)
	cmd.RunE = list.RunE
	f.flags(cmd)
	return cmd
}

// all does something to each of several things, with a bar, and says how many there were.
func all[T any](c *call, verb, what string, list []T, do func(T) error) error {
	p := c.progress(verb, float64(len(list)))
	for i, x := range list {
		p.set(float64(i), verb)
		if err := do(x); err != nil {
			p.end()
			return fmt.Errorf("%w (after %d of %d %s)", err, i, len(list), what)
		}
	}
	p.end()
	return c.count(verb, what, len(list))
}

func (c *call) showParked(ctx context.Context, b *parley.Broker, found []parkedGroup) (err error) {
	for i, g := range found {
		if found[i].First, err = b.Admin().PeekParked(ctx, g.Queue, g.Group, 10); err != nil {
			return err
		}
	}
	if c.json {
		return c.encode(found)
	}
	for _, g := range found {
		c.printf("group %s of queue %q, parked for %s: %s\n", g.Group, g.Queue, age(g.Since), g.Reason)
		for _, m := range g.First {
			c.printf("  message %s, type %s, %d failed attempts, %d bytes\n", m.ID, m.Type, m.Attempt-1, len(m.Body))
			c.printHeaders("    ", m.Headers)
			c.printErrors("    ", m.Errors)
			c.printf("    %s\n", m.LastError)
		}
	}
	return nil
}

// printHeaders writes the headers of a message, if it has any.
func (c *call) printHeaders(indent string, headers map[string]string) {
	if len(headers) > 0 {
		c.printf(indent+"headers %s\n", backend.EncodeHeaders(headers))
	}
}

// printErrors writes which attempts have failed, if there were several: the last error follows in full.
func (c *call) printErrors(indent string, errors []parley.FailedAttempt) {
	if len(errors) < 2 {
		return
	}
	for _, a := range errors {
		c.printf("%sattempt %d, %s: %s\n", indent, a.Attempt, date(a.At), firstLine(a.Error))
	}
}

// dead has the verbs for dead letters.
func (c *call) dead() *cobra.Command {
	var f filter
	verb := func(use, short string, do func(context.Context, *parley.Broker, []deadLetter) error) *cobra.Command {
		name, _, _ := strings.Cut(use, " ")
		return c.verb(use, short, "parley dead "+name+" --type Order --older 1h", cobra.ArbitraryArgs,
			func(ctx context.Context, b *parley.Broker, args []string) error {
				err := f.read(args)
				if err == nil && name != "list" {
					err = f.must(name)
				}
				if err != nil {
					return err
				}
				found, err := deadLetters(ctx, b, &f)
				if err != nil {
					return err
				}
				return do(ctx, b, found)
			})
	}
	list := verb("list [MESSAGE...]", "List dead letters", func(_ context.Context, _ *parley.Broker, found []deadLetter) error {
		return c.print(found, "MESSAGE\tQUEUE\tTYPE\tATTEMPTS\tAGE\tREASON", func(row func(...any)) {
			for _, d := range found {
				row(d.ID, d.Queue, d.Type, d.Attempts, age(d.Age), d.Reason)
			}
		})
	})
	cmd := c.family("dead", "List and resolve dead letters", list,
		verb("show [MESSAGE...]", "Show dead letters with their bodies", c.showDead),
		verb("requeue [MESSAGE...]", "Put dead letters back into their queues", func(ctx context.Context, b *parley.Broker, found []deadLetter) error {
			return all(c, "requeue", "dead letters", found, func(d deadLetter) error {
				_, err := b.Admin().RequeueDead(ctx, d.status)
				return err
			})
		}),
		verb("discard [MESSAGE...]", "Destroy dead letters", func(ctx context.Context, b *parley.Broker, found []deadLetter) error {
			if err := c.sure(&f, fmt.Sprintf("destroy %d dead letters? Nothing brings them back.", len(found)), len(found)); err != nil {
				return err
			}
			return c.discardDead(ctx, b, found)
		}),
	)
	cmd.RunE = list.RunE
	f.flags(cmd)
	return cmd
}

// deadLetter is a dead letter with the name of its queue.
type deadLetter struct {
	ID        parley.ID
	Queue     string
	Type      string
	Key       string
	Group     parley.ID
	Body      []byte
	Headers   map[string]string
	Enqueued  time.Time
	Attempts  int
	LastError string
	Errors    []parley.FailedAttempt
	Reason    string
	Age       time.Duration

	status parley.DeadStatus
}

// deadLetters lists those that fit.
func deadLetters(ctx context.Context, b *parley.Broker, f *filter) ([]deadLetter, error) {
	letters, err := pages(func(after parley.Place) ([]parley.DeadStatus, parley.Place, error) {
		list, err := b.Admin().DeadLetters(ctx, f.queue, after, pageOf)
		return list, lastPlace(list, func(d parley.DeadStatus) parley.Place { return d.Place }), err
	})
	if err != nil {
		return nil, err
	}
	found := []deadLetter{}
	for _, d := range letters {
		if (!f.named || f.ids[d.Message.ID]) && (f.typ == "" || d.Message.Type == f.typ) &&
			f.err.MatchString(d.Reason+" "+d.Message.LastError) && d.Age >= f.older {
			m := d.Message
			found = append(found, deadLetter{m.ID, d.Queue, m.Type, m.Key, m.Group, m.Body, m.Headers, m.Enqueued, d.Attempts, m.LastError, m.Errors, d.Reason, d.Age, d})
			delete(f.ids, m.ID)
		}
	}
	return found, f.missing("dead letter")
}

func (c *call) showDead(_ context.Context, _ *parley.Broker, found []deadLetter) error {
	if c.json {
		return c.encode(found)
	}
	for _, d := range found {
		c.printf("message %s of queue %q, type %s, %d attempts, dead for %s: %s\n", d.ID, d.Queue, d.Type, d.Attempts, age(d.Age), d.Reason)
		c.printHeaders("", d.Headers)
		c.printErrors("", d.Errors)
		c.printf("%s\n%s\n", d.LastError, strconv.Quote(string(d.Body)))
	}
	return nil
}

// discardMany is how many dead letters one transaction removes.
const discardMany = 500

func (c *call) discardDead(ctx context.Context, b *parley.Broker, found []deadLetter) error {
	p := c.progress("discard", float64(len(found)))
	done := 0
	for part := range slices.Chunk(found, discardMany) {
		list := make([]parley.ID, len(part))
		for i, d := range part {
			list[i] = d.ID
		}
		n, err := b.Admin().DiscardDead(ctx, list...)
		if done += n; err != nil {
			p.end()
			return fmt.Errorf("%w (after %d of %d)", err, done, len(found))
		}
		p.set(float64(done), "discard")
	}
	p.end()
	return c.count("discard", "dead letters", done)
}
