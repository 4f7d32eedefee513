package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// bench tells what a database can do: it sends, drains and measures latency, in
// separate tables, beside whatever is there.
func (c *call) bench() *cobra.Command {
	var x benchmark
	cmd := c.command("bench", "Measure what a database can do: send, drain, latency", "parley bench --db postgres://app@db/app --time 10s",
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			if err := c.named(); err != nil {
				return err
			}
			if x.whole < time.Second || x.size < 0 || x.senders < 1 || x.readers < 1 {
				return badUsage("want --time of 1s or more, --size of 0 or more, --senders and --readers of 1 or more")
			}
			info, figures, err := measure(ctx, c, x)
			if err != nil {
				return err
			}
			if c.json {
				return c.encode(measured{info.Engine, info.Version, x.size, figures, time.Now().UTC().Truncate(time.Second)})
			}
			c.printf("%s %s, bodies of %d bytes\n", info.Engine, info.Version, x.size)
			t := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
			for _, f := range figures {
				fmt.Fprintf(t, "%s\t%s\n", f.Work, f.text())
			}
			return t.Flush()
		})
	cmd.Flags().DurationVar(&x.whole, "time", 30*time.Second, "the total `time` of all measurements")
	cmd.Flags().IntVar(&x.size, "size", 200, "the size of a body in `bytes`")
	cmd.Flags().IntVar(&x.senders, "senders", 16, "`number` of concurrent senders")
	cmd.Flags().IntVar(&x.readers, "readers", 10, "`number` of concurrent handlers")
	return cmd
}

// measured is what a run has found.
type measured struct {
	Engine, Version string
	Size            int
	Figures         []figure
	At              time.Time
}

// benchmark is what is measured.
type benchmark struct {
	whole            time.Duration
	size             int // of a body
	senders, readers int
}

// measure measures in separate tables.
func measure(ctx context.Context, c *call, x benchmark) (info backend.Info, figures []figure, err error) {
	own := withPrefix(c.db, "parley_b"+backend.NewID().String()[24:]+"_")
	b, err := parley.Open(ctx, own, nil)
	if err != nil {
		return info, nil, err
	}
	defer uninstall(ctx, c, own)
	defer b.Close()
	if err := b.Migrate(ctx); err != nil {
		return info, nil, err
	}
	err = b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: "Bench"}}, Queues: []parley.Queue{{Name: "bench"}, {Name: "latency"}}})
	if err != nil {
		return info, nil, err
	}
	if info, err = b.Info(ctx); err != nil {
		return info, nil, err
	}
	m := &meter{b: b, body: make([]byte, x.size), senders: x.senders, readers: x.readers}
	stages := []struct {
		says  string
		share int // of the time
		run   func(ctx context.Context, d time.Duration) ([]figure, error)
	}{
		{"send, one at a time", 4, func(ctx context.Context, d time.Duration) ([]figure, error) { return m.send(ctx, d, 1, 1) }},
		{fmt.Sprintf("send, %d senders", x.senders), 4, func(ctx context.Context, d time.Duration) ([]figure, error) { return m.send(ctx, d, x.senders, 1) }},
		{"send, 100 in a transaction", 4, func(ctx context.Context, d time.Duration) ([]figure, error) { return m.send(ctx, d, 2, 100) }},
		{fmt.Sprintf("drain, %d handlers", x.readers), 10, m.drain},
		{"latency, a message now and then", 6, m.latency},
	}
	total := 0
	for _, s := range stages {
		total += s.share
	}
	p := c.progress("", x.whole.Seconds())
	defer p.end()
	var past time.Duration
	for _, s := range stages {
		d := x.whole * time.Duration(s.share) / time.Duration(total)
		over := p.during(s.says, past, d)
		f, err := s.run(ctx, d)
		over()
		past += d
		if err != nil {
			return info, figures, err
		}
		for i := range f {
			if f[i].Work == "" {
				f[i].Work = s.says
			}
		}
		figures = append(figures, f...)
	}
	return info, figures, nil
}

// figure is a result: so many messages a second, or a latency.
type figure struct {
	Work     string  `json:"work"`
	Messages int64   `json:"messages"`
	Rate     float64 `json:"per_second,omitempty"`
	P50      float64 `json:"p50_ms,omitempty"`
	P99      float64 `json:"p99_ms,omitempty"`
}

func (f figure) text() string {
	if f.P50 > 0 {
		return fmt.Sprintf("%.2f ms, 99 of 100 within %.2f ms", f.P50, f.P99)
	}
	return fmt.Sprintf("%.0f messages/s", f.Rate)
}

func rate(work string, n int64, d time.Duration) []figure {
	return []figure{{Work: work, Messages: n, Rate: float64(n) / d.Seconds()}}
}

// meter measures a broker.
type meter struct {
	b                *parley.Broker
	body             []byte
	senders, readers int
}

// errTimeUp ends a stage.
var errTimeUp = errors.New("time is up")

func (m *meter) send(ctx context.Context, d time.Duration, senders, batch int) ([]figure, error) {
	timed, cancel := context.WithTimeoutCause(ctx, d, errTimeUp)
	defer cancel()
	posts := make([]parley.Posting, batch)
	for i := range posts {
		posts[i].Payload = parley.Payload{Type: "Bench", Body: m.body}
	}
	var sent atomic.Int64
	var once sync.Once
	var failed error
	start := time.Now()
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for timed.Err() == nil {
				// It ends between two sends, so that none is cut off.
				err := m.b.InTx(ctx, func(tx *parley.Tx) error {
					_, err := tx.PostBatch(ctx, "bench", posts)
					return err
				})
				if err != nil {
					once.Do(func() { failed = err; cancel() })
					return
				}
				sent.Add(int64(batch))
			}
		})
	}
	wg.Wait()
	return rate("", sent.Load(), time.Since(start)), failed
}

// drain empties the queue, as far as there is time.
func (m *meter) drain(ctx context.Context, d time.Duration) ([]figure, error) {
	timed, cancel := context.WithTimeoutCause(ctx, d, errTimeUp)
	defer cancel()
	var handled atomic.Int64
	last := time.Now()
	start := last
	var mu sync.Mutex
	mux := parley.NewMux()
	mux.HandleFunc("Bench", func(context.Context, *parley.Message) error {
		handled.Add(1)
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		if now.After(last) {
			last = now
		}
		return nil
	})
	worker, err := m.b.NewWorker("bench", mux, &parley.WorkerOptions{MaxReaders: m.readers})
	if err == nil {
		err = worker.Drain(timed)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return rate("", handled.Load(), max(last.Sub(start), time.Millisecond)), nil
}

// latency sends a message every 50 ms to a queue that is empty otherwise.
func (m *meter) latency(ctx context.Context, d time.Duration) ([]figure, error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	arrived := make(chan time.Time, 1)
	mux := parley.NewMux()
	mux.HandleFunc("Bench", func(context.Context, *parley.Message) error {
		arrived <- time.Now()
		return nil
	})
	worker, err := m.b.NewWorker("latency", mux, &parley.WorkerOptions{MaxReaders: m.readers})
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- worker.Run(working) }()
	defer func() { stop(); <-done }()
	var took []time.Duration
	for start := time.Now(); time.Since(start) < d; {
		sent := time.Now()
		if _, err := m.b.Post(ctx, "latency", parley.Payload{Type: "Bench", Body: m.body}); err != nil {
			return nil, err
		}
		select {
		case t := <-arrived:
			took = append(took, t.Sub(sent))
		case err := <-done:
			done <- err
			return nil, fmt.Errorf("the worker ended: %w", err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
	slices.Sort(took)
	at := func(p float64) float64 { return took[min(int(p*float64(len(took))), len(took)-1)].Seconds() * 1000 }
	return []figure{{Work: "latency, from before the send to the handler", Messages: int64(len(took)), P50: at(0.5), P99: at(0.99)}}, nil
}
