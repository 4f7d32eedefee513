package parley_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/sure"
)

// fencing is a store where leases are lost before their acknowledgement, until that
// is over.
type fencing struct {
	backend.Backend
	over  atomic.Bool
	fails atomic.Bool // acknowledgements fail instead, and each second attempt to begin one
	tries atomic.Int64
}

func (f *fencing) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := f.Backend.Begin(ctx)
	return &fencingTx{tx, f}, err
}

type fencingTx struct {
	backend.Tx
	f *fencing
}

func (tx *fencingTx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	switch {
	case len(holds) == 0 || tx.f.over.Load():
	case !tx.f.fails.Load():
		return backend.ErrFenced
	case tx.f.tries.Add(1)%2 == 1:
		return backend.ErrSerialization
	}
	return tx.Tx.Reclaim(ctx, holds)
}

func (tx *fencingTx) Settle(ctx context.Context, outcomes []backend.Outcome) (again bool, err error) {
	done := func(o backend.Outcome) bool { return len(o.Done) > 0 }
	if slices.ContainsFunc(outcomes, done) && !tx.f.over.Load() {
		return false, backend.ErrSerialization
	}
	return tx.Tx.Settle(ctx, outcomes)
}

// fenced opens a shop's database on a store that is fencing.
func fenced(t *testing.T) (*fencing, *parley.Broker) {
	t.Helper()
	ctx := t.Context()
	first, cleanup := shop()
	t.Cleanup(cleanup)
	be, err := backend.Open(ctx, "sqlite:"+databaseOf(t, first))
	must(err)
	store := &fencing{Backend: be}
	b, err := parley.New(ctx, store, &parley.Options{Lease: 200 * time.Millisecond, Poll: 10 * time.Millisecond})
	must(err)
	t.Cleanup(func() { must(b.Close()) })
	return store, b
}

// settled hears the outcome of batches.
type settled struct {
	parley.NopObserver
	events chan parley.SettleEvent
}

func (s settled) Settled(_ context.Context, e parley.SettleEvent) { s.events <- e }

// TestObserverOfLostLease: a message whose lease was lost before its acknowledgement
// is not reported as done.
func TestObserverOfLostLease(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	store, b := fenced(t)
	_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("x")})
	must(err)
	heard := settled{events: make(chan parley.SettleEvent, 100)}
	handler := parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil })
	ended := make(chan error, 1)
	go func() {
		ended <- sure.Of(b.NewWorker("mail", handler, &parley.WorkerOptions{Observer: heard})).Run(ctx)
	}()
	if e := <-heard.events; e.Done != 0 || e.Lost != 1 || e.Err != nil {
		t.Errorf("the lease was lost, and the observer heard %+v", e)
	}
	store.over.Store(true)
	done := 0
	for done == 0 {
		done = (<-heard.events).Done
	}
	stop()
	must(<-ended)
}

// part is a handler that was made for one message.
type part struct {
	parley.Handler
	closed func() error
}

func (p part) Close() error { return p.closed() }

// TestPerMessage: every message gets a handler of its own, which is closed behind
// it, whatever becomes of it.
func TestPerMessage(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	for _, body := range []string{"fine", "fails", "panics", "not made", "does not close", "no closer"} {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(body)})
		must(err)
	}
	var mu sync.Mutex
	var log []string
	say := func(what string, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, fmt.Sprintf("%s %s", what, body))
	}
	h := parley.PerMessage(func(ctx context.Context, m *parley.Message) (parley.Handler, error) {
		say("made", m.Body)
		handler := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			switch string(m.Body) {
			case "fails":
				return errors.New("it fails")
			case "panics":
				panic("it panics")
			}
			return nil
		})
		switch string(m.Body) {
		case "not made":
			return nil, errors.New("no container")
		case "no closer":
			return handler, nil
		}
		return part{handler, func() error {
			say("closed", m.Body)
			if string(m.Body) == "does not close" {
				return io.ErrClosedPipe
			}
			return nil
		}}, nil
	})
	must(sure.Of(b.NewWorker("mail", h, &parley.WorkerOptions{MaxAttempts: 1, MaxReaders: 1})).Drain(ctx))
	slices.Sort(log)
	want := []string{"closed does not close", "closed fails", "closed fine", "closed panics",
		"made does not close", "made fails", "made fine", "made no closer", "made not made", "made panics"}
	if !slices.Equal(log, want) {
		t.Errorf("handlers were %q, want %q", log, want)
	}
	parked, err := b.Admin().Parked(ctx, "mail", parley.Place{}, 10)
	must(err)
	var reasons []string
	for _, g := range parked {
		reasons = append(reasons, g.Reason)
	}
	slices.Sort(reasons)
	if got := strings.Join(reasons, "; "); got != "io: read/write on closed pipe; it fails; no container; the handler panicked: it panics" {
		t.Errorf("parked are %s", got)
	}
}

// tight is a store whose pool has so many connections, and that could hold in
// transactions.
type tight struct {
	backend.Backend
	conns int
}

func (p tight) MaxConns() int { return p.conns }

func (p tight) Capabilities() backend.Capabilities {
	c := p.Backend.Capabilities()
	c.HoldsInTransaction, c.SingleWriter, c.Pool = true, false, p
	return c
}

// TestPoolTooSmall: a worker that could not work is told so at once, instead of
// waiting for connections.
func TestPoolTooSmall(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	on := func(conns int, o parley.WorkerOptions) error {
		t.Helper()
		be, err := backend.Open(ctx, "sqlite:"+databaseOf(t, b))
		must(err)
		other, err := parley.New(ctx, tight{be, conns}, nil)
		must(err)
		defer other.Close()
		return sure.Of(other.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil }), &o)).Drain(ctx)
	}
	err := on(11, parley.WorkerOptions{Hold: parley.HoldTransaction}) // 10 readers
	if !errors.Is(err, parley.ErrPool) || !strings.Contains(err.Error(), "11 connections") || !strings.Contains(err.Error(), "need 12") {
		t.Errorf("11 connections for 10 readers: %v", err)
	}
	for _, fits := range []struct {
		conns int
		o     parley.WorkerOptions
	}{
		{1, parley.WorkerOptions{}}, // holds by lease what it has no connections for
		{12, parley.WorkerOptions{Hold: parley.HoldTransaction}},
		{0, parley.WorkerOptions{MaxReaders: 1000}}, // no limit
		{3, parley.WorkerOptions{MaxReaders: 1, Hold: parley.HoldTransaction}},
		{2, parley.WorkerOptions{Hold: parley.HoldLease}},
		{2, parley.WorkerOptions{Release: parley.BeforeWork}},
	} {
		if err := on(fits.conns, fits.o); err != nil {
			t.Errorf("%d connections for %d readers: %v", fits.conns, fits.o.MaxReaders, err)
		}
	}
}

// TestWorkerLeavesNothing: no goroutine and no open file is left when a worker
// has ended, in whatever way, and its Broker is closed.
func TestWorkerLeavesNothing(t *testing.T) {
	files := func(name string) (n int) {
		links, _ := filepath.Glob("/proc/self/fd/*") // none elsewhere than on Linux
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, name) {
				n++
			}
		}
		return n
	}
	for name, end := range map[string]func(ctx context.Context, b *parley.Broker, w *parley.Worker, begun <-chan struct{}){
		"drain": func(ctx context.Context, b *parley.Broker, w *parley.Worker, begun <-chan struct{}) {
			must(w.Drain(ctx))
		},
		"run and stop": func(ctx context.Context, b *parley.Broker, w *parley.Worker, begun <-chan struct{}) {
			ctx, stop := context.WithCancel(ctx)
			over := make(chan error)
			go func() { over <- w.Run(ctx) }()
			<-begun
			stop()
			must(<-over)
		},
		"stop at once": func(ctx context.Context, b *parley.Broker, w *parley.Worker, begun <-chan struct{}) {
			for after := range 20 { // at all moments of its beginning
				ctx, stop := context.WithTimeout(ctx, time.Duration(after)*100*time.Microsecond)
				must(w.Run(ctx))
				stop()
			}
			ctx, stop := context.WithCancel(ctx)
			stop()
			must(w.Drain(ctx))
			if records, err := b.Admin().Workers(context.WithoutCancel(ctx)); err != nil || len(records) > 0 {
				t.Errorf("the worker has left its records behind: %v, %v", records, err)
			}
		},
		"close": func(ctx context.Context, b *parley.Broker, w *parley.Worker, begun <-chan struct{}) {
			over := make(chan error)
			go func() { over <- w.Run(ctx) }()
			<-begun
			file := databaseOf(t, b)
			must(b.Close())
			<-over
			other, err := parley.Open(ctx, "sqlite:"+file, nil)
			must(err)
			defer other.Close()
			if records, err := other.Admin().Workers(ctx); err != nil || len(records) > 0 {
				t.Errorf("the worker has left its records behind: %v, %v", records, err)
			}
		},
		"never run": func(context.Context, *parley.Broker, *parley.Worker, <-chan struct{}) {},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			b, cleanup := shop()
			file := databaseOf(t, b)
			for range 50 {
				_, err := b.Post(t.Context(), "mail", parley.Payload{})
				must(err)
			}
			begun := make(chan struct{}, 100)
			w := sure.Of(b.NewWorker("mail", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
				begun <- struct{}{}
				_, err := m.Tx(ctx)
				return err
			}), nil))
			end(t.Context(), b, w, begun)
			cleanup()
			for stop := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before || files(file) > 0; {
				if time.Now().After(stop) {
					all := make([]byte, 1<<20)
					t.Fatalf("%d goroutines where there were %d, and %d open files:\n%s", runtime.NumGoroutine(), before,
						files(file), all[:runtime.Stack(all, true)])
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
}

// TestCollisionInBatch: a handler of a batch that loses against another transaction is called again
// at once, alone. Nothing is charged for the first call. A message that loses there too pays for
// it.
func TestCollisionInBatch(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	const messages = 30
	for i := range messages {
		_, err := b.Post(ctx, "mail", parley.Payload{Body: fmt.Append(nil, i)})
		must(err)
	}
	attempts := make(map[string][]int)
	handler := parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
		body := string(m.Body)
		attempts[body] = append(attempts[body], m.Attempt)
		if body == "20" && len(attempts[body]) == 1 || body == "25" {
			return fmt.Errorf("deadlock: %w", parley.ErrSerialization)
		}
		return nil
	})
	options := &parley.WorkerOptions{MaxReaders: 1, Backoff: func(int) time.Duration { return time.Hour }}
	must(sure.Of(b.NewWorker("mail", handler, options)).Drain(ctx))
	for i := range messages {
		want := []int{1}
		if i == 20 || i == 25 {
			want = []int{1, 1}
		}
		if got := attempts[fmt.Sprint(i)]; !slices.Equal(got, want) {
			t.Errorf("message %d was handled in the attempts %v, want %v", i, got, want)
		}
	}
	groups, err := b.Admin().Groups(ctx, "mail", parley.Place{}, 10)
	must(err)
	if len(groups) != 1 || !strings.Contains(groups[0].Reason, "deadlock") {
		t.Errorf("the groups are %+v, want that of the message that lost alone as well", groups)
	}
}

// databaseOf returns the file of a broker.
func databaseOf(t *testing.T, b *parley.Broker) string {
	t.Helper()
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Settings["file"]
}

// breaking is a store whose calls at a worker's start fail, from one of them on, for a while.
type breaking struct {
	backend.Backend
	good, bad int // calls
}

func (b *breaking) call() error {
	switch {
	case b.good > 0:
		b.good--
	case b.bad > 0:
		b.bad--
		return fmt.Errorf("by the test: %w", backend.ErrConnection)
	}
	return nil
}

func (b *breaking) Begin(ctx context.Context) (backend.Tx, error) {
	if err := b.call(); err != nil {
		return nil, err
	}
	return b.Backend.Begin(ctx)
}

func (b *breaking) PutReader(ctx context.Context, r backend.ReaderRecord) ([]backend.Trace, error) {
	if err := b.call(); err != nil {
		return nil, err
	}
	return b.Backend.PutReader(ctx, r)
}

// TestWorkerStartsLate: whichever of its first calls a lost connection meets, a worker goes on.
func TestWorkerStartsLate(t *testing.T) {
	first, cleanup := shop()
	defer cleanup()
	for good := range 3 {
		_, err := first.Post(t.Context(), "mail", parley.Payload{})
		must(err)
		be, err := backend.Open(t.Context(), "sqlite:"+databaseOf(t, first))
		must(err)
		store := &breaking{Backend: be}
		late, err := parley.New(t.Context(), store, &parley.Options{NoMaintenance: true})
		must(err)
		store.good, store.bad = good, 2
		handled := 0
		must(sure.Of(late.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error {
			handled++
			return nil
		}), nil)).Drain(t.Context()))
		if handled != 1 || store.bad > 0 {
			t.Errorf("after %d good calls: %d messages handled, want 1; %d calls had still to fail", good, handled, store.bad)
		}
		must(late.Close())
	}
}

// pooled is a store with a pool, in which no transaction can be begun.
type pooled struct {
	backend.Backend
	why error
}

func (p *pooled) Begin(context.Context) (backend.Tx, error) { return nil, p.why }
func (*pooled) MaxConns() int                               { return 16 }

func (p *pooled) Capabilities() backend.Capabilities {
	c := p.Backend.Capabilities()
	c.Pool = p
	return c
}

// TestUnreachedIsNoShortage: connections that cannot be opened are no reason to hold fewer of them.
func TestUnreachedIsNoShortage(t *testing.T) {
	first, cleanup := shop()
	defer cleanup()
	for why, want := range map[error]bool{
		fmt.Errorf("%w: %w", backend.ErrNotBegun, backend.ErrConnection): false,
		fmt.Errorf("%w: %w", backend.ErrNotBegun, backend.ErrPool):       true,
	} {
		be, err := backend.Open(t.Context(), "sqlite:"+databaseOf(t, first))
		must(err)
		store := &pooled{Backend: be, why: why}
		b, err := parley.New(t.Context(), store, &parley.Options{NoMaintenance: true})
		must(err)
		if _, err := b.Begin(t.Context()); !errors.Is(err, parley.ErrNotBegun) {
			t.Errorf("begin: %v", err)
		}
		info, err := b.Info(t.Context())
		must(err)
		short := slices.ContainsFunc(info.Warnings, func(w backend.Warning) bool { return w.Code == backend.WarnPool })
		if short != want {
			t.Errorf("after %v the pool is short: %t, want %t", why, short, want)
		}
		must(b.Close())
	}
}
