// Package sample is the caller of "Parallel Task Scheduling (6)" (sqlnotes.info):
// it gets a scheduler, submits tasks, waits until they are done, submits the
// next, and releases the scheduler at the end. Meanwhile a monitor shows what
// runs. A second part has a thousand tasks of which three run at once.
package sample

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

// Options say what to run. The zero value of a field means its default.
type Options struct {
	Unit    time.Duration // a published second; default 50 ms
	Workers int           // default 8
	Many    int           // tasks of the second part; default 1000
	Active  int           // of which this many run at once; default 3
}

// Flags makes the options available as command-line flags.
func (o *Options) Flags(f *flag.FlagSet) {
	f.DurationVar(&o.Unit, "unit", 50*time.Millisecond, "how long a published second `takes`")
	f.IntVar(&o.Workers, "workers", 8, "number of `workers`")
	f.IntVar(&o.Many, "many", 1000, "number of `tasks` of the second part")
	f.IntVar(&o.Active, "active", 3, "how many of these run at `once`")
}

// Batches are what is submitted between two waits: how many tasks, and how many
// seconds each takes.
var Batches = []struct {
	Tasks   int
	Seconds float64
}{{4, 10.1}, {2, 9.2}, {1, 8.3}, {2, 7.4}, {1, 6.5}}

// Run runs the sample on an open broker, which must be migrated.
func Run(ctx context.Context, b *parley.Broker, o Options, out io.Writer) error {
	for _, d := range []struct {
		v   *int
		def int
	}{{&o.Workers, 8}, {&o.Many, 1000}, {&o.Active, 3}} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < 1 {
			return errors.New("workers, many, active: want values above zero")
		}
	}
	if o.Unit == 0 {
		o.Unit = 50 * time.Millisecond
	}

	// The workers are one pool for all schedulers.
	var mu sync.Mutex
	running, most := 0, 0
	pool, err := b.NewTaskPool(parley.TaskHandlers{
		"wait": func(ctx context.Context, t *parley.RunningTask) error {
			var seconds float64
			if _, err := fmt.Sscan(string(t.Body), &seconds); err != nil {
				return parley.DeadTask(err)
			}
			select {
			case <-time.After(time.Duration(seconds * float64(o.Unit))):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		"count": func(ctx context.Context, t *parley.RunningTask) error {
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
	}, &parley.TaskPoolOptions{Workers: o.Workers})
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(working) }()
	err = errors.Join(batches(ctx, b, o, out), many(ctx, b, o, out))
	stop()
	if e := <-ended; e != nil && !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "%d tasks, at most %d at once\n", o.Many, most)
	}
	return err
}

// batches is the published caller.
func batches(ctx context.Context, b *parley.Broker, o Options, out io.Writer) error {
	s, err := b.OpenScheduler(ctx, "caller", nil)
	if err != nil {
		return err
	}
	defer s.Release(context.WithoutCancel(ctx)) // it is no error if an operator was faster
	for i, batch := range Batches {
		var tasks []parley.Task
		for range batch.Tasks {
			tasks = append(tasks, parley.Task{Phase: i, Type: "wait", Body: fmt.Append(nil, batch.Seconds)})
		}
		if err := s.Submit(ctx, tasks...); err != nil {
			return err
		}
		if i == 0 {
			if err := monitor(ctx, b, out); err != nil {
				return err
			}
		}
		if err := s.Wait(ctx); err != nil {
			return err
		}
		if err := s.Wait(ctx); err != nil { // one too many is no harm
			return err
		}
		for {
			t, err := s.Next(ctx)
			if errors.Is(err, parley.ErrNoTask) {
				break
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "batch %d: %s after %.1f published seconds\n", i+1, t.State, float64(t.Ended.Sub(t.Started))/float64(o.Unit))
		}
	}
	return nil
}

// monitor shows what runs, once there is something.
func monitor(ctx context.Context, b *parley.Broker, out io.Writer) error {
	for {
		list, err := b.Admin().TaskLog(ctx, parley.TaskQuery{Running: true, Limit: 10})
		if err != nil {
			return err
		}
		if len(list) == Batches[0].Tasks {
			for _, t := range list {
				fmt.Fprintf(out, "running: %s, phase %d, type %s, attempt %d\n", t.Schedule, t.Phase, t.Type, t.Attempts)
			}
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// many submits more than may run at once.
func many(ctx context.Context, b *parley.Broker, o Options, out io.Writer) error {
	s, err := b.OpenScheduler(ctx, "many", &parley.SchedulerOptions{MaxActive: o.Active})
	if err != nil {
		return err
	}
	defer s.Release(context.WithoutCancel(ctx))
	tasks := make([]parley.Task, o.Many)
	for i := range tasks {
		tasks[i].Type = "count"
	}
	if err := s.Submit(ctx, tasks...); err != nil {
		return err
	}
	return s.Wait(ctx)
}
