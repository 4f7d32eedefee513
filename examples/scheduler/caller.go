package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

// options say what to run; flags says what each means.
type options struct {
	unit                  time.Duration
	workers, many, active int
}

func (o *options) flags(f *flag.FlagSet) {
	f.DurationVar(&o.unit, "unit", 50*time.Millisecond, "how long a published second `takes`")
	f.IntVar(&o.workers, "workers", 8, "number of `workers`")
	f.IntVar(&o.many, "many", 1000, "number of `tasks` of the second part")
	f.IntVar(&o.active, "active", 3, "how many of these run at `once`")
}

// groups are what the caller submits between two waits: how many tasks, and how many
// seconds each of them takes.
var groups = []struct {
	Tasks   int
	Seconds float64
}{{4, 10.1}, {2, 9.2}, {1, 8.3}, {2, 7.4}, {1, 6.5}}

// schedule submits the groups of tasks one after the other, and then many tasks of which
// only a few may run at once.
func schedule(ctx context.Context, b *parley.Broker, o options, out io.Writer) error {
	if o.unit <= 0 || o.workers < 1 || o.many < 1 || o.active < 1 {
		return errors.New("unit, workers, many, active: want values above zero")
	}
	// One pool of workers serves all plans.
	var mu sync.Mutex
	running, most := 0, 0
	pool, err := phases.NewPool(b, phases.Handlers{
		"wait": func(ctx context.Context, t *phases.Running) error {
			var seconds float64
			if _, err := fmt.Sscan(string(t.Body), &seconds); err != nil {
				return phases.Dead(err)
			}
			select {
			case <-time.After(time.Duration(seconds * float64(o.unit))):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		"count": func(ctx context.Context, t *phases.Running) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(100 * time.Microsecond)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		},
	}, &phases.PoolOptions{Workers: o.workers})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(working) }()
	err = errors.Join(batches(ctx, b, o, out), many(ctx, b, o, out))
	stop()
	err = errors.Join(err, <-ended)
	if err == nil {
		_, err = fmt.Fprintf(out, "%d tasks, at most %d at once\n", o.many, most)
	}
	return err
}

// batches submits a group, waits for it, shows its outcomes, and goes on with the next.
func batches(ctx context.Context, b *parley.Broker, o options, out io.Writer) error {
	s, err := phases.Open(ctx, b, "caller", nil)
	if err != nil {
		return err
	}
	defer s.Delete(context.WithoutCancel(ctx)) // an operator may have been faster
	for i, batch := range groups {
		var tasks []phases.Task
		for range batch.Tasks {
			tasks = append(tasks, phases.Task{Phase: i, Type: "wait", Body: fmt.Append(nil, batch.Seconds)})
		}
		if err := s.Submit(ctx, tasks...); err != nil {
			return err
		}
		if i == 0 {
			if err := monitor(ctx, b, s, out); err != nil {
				return err
			}
		}
		if err := s.Wait(ctx); err != nil {
			return err
		}
		if err := s.Wait(ctx); err != nil { // nothing is left: returns at once
			return err
		}
		for {
			t, err := s.Next(ctx)
			if errors.Is(err, phases.ErrNoTask) {
				break
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "batch %d: %s after %.1f published seconds\n", i+1, t.State, float64(t.Ended.Sub(t.Started))/float64(o.unit))
		}
	}
	return nil
}

// monitor shows what runs, once all of the first group does. If its tasks have ended before that, it shows nothing.
func monitor(ctx context.Context, b *parley.Broker, s *phases.Plan, out io.Writer) error {
	for {
		list, err := phases.Log(ctx, b, phases.Query{Running: true, Limit: 10})
		if err != nil {
			return err
		}
		if len(list) == groups[0].Tasks {
			for _, t := range list {
				fmt.Fprintf(out, "running: %s, phase %d, type %s, attempt %d\n", t.Plan, t.Phase, t.Type, t.Attempts)
			}
			return nil
		}
		progress, err := s.Progress(ctx)
		if err != nil || progress.Over {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// many submits more than may run at once.
func many(ctx context.Context, b *parley.Broker, o options, out io.Writer) error {
	s, err := phases.Open(ctx, b, "many", &phases.Options{MaxActive: o.active})
	if err != nil {
		return err
	}
	defer s.Delete(context.WithoutCancel(ctx))
	tasks := make([]phases.Task, o.many)
	for i := range tasks {
		tasks[i].Type = "count"
	}
	if err := s.Submit(ctx, tasks...); err != nil {
		return err
	}
	return s.Wait(ctx)
}
