// Package sample runs the ten tasks of "Parallel Task Scheduling" (sqlnotes.info).
// There are four of order 100, two of 200, one of 300, two of 400 and one of 500. Those
// of one order run together, and each order begins when the one before is over.
package sample

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

// Options say what to run. The zero value of a field means its default.
type Options struct {
	Unit    time.Duration // a published second; default 100 ms
	Workers int           // default 5, as published
	// Name of the plan; default "phases". If the plan exists, because a process was
	// killed, Run continues it.
	Name string
	// Lease is how long the tasks of a process that died wait before they are tried
	// again; default 2 s.
	Lease time.Duration

	// Began, if set, is told of each task that begins.
	Began func(phase int)
}

// Flags makes the options available as command-line flags.
func (o *Options) Flags(f *flag.FlagSet) {
	f.DurationVar(&o.Unit, "unit", 100*time.Millisecond, "how long a published second `takes`")
	f.IntVar(&o.Workers, "workers", 5, "number of `workers`")
}

// Tasks are the published ones: their orders, and for how many seconds each
// waits.
var Tasks = []struct {
	Order   int
	Seconds float64
}{
	{100, 10.1}, {100, 10.1}, {100, 10.1}, {100, 10.1},
	{200, 9.2}, {200, 9.2},
	{300, 8.3},
	{400, 7.4}, {400, 7.4},
	{500, 6.5},
}

// Run runs the sample on an open broker, which must be migrated, and draws the
// log.
func Run(ctx context.Context, b *parley.Broker, o Options, out io.Writer) error {
	if o.Unit == 0 {
		o.Unit = 100 * time.Millisecond
	}
	if o.Workers == 0 {
		o.Workers = 5
	}
	if o.Name == "" {
		o.Name = "phases"
	}
	if o.Lease == 0 {
		o.Lease = 2 * time.Second
	}
	if o.Unit < 0 || o.Workers < 1 {
		return errors.New("unit, workers: want values above zero")
	}
	s, err := phases.Find(ctx, b, o.Name)
	if errors.Is(err, phases.ErrNoPlan) {
		s, err = submit(ctx, b, o.Name)
	}
	if err != nil {
		return err
	}
	handlers := phases.Handlers{"wait": func(ctx context.Context, t *phases.Running) error {
		if o.Began != nil {
			o.Began(t.Phase)
		}
		var seconds float64
		if _, err := fmt.Sscan(string(t.Body), &seconds); err != nil {
			return phases.Dead(err)
		}
		select {
		case <-time.After(time.Duration(seconds * float64(o.Unit))):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	if err := s.Run(ctx, handlers, &phases.PoolOptions{Workers: o.Workers, Lease: o.Lease}); err != nil {
		return err
	}
	log, err := s.Log(ctx, parley.ID{}, len(Tasks))
	if err != nil {
		return err
	}
	if err := Draw(out, log); err != nil {
		return err
	}
	if err := Check(log); err != nil {
		return err
	}
	return s.Delete(ctx)
}

// submit opens the plan and submits its tasks.
func submit(ctx context.Context, b *parley.Broker, name string) (*phases.Plan, error) {
	s, err := phases.Open(ctx, b, name, &phases.Options{Purpose: "the sample of phases"})
	if err != nil {
		return nil, err
	}
	var tasks []phases.Task
	for _, t := range Tasks {
		tasks = append(tasks, phases.Task{Phase: t.Order, Type: "wait", Body: fmt.Append(nil, t.Seconds)})
	}
	return s, s.Submit(ctx, tasks...)
}

// Draw draws when tasks ran: a line for each, time from left to right.
func Draw(out io.Writer, log []phases.TaskStatus) error {
	if len(log) == 0 {
		return nil
	}
	const width = 64
	first, last := log[0].Started, log[0].Ended
	for _, t := range log {
		if t.Started.Before(first) {
			first = t.Started
		}
		if t.Ended.After(last) {
			last = t.Ended
		}
	}
	all := max(last.Sub(first), 1)
	at := func(t time.Time) int { return int(math.Round(float64(t.Sub(first)) / float64(all) * width)) }
	fmt.Fprintf(out, "order\n")
	for _, t := range log {
		from, to := at(t.Started), at(t.Ended)
		to = max(to, from+1)
		again := ""
		if t.Attempts > 1 {
			again = fmt.Sprintf("  at attempt %d", t.Attempts)
		}
		fmt.Fprintf(out, "%5d |%s%s%s| %5.2f s to %5.2f s%s\n", t.Phase,
			strings.Repeat(" ", min(from, width)), strings.Repeat("#", max(0, min(to, width+1)-from)), strings.Repeat(" ", max(0, width+1-max(to, from))),
			t.Started.Sub(first).Seconds(), t.Ended.Sub(first).Seconds(), again)
	}
	_, err := fmt.Fprintf(out, "%d tasks, %.2f s\n", len(log), all.Seconds())
	return err
}

// Check returns an error unless all tasks are done, and each began after all tasks of lower
// orders had ended.
func Check(log []phases.TaskStatus) error {
	if len(log) != len(Tasks) {
		return fmt.Errorf("the log has %d tasks, want %d", len(log), len(Tasks))
	}
	for _, t := range log {
		if t.State != phases.StateDone {
			return fmt.Errorf("a task of order %d is %s: %s", t.Phase, t.State, t.Error)
		}
		for _, u := range log {
			if u.Phase < t.Phase && t.Started.Before(u.Ended) {
				return fmt.Errorf("a task of order %d began %v before one of order %d had ended", t.Phase, u.Ended.Sub(t.Started), u.Phase)
			}
		}
	}
	return nil
}
