package main

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
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

func (c *call) filters(typ bool) *filter {
	f := &filter{
		queue:   c.flags.String("queue", "", "only of this `queue`"),
		pattern: c.flags.String("error", "", "only those whose reason matches the regular `expression`"),
		older:   c.flags.Duration("older", 0, "only those that are there for longer than this `time`"),
		yes:     c.flags.Bool("yes", false, "do not ask before something is destroyed"),
		typ:     new(string),
	}
	if typ {
		f.typ = c.flags.String("type", "", "only of this message `type`")
	}
	return f
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

// parkedGroup is a group with the name of its queue.
type parkedGroup struct {
	Queue string
	parley.GroupStatus
}

func parked(ctx context.Context, c *call) error {
	f := c.filters(false)
	verb, ids, err := c.verb(f, "list", "show", "retry", "skip", "discard")
	if err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	queues, err := b.Queues(ctx)
	if err != nil {
		return err
	}
	found := []parkedGroup{}
	for _, q := range queues {
		if *f.queue != "" && q.Name != *f.queue {
			continue
		}
		list, err := b.Parked(ctx, q.Name, manyAtOnce)
		if err != nil {
			return err
		}
		for _, g := range list {
			if (len(ids) == 0 || ids[g.Group]) && f.err.MatchString(g.Reason) && g.Since >= *f.older {
				found = append(found, parkedGroup{q.Name, g})
			}
		}
	}
	switch verb {
	case "list":
		return c.print(found, "QUEUE\tGROUP\tOF\tMESSAGES\tSINCE\tREASON", func(row func(...any)) {
			for _, g := range found {
				row(g.Queue, g.Group, g.Service+g.Key, atLeast(g.Messages), age(g.Since), g.Reason)
			}
		})
	case "show":
		for _, g := range found {
			messages, err := b.PeekParked(ctx, g.Queue, g.Group, 10)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "group %s of queue %q, parked for %s: %s\n", g.Group, g.Queue, age(g.Since), g.Reason)
			for _, m := range messages {
				fmt.Fprintf(c.stdout, "  message %s, type %s, %d failed attempts, %d bytes\n    %s\n", m.ID, m.Type, m.Attempt-1, len(m.Body), m.LastError)
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
			err = b.Unpark(ctx, g.Group)
		case "skip":
			_, err = b.SkipParked(ctx, g.Queue, g.Group, "")
		case "discard":
			_, err = b.DiscardParked(ctx, g.Queue, g.Group)
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
	f := c.filters(true)
	verb, ids, err := c.verb(f, "list", "show", "requeue", "discard")
	if err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	all, err := b.DeadLetters(ctx, *f.queue, manyAtOnce)
	if err != nil {
		return err
	}
	found := []parley.DeadStatus{}
	for _, d := range all {
		if (len(ids) == 0 || ids[d.Message.ID]) && (*f.typ == "" || d.Message.Type == *f.typ) &&
			f.err.MatchString(d.Reason+" "+d.Message.LastError) && d.Age >= *f.older {
			found = append(found, d)
		}
	}
	switch verb {
	case "list":
		return c.print(found, "MESSAGE\tTYPE\tATTEMPTS\tAGE\tREASON", func(row func(...any)) {
			for _, d := range found {
				row(d.Message.ID, d.Message.Type, d.Message.Attempts, age(d.Age), d.Reason)
			}
		})
	case "show":
		for _, d := range found {
			fmt.Fprintf(c.stdout, "message %s, type %s, %d attempts, dead for %s: %s\n%s\n%q\n", d.Message.ID, d.Message.Type, d.Message.Attempts, age(d.Age), d.Reason, d.Message.LastError, d.Message.Body)
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
		n, err := b.DiscardDead(ctx, list...)
		if err != nil {
			return err
		}
		return c.count(verb, "dead letters", n)
	}
	for i, d := range found {
		if _, err := b.RequeueDead(ctx, d); err != nil {
			return fmt.Errorf("%d of %d were put back: %w", i, len(found), err)
		}
	}
	return c.count(verb, "dead letters", len(found))
}
