package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// What could not be handled: parked groups and dead letters.

// filter chooses among them.
type filter struct {
	queue, typ *string
	pattern    *string
	older      *time.Duration
	yes        *bool
	err        *regexp.Regexp
}

func (c *call) filters() *filter {
	return &filter{
		queue:   c.flags.String("queue", "", "only of this `queue`"),
		typ:     c.flags.String("type", "", "only of this message `type`; of a group its first message has it"),
		pattern: c.flags.String("error", "", "only those whose reason matches the regular `expression`"),
		older:   c.flags.Duration("older", 0, "only those that are there for longer than this `time`"),
		yes:     c.flags.Bool("yes", false, "do not ask before something is destroyed"),
	}
}

func (f *filter) compile() (err error) {
	f.err, err = regexp.Compile(*f.pattern)
	return err
}

// sure asks before n things are destroyed.
func (c *call) sure(f *filter, what string, n int) bool {
	if *f.yes || n == 0 {
		return true
	}
	fmt.Fprintf(c.stderr, "%s %d? Nothing brings them back. [y/N] ", what, n)
	line, _ := bufio.NewReader(c.stdin).ReadString('\n')
	return line == "y\n" || line == "yes\n"
}

// manyAtOnce is how many groups or dead letters are listed and acted on at once.
const manyAtOnce = 10000

// verb splits the arguments into the verb and the ids. A filter must be given
// where many could be meant by mistake.
func (c *call) verb(f *filter, verbs ...string) (verb string, ids map[parley.ID]bool, err error) {
	if err := c.parse(0, 1000); err != nil {
		return "", nil, err
	}
	if err := f.compile(); err != nil {
		return "", nil, err
	}
	verb = verbs[0]
	if len(c.args) > 0 {
		verb, c.args = c.args[0], c.args[1:]
	}
	known := false
	for _, v := range verbs {
		known = known || v == verb
	}
	if !known {
		return "", nil, fmt.Errorf("parley: %q is none of %v", verb, verbs)
	}
	ids = make(map[parley.ID]bool)
	for _, arg := range c.args {
		id, err := parley.ParseID(arg)
		if err != nil {
			return "", nil, err
		}
		ids[id] = true
	}
	if verb != "list" && len(ids) == 0 && *f.queue == "" && *f.typ == "" && *f.pattern == "" && *f.older == 0 {
		return "", nil, fmt.Errorf("parley: %s which? Give ids or a filter", verb)
	}
	return verb, ids, nil
}

// missing is the error of ids that were given and are not there.
func missing(what string, ids map[parley.ID]bool) error {
	if len(ids) == 0 {
		return nil
	}
	var list []string
	for id := range ids {
		list = append(list, id.String())
	}
	return fmt.Errorf("parley: no such %s, or the filter leaves it out: %s", what, strings.Join(list, ", "))
}

// parkedGroup is a group with the name of its queue.
type parkedGroup struct {
	Queue string
	parley.GroupStatus
	First []*parley.Message `json:",omitempty"` // messages, where they are shown
}

// parkedGroups lists those that fit.
func parkedGroups(ctx context.Context, b *parley.Broker, f *filter, ids map[parley.ID]bool) ([]parkedGroup, error) {
	var names []string
	if *f.queue != "" {
		names = []string{*f.queue}
	}
	queues, err := b.Admin().Queues(ctx, names...)
	found := []parkedGroup{}
	wanted := len(ids) > 0
	for _, q := range queues {
		list, err := b.Admin().Parked(ctx, q.Name, manyAtOnce)
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			if wanted && !ids[g.Group] || !f.err.MatchString(g.Reason) || g.Since < *f.older {
				continue
			}
			if *f.typ != "" {
				first, err := b.Admin().PeekParked(ctx, q.Name, g.Group, 1)
				if err != nil {
					return nil, err
				}
				if len(first) == 0 || first[0].Type != *f.typ {
					continue
				}
			}
			delete(ids, g.Group)
			found = append(found, parkedGroup{q.Name, g, nil})
		}
	}
	return found, errors.Join(err, missing("parked group", ids))
}

func parked(ctx context.Context, c *call) error {
	f := c.filters()
	verb, ids, err := c.verb(f, "list", "show", "retry", "skip", "discard")
	if err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	found, err := parkedGroups(ctx, b, f, ids)
	if err != nil {
		return err
	}
	switch verb {
	case "list":
		return c.print(found, "QUEUE\tGROUP\tOF\tMESSAGES\tSINCE\tREASON", func(row func(...any)) {
			for _, g := range found {
				row(g.Queue, g.Group, g.Service+g.Key, atLeast(g.Messages), age(g.Since), g.Reason)
			}
		})
	case "show":
		for i, g := range found {
			if found[i].First, err = b.Admin().PeekParked(ctx, g.Queue, g.Group, 10); err != nil {
				return err
			}
		}
		if *c.json {
			return c.print(found, "", nil)
		}
		for _, g := range found {
			c.printf("group %s of queue %q, parked for %s: %s\n", g.Group, g.Queue, age(g.Since), g.Reason)
			for _, m := range g.First {
				c.printf("  message %s, type %s, %d failed attempts, %d bytes\n    %s\n", m.ID, m.Type, m.Attempt-1, len(m.Body), m.LastError)
			}
		}
		return nil
	}
	if verb != "retry" && !c.sure(f, map[string]string{"skip": "skip the first message of groups:", "discard": "discard all messages of groups:"}[verb], len(found)) {
		return fmt.Errorf("parley: nothing was done")
	}
	done := 0
	for _, g := range found {
		switch verb {
		case "retry":
			err = b.Admin().Unpark(ctx, g.Group)
		case "skip":
			_, err = b.Admin().SkipParked(ctx, g.Queue, g.Group, "")
		case "discard":
			_, err = b.Admin().DiscardParked(ctx, g.Queue, g.Group)
		}
		if err != nil {
			return err
		}
		done++
	}
	return c.count(verb, "groups", done)
}

// count says how many there were.
func (c *call) count(verb, what string, n int) error {
	return c.print(map[string]any{"verb": verb, what: n}, fmt.Sprintf("%s: %d %s", verb, n, what), func(func(...any)) {})
}

func dead(ctx context.Context, c *call) error {
	f := c.filters()
	verb, ids, err := c.verb(f, "list", "show", "requeue", "discard")
	if err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	all, err := b.Admin().DeadLetters(ctx, *f.queue, manyAtOnce)
	if err != nil {
		return err
	}
	found := []parley.DeadStatus{}
	wanted := len(ids) > 0
	for _, d := range all {
		if (!wanted || ids[d.Message.ID]) && (*f.typ == "" || d.Message.Type == *f.typ) &&
			f.err.MatchString(d.Reason+" "+d.Message.LastError) && d.Age >= *f.older {
			found = append(found, d)
			delete(ids, d.Message.ID)
		}
	}
	if err := missing("dead letter", ids); err != nil {
		return err
	}
	switch verb {
	case "list":
		return c.print(found, "MESSAGE\tTYPE\tATTEMPTS\tAGE\tREASON", func(row func(...any)) {
			for _, d := range found {
				row(d.Message.ID, d.Message.Type, d.Message.Attempts, age(d.Age), d.Reason)
			}
		})
	case "show":
		if *c.json {
			return c.print(found, "", nil)
		}
		for _, d := range found {
			c.printf("message %s, type %s, %d attempts, dead for %s: %s\n%s\n%s\n", d.Message.ID, d.Message.Type, d.Message.Attempts,
				age(d.Age), d.Reason, d.Message.LastError, strconv.Quote(string(d.Message.Body)))
		}
		return nil
	case "discard":
		if !c.sure(f, "discard dead letters:", len(found)) {
			return fmt.Errorf("parley: nothing was done")
		}
		list := make([]parley.ID, len(found))
		for i, d := range found {
			list[i] = d.Message.ID
		}
		n, err := b.Admin().DiscardDead(ctx, list...)
		if err != nil {
			return err
		}
		return c.count(verb, "dead letters", n)
	}
	for i, d := range found {
		if _, err := b.Admin().RequeueDead(ctx, d); err != nil {
			return fmt.Errorf("%d of %d were put back: %w", i, len(found), err)
		}
	}
	return c.count(verb, "dead letters", len(found))
}
