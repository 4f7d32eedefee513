package consumer

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/failures"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/memstore"
	"github.com/parleymq/parley/internal/wake"
)

// program is a Host on a store in memory with one queue.
type program struct {
	t       *testing.T
	be      backend.Backend
	queue   backend.Queue
	version int64
	handle  func(ctx context.Context, raw []*backend.Message, open func(context.Context) (Work, error)) error
	decide  func(err error) Decision
	before  func(raw []*backend.Message) // a message goes to its handler

	mu      sync.Mutex
	settled []Settled
}

func newProgram(t *testing.T) *program {
	t.Helper()
	ctx := t.Context()
	p := &program{t: t, be: memstore.NewStore(memstore.Options{}).Open()}
	t.Cleanup(func() { p.be.Close() })
	p.must(p.be.Migrate(ctx))
	p.in(func(tx backend.Tx) {
		_, err := tx.PutCatalog(ctx, &backend.Catalog{Queues: []backend.Queue{{Name: "mail"}}})
		p.must(err)
		c, err := tx.Catalog(ctx, false)
		p.must(err)
		p.queue, p.version = c.Queues[0], c.Version
	})
	return p
}

func (p *program) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) in(f func(tx backend.Tx)) {
	p.t.Helper()
	tx, err := p.be.Begin(p.t.Context())
	p.must(err)
	defer tx.Rollback(context.Background())
	f(tx)
	p.must(tx.Commit(p.t.Context()))
}

// post adds n posts and returns their ids.
func (p *program) post(n int) (ids []backend.ID) {
	p.t.Helper()
	p.in(func(tx backend.Tx) {
		var posts []backend.Posting
		for range n {
			posts = append(posts, backend.Posting{ID: backend.NewID(), Queue: p.queue.ID, Rank: 5, Type: "m"})
			ids = append(ids, posts[len(posts)-1].ID)
		}
		_, err := tx.Post(p.t.Context(), p.version, posts)
		p.must(err)
	})
	return ids
}

// consumer makes a Consumer for the program.
func (p *program) consumer(ctx context.Context, change func(*Config)) *Consumer {
	config := Config{
		Shared: Shared{
			Backend: p.be, Can: p.be.Capabilities(), Hub: wake.NewHub(), Log: slog.New(slog.DiscardHandler), Admission: NewAdmission(nil, nil),
			Life: context.Background(), Owner: "test", Poll: 20 * time.Millisecond,
		},
		Host: p, Failures: new(failures.Count), Queues: []backend.Queue{p.queue}, Readers: 4,
		Lease: 10 * time.Second, MaxBatch: 100, BatchTime: 50 * time.Millisecond, Grace: 10 * time.Second,
		Stopped: errors.New("stopped"),
	}
	if change != nil {
		change(&config)
	}
	return New(ctx, config)
}

func (p *program) Check() error { return nil }

func (p *program) Begin(ctx context.Context) (Work, error) {
	tx, err := p.be.Begin(ctx)
	return &testWork{tx: tx}, err
}

func (p *program) Queue(_ context.Context, _ string, f func(int64, backend.Queue) error) error {
	return f(p.version, p.queue)
}

func (p *program) Due(context.Context) (bool, error)     { return false, nil }
func (p *program) Soon(time.Duration)                    {}
func (p *program) Disable(context.Context, string) error { return nil }
func (p *program) Lost(string) error                     { return backend.ErrFenced }
func (p *program) Deadly(int) error                      { return errors.New("deadly") }
func (p *program) Claimed(context.Context, Claimed)      {}

func (p *program) Settled(_ context.Context, e Settled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = append(p.settled, e)
}

func (p *program) Messages(_ backend.Queue, raw []*backend.Message, open func(context.Context) (Work, error), _ func(Answer) bool) Messages {
	if p.before != nil {
		p.before(raw)
	}
	return testMessages{p, raw, open}
}

type testMessages struct {
	p    *program
	raw  []*backend.Message
	open func(context.Context) (Work, error)
}

func (m testMessages) Handle(ctx context.Context) error          { return m.p.handle(ctx, m.raw, m.open) }
func (m testMessages) Handled(context.Context, time.Time, error) {}

func (m testMessages) Decide(_ context.Context, err error) Decision { return m.p.decide(err) }

func (m testMessages) End(context.Context, int, string) error { return errors.ErrUnsupported }

type testWork struct {
	tx   backend.Tx
	over error
}

func (w *testWork) Store() backend.Tx                { return w.tx }
func (w *testWork) Commit(ctx context.Context) error { return w.tx.Commit(ctx) }
func (w *testWork) Rollback(ctx context.Context)     { _ = w.tx.Rollback(context.WithoutCancel(ctx)) }
func (w *testWork) Part(...backend.ID) Work          { return &testWork{tx: w.tx} }
func (w *testWork) Answer(context.Context, [][]Answer) (map[int]error, error) {
	return nil, errors.ErrUnsupported
}
func (w *testWork) Merge(Work) []backend.ID { return nil }

func (w *testWork) Close() error {
	over := w.over
	w.over = backend.ErrTxDone
	return over
}

// TestDrain: every message is handled once, by no more readers than there may be, and
// Run returns when nothing is left. After that no reader begins.
func TestDrain(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"transactions": nil,
		"leases":       func(c *Config) { c.ByLease = true },
		"at most once": func(c *Config) { c.Consume, c.MaxBatch = true, 1 },
		"one reader":   func(c *Config) { c.Readers = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			want := p.post(300)
			var mu sync.Mutex
			var got []backend.ID
			var now, most atomic.Int64
			p.handle = func(ctx context.Context, raw []*backend.Message, open func(context.Context) (Work, error)) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				mu.Lock()
				got = append(got, raw[0].ID)
				mu.Unlock()
				if _, err := open(ctx); err != nil && !errors.Is(err, ErrOver) {
					return err
				}
				return nil
			}
			c := p.consumer(t.Context(), func(c *Config) {
				c.Drain = true
				if change != nil {
					change(c)
				}
			})
			p.must(c.Run())
			sorted := func(ids []backend.ID) []string {
				var list []string
				for _, id := range ids {
					list = append(list, id.String())
				}
				slices.Sort(list)
				return list
			}
			if !slices.Equal(sorted(got), sorted(want)) {
				t.Errorf("%d messages were handled, want %d, each once", len(got), len(want))
			}
			if n := int(most.Load()); n > c.Readers {
				t.Errorf("%d handlers at once, at most %d", n, c.Readers)
			}
			p.post(1)
			c.SetMax(10)
			if c.Batches() != 0 || len(got) != len(want) {
				t.Error("a reader begins behind a drain that is over")
			}
		})
	}
}

// contended is a program whose claims find groups, but none free, as long as others hold them.
type contended struct {
	*program
	held atomic.Int64 // claims that are yet to find them held
}

func (p *contended) Begin(ctx context.Context) (Work, error) {
	tx, err := p.be.Begin(ctx)
	return &testWork{tx: contendedTx{tx, p}}, err
}

type contendedTx struct {
	backend.Tx
	p *contended
}

func (tx contendedTx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	if tx.p.held.Add(-1) >= 0 {
		return backend.Claim{Contended: true}, nil
	}
	return tx.Tx.Claim(ctx, r)
}

// TestDrainContended: a drain goes on while others hold groups for a moment, and ends if they hold them for long.
func TestDrainContended(t *testing.T) {
	for held, want := range map[int64]int{drainTries: 3, 1_000_000: 0} {
		p := &contended{program: newProgram(t)}
		p.post(3)
		p.held.Store(held)
		handled := 0
		p.handle = func(context.Context, []*backend.Message, func(context.Context) (Work, error)) error {
			handled++
			return nil
		}
		p.must(p.consumer(t.Context(), func(c *Config) { c.Host, c.Drain, c.Readers = p, true, 1 }).Run())
		if handled != want {
			t.Errorf("%d claims find the groups held, and %d messages are handled, want %d", held, handled, want)
		}
	}
}

// TestHandlerEndsItsGoroutine: a message whose handler calls runtime.Goexit is charged, and
// another reader takes the place of the lost reader.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	p := newProgram(t)
	ids := p.post(3)
	charged := 0
	p.handle = func(_ context.Context, raw []*backend.Message, _ func(context.Context) (Work, error)) error {
		if raw[0].ID == ids[1] {
			runtime.Goexit()
		}
		return nil
	}
	p.decide = func(err error) Decision {
		if errors.Is(err, guard.ErrExited) {
			charged++
		}
		return Decision{Action: DeadLetter, Attempts: 1, Text: err.Error(), Reason: err.Error()}
	}
	p.must(p.consumer(t.Context(), func(c *Config) { c.Drain, c.Readers = true, 1 }).Run())
	dead, err := p.be.DeadLetters(t.Context(), backend.DeadQuery{Queue: p.queue.ID, Limit: 10, Bodies: true})
	p.must(err)
	if charged != 1 || len(dead) != 1 || dead[0].Message.ID != ids[1] {
		t.Errorf("charged %d times, dead letters %v", charged, dead)
	}
}

// TestStop: nothing is claimed after the context has ended, handlers finish, and
// what they have done is acknowledged. Without grace their context ends, and their messages
// are given back.
func TestStop(t *testing.T) {
	for _, grace := range []time.Duration{10 * time.Second, -1} {
		p := newProgram(t)
		p.post(5)
		ctx, stop := context.WithCancel(t.Context())
		begun := make(chan struct{}, 5)
		var cause atomic.Value
		p.handle = func(ctx context.Context, _ []*backend.Message, _ func(context.Context) (Work, error)) error {
			begun <- struct{}{}
			<-time.After(50 * time.Millisecond)
			if grace < 0 {
				<-ctx.Done()
				cause.Store(context.Cause(ctx))
				return ctx.Err()
			}
			return nil
		}
		p.decide = func(error) Decision { t.Error("a message that was interrupted is charged"); return Decision{} }
		c := p.consumer(ctx, func(c *Config) { c.Readers, c.Grace = 1, grace })
		go func() { <-begun; stop() }()
		p.must(c.Run())
		done := 0
		for _, e := range p.settled {
			done += e.Done
		}
		if grace > 0 && done != 1 || grace < 0 && (done != 0 || cause.Load() != c.Stopped) {
			t.Errorf("with a grace of %v %d messages are done, and handlers ended by %v", grace, done, cause.Load())
		}
	}
}

// TestSetMax: more readers begin at once when there may be more, without waiting for a batch
// that is under way.
func TestSetMax(t *testing.T) {
	p := newProgram(t)
	p.post(20)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun, goOn := make(chan struct{}, 20), make(chan struct{})
	p.handle = func(context.Context, []*backend.Message, func(context.Context) (Work, error)) error {
		begun <- struct{}{}
		<-goOn
		return nil
	}
	c := p.consumer(ctx, func(c *Config) { c.Readers, c.MaxBatch, c.Poll = 2, 1, time.Hour })
	ended := make(chan error, 1)
	go func() { ended <- c.Run() }()
	for n := range 6 {
		if n == 2 {
			c.SetMax(6)
		}
		select {
		case <-begun:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d readers are at work, want 6", n)
		}
	}
	c.SetMax(0)
	close(goOn)
	stop()
	p.must(<-ended)
	if len(begun) > 0 {
		t.Errorf("%d more handlers were called, beside six", len(begun))
	}
}

// TestLeasesWhileRecordsWait: a lease lives on while the records of readers do not answer.
func TestLeasesWhileRecordsWait(t *testing.T) {
	p := newProgram(t)
	p.post(1)
	records := &slowRecords{Backend: p.be, asked: make(chan struct{})}
	var calls atomic.Int64
	p.handle = func(ctx context.Context, _ []*backend.Message, _ func(context.Context) (Work, error)) error {
		calls.Add(1)
		<-records.asked
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(3 * time.Second):
			return nil
		}
	}
	p.must(p.consumer(t.Context(), func(c *Config) {
		c.Backend, c.ByLease, c.Drain, c.Lease = records, true, true, 2*time.Second
	}).Run())
	if calls.Load() != 1 {
		t.Errorf("the message was handled %d times", calls.Load())
	}
}

// slowRecords answers the first time only.
type slowRecords struct {
	backend.Backend
	calls atomic.Int64
	asked chan struct{}
}

func (s *slowRecords) ReaderRecords(ctx context.Context) ([]backend.ReaderStatus, error) {
	switch s.calls.Add(1) {
	case 1:
		return nil, nil
	case 2:
		close(s.asked)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestTracesWhileRecordsWait: a batch whose record has to wait too long continues by lease, and
// finds out that a receiver died with its message all the same.
func TestTracesWhileRecordsWait(t *testing.T) {
	p := newProgram(t)
	id := p.post(1)[0]
	_, err := p.be.PutReader(t.Context(), backend.ReaderRecord{
		Reader: backend.NewID(), Worker: backend.NewID(), Queue: p.queue.ID, Owner: "dead", Readers: 1, For: time.Minute, InHand: []backend.ID{id}})
	p.must(err)
	records := &lateRecords{Backend: p.be}
	var deaths []int
	p.handle = func(_ context.Context, raw []*backend.Message, _ func(context.Context) (Work, error)) error {
		deaths = append(deaths, raw[0].Deaths)
		return nil
	}
	p.must(p.consumer(t.Context(), func(c *Config) { c.Backend, c.Drain, c.Readers = records, true, 1 }).Run())
	if !slices.Equal(deaths, []int{1}) || records.late.Load() == 0 {
		t.Errorf("the handler saw these deaths: %v, want [1]; %d records came late", deaths, records.late.Load())
	}
}

// lateRecords does not answer the first record that has something in hand.
type lateRecords struct {
	backend.Backend
	late atomic.Int64
}

func (s *lateRecords) PutReader(ctx context.Context, r backend.ReaderRecord) ([]backend.Trace, error) {
	if len(r.InHand) > 0 && s.late.Add(1) == 1 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Backend.PutReader(ctx, r)
}

// TestSettledTellsAll: the observer hears of every message that is done, also of those that a batch parts with because of a
// slow handler, whatever becomes of that.
func TestSettledTellsAll(t *testing.T) {
	p := newProgram(t)
	const n = 60
	want := p.post(n)
	failed := false
	p.handle = func(ctx context.Context, raw []*backend.Message, open func(context.Context) (Work, error)) error {
		if raw[0].ID == want[n-1] && !failed { // batches have grown
			failed = true
			time.Sleep(100 * time.Millisecond) // others are parted with after 20
			return errors.New("not this time")
		}
		return nil
	}
	p.decide = func(error) Decision { return Decision{Action: Retry} }
	c := p.consumer(t.Context(), func(c *Config) { c.Drain, c.Readers, c.BatchTime = true, 1, 20*time.Millisecond })
	p.must(c.Run())
	done, ids := 0, make(map[backend.ID]int)
	for _, e := range p.settled {
		done += e.Done
		for _, id := range e.IDs {
			ids[id]++
		}
	}
	if done != n || len(ids) != n {
		t.Errorf("the observer heard that %d messages are done, and the IDs of %d, want %d", done, len(ids), n)
	}
}

// TestOverdueBetweenCalls: a batch parts with what is done also if its time ends when the slow handler is just about to
// be called.
func TestOverdueBetweenCalls(t *testing.T) {
	p := newProgram(t)
	const n = 60
	want := p.post(n)
	var c *Consumer
	atWork := func(f func(t *batch) bool) (yes bool) {
		for _, b := range c.atWork() {
			b.mu.Lock()
			yes = f(b)
			b.mu.Unlock()
		}
		return yes
	}
	within := func(what string, f func(t *batch) bool) {
		for end := time.Now().Add(10 * time.Second); !atWork(f); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("within 10 s the batch is not %s", what)
				return
			}
		}
	}
	p.before = func(raw []*backend.Message) {
		if raw[0].ID == want[n-1] { // batches have grown
			within("overdue", func(t *batch) bool { return time.Since(t.started) > 2*t.budget })
		}
	}
	p.handle = func(_ context.Context, raw []*backend.Message, _ func(context.Context) (Work, error)) error {
		if raw[0].ID == want[n-1] {
			within("parted with", func(t *batch) bool { return t.lease && len(t.holds) == 1 })
		}
		return nil
	}
	c = p.consumer(t.Context(), func(c *Config) { c.Drain, c.Readers, c.BatchTime = true, 1, 20*time.Millisecond })
	p.must(c.Run())
}

// recorded is a program that looks whether records of batches are there when a transaction is rolled back.
type recorded struct {
	*program
	fails int // commits that are yet to fail
	left  int // messages that were on record, and come again
}

func (p *recorded) Begin(ctx context.Context) (Work, error) {
	tx, err := p.be.Begin(ctx)
	return &recordedWork{testWork{tx: tx}, p}, err
}

type recordedWork struct {
	testWork
	p *recorded
}

func (w *recordedWork) Commit(ctx context.Context) error {
	if w.p.fails--; w.p.fails >= 0 {
		return backend.ErrSerialization
	}
	return w.testWork.Commit(ctx)
}

func (w *recordedWork) Rollback(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	list, err := w.p.be.ReaderRecords(ctx)
	w.p.must(err)
	for _, r := range list {
		for _, m := range r.InHand {
			if _, err := w.p.be.PostStatus(ctx, w.p.queue.ID, m); err == nil { // a message that is gone may stay on record
				w.p.left++
			}
		}
	}
	w.testWork.Rollback(ctx)
}

// stoppedRecords writes the record of a batch, has the worker stopped, and says that it was interrupted.
type stoppedRecords struct {
	backend.Backend
	stop  context.CancelFunc
	wrote int
}

func (s *stoppedRecords) PutReader(ctx context.Context, r backend.ReaderRecord) ([]backend.Trace, error) {
	traces, err := s.Backend.PutReader(context.WithoutCancel(ctx), r)
	if len(r.InHand) > 0 {
		s.wrote++
		s.stop()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return traces, err
}

// busyRecords finds no connection for the first record of a batch that has nothing in hand.
type busyRecords struct {
	backend.Backend
	was, busy bool
	within    time.Duration
}

func (s *busyRecords) PutReader(ctx context.Context, r backend.ReaderRecord) ([]backend.Trace, error) {
	if s.was = s.was || len(r.InHand) > 0; s.was && !s.busy && len(r.InHand) == 0 {
		end, _ := ctx.Deadline()
		s.busy, s.within = true, time.Until(end)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Backend.PutReader(ctx, r)
}

// TestRecordRemovedLater: if no other connection is free for the record of a batch that could not be committed, the batch
// gives back its own soon, and removes the record then.
func TestRecordRemovedLater(t *testing.T) {
	p := &recorded{program: newProgram(t), fails: 1}
	p.post(1)
	var deaths []int
	p.handle = func(_ context.Context, raw []*backend.Message, _ func(context.Context) (Work, error)) error {
		deaths = append(deaths, raw[0].Deaths)
		return nil
	}
	records := &busyRecords{Backend: p.be}
	p.must(p.consumer(t.Context(), func(c *Config) { c.Host, c.Backend, c.Drain, c.Readers = p, records, true, 1 }).Run())
	if !slices.Equal(deaths, []int{0, 0}) || !records.busy || records.within > time.Second {
		t.Errorf("the handler saw these deaths: %v, want [0 0]; a record found no connection: %v, and waited for %v",
			deaths, records.busy, records.within)
	}
}

// TestRecordRemovedFirst: the record of a batch is removed before the batch is given back, also if it may have been written, or
// if the batch could not be committed. Otherwise the next receiver would take this one for dead.
func TestRecordRemovedFirst(t *testing.T) {
	p := &recorded{program: newProgram(t)}
	p.post(2)
	handled := 0
	p.handle = func(context.Context, []*backend.Message, func(context.Context) (Work, error)) error {
		handled++
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	records := &stoppedRecords{Backend: p.be, stop: stop}
	p.must(p.consumer(ctx, func(c *Config) { c.Host, c.Backend, c.Readers, c.MaxBatch = p, records, 1, 1 }).Run())
	if records.wrote != 1 || handled != 0 || p.left != 0 {
		t.Errorf("interrupted: %d records written, %d messages handled, %d messages on record when they were given back, want 1, 0, 0",
			records.wrote, handled, p.left)
	}
	p.fails = 1
	p.must(p.consumer(t.Context(), func(c *Config) { c.Host, c.Drain, c.Readers, c.MaxBatch = p, true, 1, 1 }).Run())
	if handled != 3 || p.left != 0 {
		t.Errorf("after a failed commit: %d messages handled, %d on record when they were given back, want 3, 0", handled, p.left)
	}
}
