// Package parleytest is for unit tests of programs that use Parley. A Kit has a Broker on a separate store, by
// default in memory, and a clock that moves on command. A real worker handles single messages, and the kit reports
// the outcome of each. docs/testing.md shows how to use it.
package parleytest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	_ "github.com/parleymq/parley/backend/memory" // the store by default
	"github.com/parleymq/parley/internal/frail"
	"github.com/parleymq/parley/internal/testclock"
	"github.com/parleymq/parley/recurring"
)

// ErrServerClock: the kit cannot move the store's clock. It is the clock of a server, of a backend without support
// for this package, or of a store that was opened before the kit.
var ErrServerClock = errors.New("the store's clock is not the test's")

// Kit is what a test works with. The code under test gets Broker. A Kit is for one test, and is safe for use by many
// goroutines. If it cannot do something, it ends the test (Fatal).
type Kit struct {
	// Broker is open and migrated, and has the catalog. It is closed at the end of the test.
	Broker *parley.Broker

	t      testing.TB
	ctx    context.Context // of the test, without its end
	own    context.Context // of what the kit does itself, which no fault meets
	store  *store
	clock  *testclock.Clock
	worker parley.WorkerOptions
	limit  int
}

// Option is an option of New.
type Option func(*options)

type options struct {
	url      string
	of       *parley.Broker
	catalogs []parley.Catalog
	broker   parley.Options
	worker   parley.WorkerOptions
	limit    int
}

// Store makes the kit use another store instead of one in memory, such as "sqlite:" + t.TempDir() + "/test.db". The
// test imports the backend.
func Store(url string) Option { return func(o *options) { o.url = url } }

// Use makes the kit use the store of an open Broker, which stays open. The kit's Broker is another one on the same
// backend. The code under test must use Kit.Broker, because the kit cannot observe calls of other Brokers or make
// them fail.
func Use(b *parley.Broker) Option { return func(o *options) { o.of = b } }

// Catalog makes the kit define a catalog. Several options of this kind are applied one after the
// other.
func Catalog(c parley.Catalog) Option { return func(o *options) { o.catalogs = append(o.catalogs, c) } }

// Queues makes the kit define queues.
func Queues(names ...string) Option {
	var c parley.Catalog
	for _, name := range names {
		c.Queues = append(c.Queues, parley.Queue{Name: name})
	}
	return Catalog(c)
}

// Types makes the kit define message types without validation.
func Types(names ...string) Option {
	var c parley.Catalog
	for _, name := range names {
		c.Types = append(c.Types, parley.MessageType{Name: name})
	}
	return Catalog(c)
}

// BrokerOptions are the options of Kit.Broker. The default Logger writes to the test's log.
func BrokerOptions(v parley.Options) Option { return func(o *options) { o.broker = v } }

// WorkerOptions are the options of the workers that the kit runs: how often a message is tried, and what becomes of
// poison. MaxReaders is 1 unless it is set.
func WorkerOptions(v parley.WorkerOptions) Option { return func(o *options) { o.worker = v } }

// DrainLimit is how many messages Drain handles before it ends the test. Default 1000.
func DrainLimit(messages int) Option { return func(o *options) { o.limit = messages } }

// New makes a kit, which ends with the test.
func New(t testing.TB, option ...Option) *Kit {
	t.Helper()
	o := options{url: "memory:", limit: 1000}
	for _, f := range option {
		f(&o)
	}
	k := &Kit{t: t, clock: new(testclock.Clock), worker: o.worker, limit: o.limit}
	k.ctx = context.WithoutCancel(t.Context())
	k.own = context.WithValue(k.ctx, ownKey{}, true)
	if k.worker.MaxReaders == 0 {
		k.worker.MaxReaders = 1
	}
	log := &testLog{t: t}
	if o.broker.Logger == nil {
		o.broker.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var err error
	if o.of != nil {
		k.store = &store{Backend: frail.New(o.of.Backend()), shared: true}
	} else {
		be, err := backend.Open(testclock.With(k.ctx, k.clock), o.url)
		k.must("open the store", err)
		k.store = &store{Backend: frail.New(be)}
	}
	k.Broker, err = parley.New(k.ctx, k.store, &o.broker)
	if err != nil {
		k.store.Close()
		k.must("make a Broker", err)
	}
	t.Cleanup(func() {
		if err := k.Broker.Close(); err != nil {
			t.Errorf("parleytest: close the store: %v", err)
		}
		log.over.Store(true)
		for _, fault := range k.store.unused() {
			t.Errorf("parleytest: the test is over, and nothing has met %s", fault)
		}
	})
	k.must("migrate", k.Broker.Migrate(k.own))
	for _, c := range o.catalogs {
		k.must("define the catalog", k.Broker.Define(k.own, c))
	}
	return k
}

// must ends the test if the kit cannot do something.
func (k *Kit) must(do string, err error) {
	if err != nil {
		k.t.Helper()
		k.t.Fatalf("parleytest: %s: %v", do, err)
	}
}

// testLog writes to the log of a test that is not over.
type testLog struct {
	t    testing.TB
	over atomic.Bool
}

func (l *testLog) Write(line []byte) (int, error) {
	if !l.over.Load() {
		l.t.Log(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

// CanAdvance returns nil if Advance can move the store's clock, and ErrServerClock if not.
func (k *Kit) CanAdvance() error {
	if k.clock.Taken() {
		return nil
	}
	return &parley.Error{Op: "advance the clock", Err: ErrServerClock,
		Hint: "use a store in memory or on SQLite, which the kit opens by its name"}
}

// Now is the time by the clock that Advance moves, which is the system's until then.
func (k *Kit) Now() time.Time { return k.clock.Now() }

// maxDue is how many due times of recurring jobs Advance passes at most.
const maxDue = 10_000

// Advance moves the store's clock. When it returns, everything that falls due in that time can be received: delayed
// posts, timers, retries, expired leases, lifetimes. It stops at each due time of a recurring job and posts its
// message, even if recurring.Start was not called. The process's clock is not affected: timeouts, pauses of workers
// and heartbeats take real time, and parley.At counts from real time.
func (k *Kit) Advance(d time.Duration) {
	k.t.Helper()
	k.must("advance the clock", k.CanAdvance())
	if d < 0 {
		k.t.Fatalf("parleytest: advance the clock by %v: it does not go back", d)
	}
	target := k.Now().Add(d)
	for passed := 0; k.nextDue(target); passed++ {
		if passed == maxDue {
			k.t.Fatalf("parleytest: advance the clock by %v: it passes more than %d due times of recurring jobs", d, maxDue)
		}
		k.recur()
	}
	k.clock.Forward(target)
	k.due()
	k.Broker.Wake(0)
}

// nextDue moves the clock to the next due time of a recurring job, and reports whether there is one by target.
func (k *Kit) nextDue(target time.Time) (found bool) {
	jobs, err := k.store.RecurringJobs(k.own)
	k.must("list recurring jobs", err)
	for _, j := range jobs {
		if j.State == recurring.StateActive && !j.Look.After(target) {
			target, found = j.Look, true
		}
	}
	if found {
		k.clock.Forward(target)
	}
	return found
}

// recur posts for the recurring jobs that are due.
func (k *Kit) recur() { k.must("post for recurring jobs", recurring.PostDue(k.own, k.Broker)) }

// due makes receivable what is due.
func (k *Kit) due() (moved bool) {
	if k.clock.Taken() {
		k.recur()
	}
	for job := range backend.Job(backend.JobCount) {
		for {
			done, err := backend.Offered(k.store.Maintain(k.own, job, 1000))
			k.must(fmt.Sprintf("do the maintenance job %v", job), err)
			if done.Moved == 0 {
				break
			}
			moved = true
		}
	}
	return moved
}
