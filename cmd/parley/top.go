package main

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
)

// line is a queue as `parley top` shows it.
type line struct {
	parley.QueueStatus
	Readers int     // the most that live workers may have
	InHand  int     // groups that readers have, or had last, in hand
	Change  float64 // of the depth, in a second
}

const topColumns = "QUEUE\tDEPTH\tOLDEST\tCHANGE/S\tREADERS\tIN HAND\tLEASED\tDELAYED\tDEFERRED\tPARKED\tWITHHELD"

func (q line) row() []any {
	return []any{q.Name, atLeast(q.Depth), age(q.Oldest), fmt.Sprintf("%+.0f", q.Change), q.Readers, q.InHand, q.Leased,
		atLeast(q.Delayed), q.Deferred, q.Parked, atLeast(q.Withheld)}
}

func (c *call) top() *cobra.Command {
	var once bool
	var every time.Duration
	cmd := c.verb("top", "Watch queues: depth, age, readers, what is blocked", "parley top\nparley top --once --json", cobra.NoArgs,
		func(ctx context.Context, b *parley.Broker, _ []string) error {
			w := &watch{b: b}
			if _, ok := screen(c.stdout); ok && !once && !c.json {
				_, err := tea.NewProgram(newBoard(ctx, w, every), tea.WithContext(ctx), tea.WithOutput(c.stdout), tea.WithInput(c.stdin)).Run()
				return err
			}
			if _, err := w.look(ctx); err != nil {
				return err
			}
			for {
				select {
				case <-time.After(every):
				case <-ctx.Done():
					return nil
				}
				now, err := w.look(ctx)
				if err != nil {
					return err
				}
				err = c.print(now, topColumns, func(row func(...any)) {
					for _, q := range now {
						row(q.row()...)
					}
				})
				if once || err != nil {
					return err
				}
			}
		})
	cmd.Long = "Watch queues. On a terminal: arrows choose, enter opens a queue and a group, esc goes back, s sorts, / filters,\n" +
		"r retries a parked or deferred group, p promotes one, space stops the updates, q ends."
	cmd.Flags().BoolVar(&once, "once", false, "print it once and exit")
	cmd.Flags().DurationVar(&every, "every", time.Second, "look every `time`")
	return cmd
}

// watch looks at queues again and again, and compares.
type watch struct {
	b      *parley.Broker
	before map[int64]int // depths
	at     time.Time
}

func (w *watch) look(ctx context.Context) ([]line, error) {
	queues, err := w.b.Admin().Queues(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := w.b.Admin().Workers(ctx)
	if err != nil {
		return nil, err
	}
	now, depths := time.Now(), make(map[int64]int)
	list := make([]line, 0, len(queues))
	for _, q := range queues {
		l := line{QueueStatus: q}
		most := make(map[parley.ID]int)
		for _, worker := range workers {
			if worker.Queue == q.Name && worker.Left > 0 {
				most[worker.Worker] = worker.Readers
				l.InHand += len(worker.InHand)
			}
		}
		for _, n := range most {
			l.Readers += n
		}
		if old, ok := w.before[q.ID]; ok {
			l.Change = float64(q.Depth-old) / now.Sub(w.at).Seconds()
		}
		depths[q.ID] = q.Depth
		list = append(list, l)
	}
	w.before, w.at = depths, now
	return list, nil
}
