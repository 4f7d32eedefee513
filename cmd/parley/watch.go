package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/doctor"
)

// line is a queue as `parley top` shows it.
type line struct {
	parley.QueueStatus
	Readers int     // the most that live workers may have
	InHand  int     // groups that readers have, or had last, in hand
	Change  float64 // of the depth, in a second
}

func top(ctx context.Context, c *call) error {
	once := c.flags.Bool("once", false, "show it once and end")
	every := c.flags.Duration("every", time.Second, "look again after this `time`")
	if err := c.parse(0, 0); err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	before, at, err := lines(ctx, b)
	for err == nil {
		select {
		case <-time.After(*every):
		case <-ctx.Done():
			return nil
		}
		var now []line
		var then time.Time
		if now, then, err = lines(ctx, b); err != nil {
			break
		}
		for i := range now {
			for _, old := range before {
				if old.ID == now[i].ID {
					now[i].Change = float64(now[i].Depth-old.Depth) / then.Sub(at).Seconds()
				}
			}
		}
		if !*once && !*c.json {
			fmt.Fprint(c.stdout, "\x1b[H\x1b[2J")
		}
		err = c.print(now, "QUEUE\tDEPTH\tOLDEST\tCHANGE/S\tREADERS\tIN HAND\tLEASED\tDELAYED\tDEFERRED\tPARKED\tWITHHELD", func(row func(...any)) {
			for _, q := range now {
				row(q.Name, atLeast(q.Depth), age(q.Oldest), fmt.Sprintf("%+.0f", q.Change), q.Readers, q.InHand, q.Leased, atLeast(q.Delayed), q.Deferred, q.Parked, atLeast(q.Withheld))
			}
		})
		if *once {
			return err
		}
		before, at = now, then
	}
	return err
}

func lines(ctx context.Context, b *parley.Broker) (list []line, at time.Time, err error) {
	queues, err := b.Admin().Queues(ctx)
	if err != nil {
		return nil, at, err
	}
	workers, err := b.Admin().Workers(ctx)
	for _, q := range queues {
		l := line{QueueStatus: q}
		most := make(map[parley.ID]int)
		for _, w := range workers {
			if w.Queue == q.ID && w.Left > 0 {
				most[w.Worker] = w.Readers
				l.InHand += len(w.InHand)
			}
		}
		for _, n := range most {
			l.Readers += n
		}
		list = append(list, l)
	}
	return list, time.Now(), err
}

func diagnose(ctx context.Context, c *call) error {
	if err := c.parse(0, 1); err != nil {
		return err
	}
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	what := ""
	if len(c.args) == 1 {
		what = c.args[0]
	}
	found, failed := doctor.Diagnose(ctx, b, what)
	if len(found) == 0 && failed != nil {
		return failed
	}
	if len(found) == 0 && !*c.json {
		fmt.Fprintln(c.stdout, "nothing stands in the way of messages")
		return nil
	}
	if found == nil {
		found = []doctor.Finding{}
	}
	bad := false
	err = c.print(found, "CODE\tOF\tWHAT\tDO", func(row func(...any)) {
		for _, f := range found {
			row(f.Code, f.Object, f.Text, f.Hint)
		}
	})
	for _, f := range found {
		bad = bad || f.Bad
	}
	if err = errors.Join(failed, err); err == nil && bad {
		return exitCode(1)
	}
	return err
}
