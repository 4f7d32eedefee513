package sample

import (
	"context"
	"encoding/xml"
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
	Requests int           // default 100
	Readers  int           // of the back end, default 1
	Work     time.Duration // for each request, default 20 ms
	// Late, if above zero, sends the promotion of this request only after the
	// request ten below it was taken.
	Late int
	// Direct does without a front end: clients promote their conversations
	// themselves. Bodies have Size bytes, by default 2 MB.
	Direct bool
	Size   int

	// Taken, if set, is told of each request that the back end takes.
	Taken func(request int, promoted bool)
}

// Flags makes the options available as command-line flags.
func (o *Options) Flags(f *flag.FlagSet) {
	f.IntVar(&o.Requests, "requests", 100, "number of `requests`")
	f.IntVar(&o.Readers, "readers", 1, "number of back-end `readers`")
	f.DurationVar(&o.Work, "work", 20*time.Millisecond, "`time` that a request takes")
	f.IntVar(&o.Late, "late", 0, "send the promotion of this `request` only after the one ten below was taken")
	f.BoolVar(&o.Direct, "direct", false, "no front end: clients promote their own conversations, with 2 MB bodies")
}

func (o *Options) check() error {
	for _, d := range []struct {
		v   *int
		def int
	}{{&o.Requests, 100}, {&o.Readers, 1}, {&o.Size, 2_000_000}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.Work == 0 {
		o.Work = 20 * time.Millisecond
	}
	switch {
	case o.Requests < 1 || o.Readers < 1 || o.Work < 0 || o.Size < 0:
		return errors.New("requests, readers, work: want values above zero")
	case o.Late < 0 || o.Late%10 != 0 || o.Late >= o.Requests || o.Late == 10:
		return errors.New("late: want a multiple of ten from 20 up to the number of requests")
	}
	return nil
}

type sample struct {
	b   *parley.Broker
	o   Options
	out io.Writer

	handles     []parley.ID // of the client's conversations
	allAnswered chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	started map[int]bool
	passed  int // requests and promotions that the back end's queue knows of
}

// Run runs the sample on an open broker, which must be migrated.
func Run(ctx context.Context, b *parley.Broker, o Options, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := define(ctx, b); err != nil {
		return err
	}
	if !o.Direct {
		remove, err := createBindings(ctx, b)
		if err != nil {
			return err
		}
		defer remove()
	}
	s := &sample{b: b, o: o, out: out, handles: make([]parley.ID, o.Requests), allAnswered: make(chan struct{}), started: map[int]bool{}}
	s.changed = sync.NewCond(&s.mu)

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { // wakes until
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})()
	var wg sync.WaitGroup
	start := func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				stop(err)
			}
		})
	}
	if !o.Direct {
		start(s.serveFrontEnd)
	}
	for range o.Readers {
		start(s.serveBackEnd)
	}
	start(s.answers)
	start(s.ask)

	select {
	case <-ctx.Done():
	case <-s.allAnswered:
		s.settle(ctx)
	}
	failed := context.Cause(ctx)
	stop(nil)
	wg.Wait()
	return failed
}

// settle waits until both sides of the conversations have ended, so that
// nothing is left behind.
func (s *sample) settle(ctx context.Context) {
	for range 500 {
		left := 0
		queues, err := s.b.Admin().Queues(ctx)
		for _, q := range queues {
			left += q.Depth
		}
		if err != nil || left == 0 || ctx.Err() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// serve receives from a queue until ctx ends. A delivery whose handler fails is
// given back; only errors that will not go away end it.
func (s *sample) serve(ctx context.Context, queue string, handle func(context.Context, *parley.Delivery) error) error {
	for failures := 0; ; {
		d, err := s.b.Receive(ctx, queue, &parley.ReceiveOptions{Wait: -1})
		if err == nil {
			err = handle(ctx, d)
			d.Close()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failures = 0
		case parley.IsRetryable(err) && failures < 20:
			failures++
		default:
			return err
		}
	}
}

// work is the long work. No work ends before the back end knows of all requests and promotions. So
// the order of the other work is the same on every machine. A late promotion alone comes after
// that, while the request before it is at work.
func (s *sample) work(ctx context.Context, n int, d *parley.Delivery) error {
	s.mu.Lock()
	s.started[n] = true
	s.changed.Broadcast()
	s.mu.Unlock()
	if s.o.Taken != nil {
		s.o.Taken(n, d.Promoted)
	}
	all := s.o.Requests + (s.o.Requests+9)/10 // one promotion for every tenth
	if s.late() && !s.hasBegun(s.o.Late-10) {
		all-- // the late one
	}
	if err := s.until(ctx, func() bool { return s.passed >= all }); err != nil {
		return err
	}
	select {
	case <-time.After(s.o.Work):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sample) late() bool { return s.o.Late > 0 }

// pass counts what the back end's queue knows of.
func (s *sample) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed++
	s.changed.Broadcast()
}

func (s *sample) begun(n int) func() bool {
	return func() bool { return s.started[n] }
}

func (s *sample) hasBegun(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started[n]
}

// until waits for a condition on what s.mu guards.
func (s *sample) until(ctx context.Context, cond func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !cond() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.changed.Wait()
	}
	return nil
}

// number reads the number in a body such as <request>7</request>.
func number(body []byte) (n int, err error) {
	var v struct {
		N int `xml:",chardata"`
	}
	if err := xml.Unmarshal(body, &v); err != nil {
		return 0, fmt.Errorf("not the body of this sample: %w", err)
	}
	return v.N, nil
}
