// Package parley brings SQL Server Service Broker's model to the database that a program already
// runs. Services hold conversations, and one receiver at a time holds a group of conversations.
// Delivery is exactly once and in order. There are priorities and promotion, contracts and timers.
//
// Messages are rows of the program's own database, so that business data and
// messages commit in one transaction:
//
//	b, err := parley.Open(ctx, "sqlite:app.db", nil)
//	err = b.Migrate(ctx)
//	err = b.Define(ctx, catalog)
//	err = b.InTx(ctx, func(tx *parley.Tx) error {
//		c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Invoices"})
//		if err != nil {
//			return err
//		}
//		return c.Send(ctx, "Order", body)
//	})
//	d, err := b.Receive(ctx, "BillingQueue", &parley.ReceiveOptions{Wait: time.Second})
//
// The interface [backend.Backend] says what a store must do; its prose is the contract, and package
// conformance checks it. Backends are in backend/sqlite (SQLite), backend/postgres (PostgreSQL),
// backend/mysql (MySQL and MariaDB), backend/mssql (SQL Server) and, for tests, backend/memory;
// docs/writing-a-backend.md explains how to write another.
package parley

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/consumer"
	"github.com/parleymq/parley/internal/crowd"
	"github.com/parleymq/parley/internal/wait"
	"github.com/parleymq/parley/internal/wake"
)

// Backend is what a store implements.
type Backend = backend.Backend

// ID names a conversation, one side of it (its handle), a group or a message.
type ID = backend.ID

// Execer is the part of *sql.Tx in which a joined transaction works.
type Execer = backend.Execer

// NewID returns a fresh ID, greater than all this process made before.
func NewID() ID { return backend.NewID() }

// ParseID reads the form that ID.String writes.
func ParseID(s string) (ID, error) { return backend.ParseID(s) }

// Options are the options of a Broker. Nil means all the defaults.
type Options struct {
	// Logger gets what operators should know; never a body. Default: slog.Default, for warnings
	// and errors only.
	Logger *slog.Logger

	// OpenWait is how long Open waits for a database that cannot be reached yet. Zero means not at all.
	OpenWait time.Duration

	// Owner names this process to operators, as the holder of groups. Default: host name and
	// process id.
	Owner string

	// Lease is how long a delivery held by lease stays with this process without a
	// heartbeat. Heartbeats are sent three times in that time. Zero means 30 s; it is at
	// least 100 ms.
	Lease time.Duration

	// Poll is how long a waiting receiver sleeps before it looks again without a wake-up. Zero
	// means 1 s. The actual time varies by up to a fifth.
	Poll time.Duration

	// GroupWait is how long End, Move, GetGroup and a related Begin wait for a group that
	// another receiver holds, before ErrGroupBusy. They try five times at least. Zero means 5 s.
	GroupWait time.Duration

	// KeepClosed is how long a conversation stays visible after both sides have ended. Zero
	// means that it is removed at once.
	KeepClosed time.Duration

	// KeepOnce is the minimum time a Tx.Once key is kept. Make it longer than any message can
	// be tried. Zero means 30 days.
	KeepOnce time.Duration

	// MaxBody limits the size of a body. Default 64 MiB.
	MaxBody int

	// Outgoing, if set, is called for each message that the program sends or posts through this
	// Broker. It runs in the goroutine of the sender, before the message is checked. It may change
	// the headers, for example to propagate a trace context. If it returns an error, the sending
	// call fails. It does not see Parley's system messages, nor dead letters that are put back.
	Outgoing func(ctx context.Context, o *Outgoing) error

	// StrictServices refuses conversations with services that are not defined, with ErrUnknownService. Without it
	// their messages are withheld until the service is defined, and the log has a warning.
	StrictServices bool

	// NoMaintenance leaves timers, lifetimes, delayed posts, the dialogs of Senders and clean-up to
	// other processes, except for what a Receive of this process finds due. It is for tools, and
	// for programs whose role may only send. At least one other program must do the maintenance.
	NoMaintenance bool
}

func (o *Options) withDefaults() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Logger == nil {
		v.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	v.Logger = slog.New(calmLog{v.Logger.Handler()})
	if v.Owner == "" {
		host, _ := os.Hostname()
		v.Owner = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	v.Owner = backend.CleanText(v.Owner, backend.MaxShownName)
	for _, d := range []struct {
		name         string
		v            *time.Duration
		def, atLeast time.Duration
	}{
		{"Lease", &v.Lease, 30 * time.Second, 100 * time.Millisecond},
		{"Poll", &v.Poll, time.Second, time.Millisecond},
		{"GroupWait", &v.GroupWait, 5 * time.Second, 0},
		{"OpenWait", &v.OpenWait, 0, 0},
		{"KeepClosed", &v.KeepClosed, 0, 0},
		{"KeepOnce", &v.KeepOnce, 30 * 24 * time.Hour, time.Millisecond},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < d.atLeast {
			return v, &Error{Op: "options", Object: d.name, Err: ErrInvalidOption, Hint: fmt.Sprintf("want at least %v", d.atLeast)}
		}
	}
	if v.MaxBody = cmp.Or(v.MaxBody, 64<<20); v.MaxBody < 0 {
		return v, &Error{Op: "options", Object: "MaxBody", Err: ErrInvalidOption, Hint: "want a number above zero"}
	}
	return v, nil
}

// Broker is a process's access to the conversations of one store. It is safe
// for use by many goroutines. Close it when done.
type Broker struct {
	// Set by New. What they point to may be used by many goroutines at once.
	be       backend.Backend
	caps     backend.Capabilities
	opt      Options
	log      *slog.Logger
	hub      *wake.Hub
	jobs     *maintenance
	peers    *wake.Peers
	recycler *recycler
	admitted *consumer.Admission
	reading  chan struct{} // has room for the goroutine that reads a newer catalog
	idle     chan struct{} // closed when closed is set and no claim is under way
	stop     context.CancelFunc
	life     context.Context // ends with Close

	// Each has its own lock, or is atomic.
	catalog atomic.Pointer[catalogView]
	convs   convCache
	crowd   crowd.Crowd[*verb]
	unknown sync.Map // names of target services that were not defined
	done    sync.WaitGroup

	mu         sync.Mutex // guards what follows
	validators map[string]func([]byte) error
	closed     bool
	open       map[*Delivery]struct{}
	claims     int // under way
	workers    map[*consumer.Consumer]struct{}
}

// New makes a Broker on a backend, which it closes with itself. The database
// need not be migrated yet. ErrInvalidOption also tells of the options of the backend's New.
func New(ctx context.Context, be Backend, o *Options) (*Broker, error) {
	opt, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if be == nil {
		return nil, &Error{Op: "new", Err: ErrInvalidOption, Hint: "the backend is nil"}
	}
	if err := be.Capabilities().Invalid; err != nil {
		return nil, fail("new", "", fmt.Errorf("%w: %w", ErrInvalidOption, err))
	}
	if c := be.Capabilities(); c.HoldsInTransaction && c.SingleWriter {
		return nil, &Error{Op: "new", Err: ErrInvalidOption, Hint: "the backend's Capabilities contradict each other: a hold in a transaction would stop its single writer"}
	}
	b := &Broker{
		reading:    make(chan struct{}, 1),
		be:         be,
		caps:       be.Capabilities(),
		opt:        opt,
		log:        opt.Logger,
		hub:        wake.NewHub(),
		validators: make(map[string]func([]byte) error),
		open:       make(map[*Delivery]struct{}),
		idle:       make(chan struct{}),
		workers:    make(map[*consumer.Consumer]struct{}),
	}
	b.gather()
	if l := b.caps.Logging; l != nil {
		l.LogTo(b.log)
	}
	b.admitted = consumer.NewAdmission(b.caps.Pool, func(held int) {
		b.log.Warn("parley: the connection pool is too small: workers hold by lease instead of in transactions",
			"event", "pool.short", "held", held)
	})
	b.recycler = &recycler{b: b, poke: make(chan struct{}, 1)}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.life = cancel, background
	b.peers = &wake.Peers{Hub: b.hub, Log: b.log, Expected: consumer.Gone}
	b.peers.Start(b.caps.Listener, b.Go)
	if b.caps.Listener == nil && b.caps.Watcher != nil {
		watch := &wake.Watch{Hub: b.hub, Watcher: b.caps.Watcher, Log: b.log, Expected: consumer.Gone}
		b.Go(watch.Run)
	}
	b.jobs = b.startMaintenance()
	b.recycler.start()
	return b, nil
}

// Backend returns the backend, for tools.
func (b *Broker) Backend() Backend { return b.be }

// Migrate creates or updates Parley's tables. It is idempotent, and safe when many processes start
// at once. Programs of the previous version continue to work; docs/deploying.md explains how older
// ones are stopped.
func (b *Broker) Migrate(ctx context.Context) error {
	if err := b.check(); err != nil {
		return fail("migrate", "", err)
	}
	var err error
	if m := b.caps.Migrator; m != nil {
		err = m.MigrateWith(ctx, backend.MigrateOptions{Report: func(text string) {
			b.log.Info("parley: migration", "event", "store.migration", "step", text)
		}})
	} else {
		err = b.be.Migrate(ctx)
	}
	if err != nil {
		return fail("migrate", "", err)
	}
	b.jobs.kick()
	b.peers.Kick()
	return nil
}

// Close stops workers and background work, releases what is still held, and closes the backend. It
// ends the contexts of running handlers, and Delivery.Context; what they do after that fails. Close
// does not wait for a handler that ignores its context, and returns within twelve seconds. Close
// is idempotent.
func (b *Broker) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	held := slices.Collect(maps.Keys(b.open))
	if b.claims == 0 {
		close(b.idle)
	}
	workers := slices.Collect(maps.Keys(b.workers))
	b.mu.Unlock()

	b.stop()
	b.hub.Close()
	var over sync.WaitGroup
	for _, w := range workers {
		over.Go(func() { w.Shut(ErrClosed) })
	}
	for _, d := range held {
		over.Go(d.abandon)
	}
	// A claim in flight gives back what it gets. A claim that waits for a transaction of this
	// Broker, which ends below, gets nothing.
	select {
	case <-b.idle:
	case <-time.After(closeWait):
	}
	over.Go(b.done.Wait)
	if !overWithin(closeStage, over.Wait) {
		b.log.Error("parley: closed while background work waited for the database", "event", "broker.abandoned")
	}
	err := fmt.Errorf("the store was not closed in %v: %w", closeStage, ErrConnection)
	store := make(chan error, 1)
	if overWithin(closeStage, func() { store <- b.be.Close() }) {
		err = <-store
	}
	return err
}

// closeWait is how long Close waits for what is in flight, and closeStage how long for the work of this
// Broker, and for the store. Both can be stuck in a driver: some wait for a server that does not answer,
// though the context has ended.
const (
	closeWait  = 2 * time.Second
	closeStage = 5 * time.Second
)

// overWithin reports whether work is over in time. It is left to itself if not.
func overWithin(d time.Duration, work func()) bool {
	over := make(chan struct{})
	go func() { defer close(over); work() }()
	select {
	case <-over:
		return true
	case <-time.After(d):
		return false
	}
}

// beginClaim is called before a claim, and endClaim after it: Close must not
// close the store while a claim returns a group.
func (b *Broker) beginClaim() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	b.claims++
	return nil
}

func (b *Broker) endClaim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims--
	if b.closed && b.claims == 0 {
		close(b.idle)
	}
}

// Go runs f in the background, for packages that add to Parley. The context ends when
// the Broker is closed, and Close waits for f. Go returns false, and does not run f, if
// the Broker is closed.
func (b *Broker) Go(f func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.done.Add(1)
	go func() {
		defer b.done.Done()
		f(b.life)
	}()
	return true
}

// Wake announces a topic: to Watch in this process, and to those of others that the store's
// notifications reach. Queues have topics above zero, and packages that add to Parley ones
// below. A transaction announces by Tx.Notify.
func (b *Broker) Wake(topic int64) { b.wake(map[int64]bool{topic: true}) }

// Watch returns a channel that is closed when a topic is announced from now on, and a function that
// ends the watch. A process without a connection at that time can miss announcements: check again
// after Options.Poll at the latest.
func (b *Broker) Watch(topic int64) (woken <-chan struct{}, stop func()) {
	return b.hub.Watch(b.hub.Ticket(), topic)
}

// wake announces queues here and tells other processes.
func (b *Broker) wake(queues map[int64]bool) {
	for q := range queues {
		b.hub.Wake(q)
	}
	b.peers.Tell(queues)
}

// Admit waits until the caller may hold one more connection while a handler works. Call leave when
// the connection is no longer held. All workers of a Broker share the limit, so that other work
// finds some connections in the pool.
func (b *Broker) Admit(ctx context.Context) (leave func(), err error) {
	if err := b.admitted.Wait(ctx); err != nil {
		return nil, err
	}
	b.admitted.Opened()
	return b.admitted.Leave, nil
}

// Context ends when the Broker is closed.
func (b *Broker) Context() context.Context { return b.life }

// Logger returns the logger of Options, or a logger that discards everything.
func (b *Broker) Logger() *slog.Logger { return b.log }

// Options returns the options with their defaults filled in.
func (b *Broker) Options() Options { return b.opt }

func (b *Broker) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	return nil
}

// InTx runs f in a transaction of Parley's and commits it if f returns nil. Any
// error, or a panic, rolls it back. It never runs f twice: Retry does.
func (b *Broker) InTx(ctx context.Context, f func(tx *Tx) error) error { return b.inTx(ctx, ctx, f) }

func (b *Broker) inTx(ctx, begin context.Context, f func(tx *Tx) error) error {
	tx, err := b.begin(begin)
	if err != nil {
		return fail("begin", "", err)
	}
	over := false
	defer func() {
		if !over { // f failed or panicked
			tx.rollback(ctx)
		}
	}()
	if err := f(tx); err != nil {
		over = true
		if lost := tx.rollback(ctx); lost != nil && !errors.Is(err, ErrSerialization) { // f has missed what it had done
			return fail("rollback", "", fmt.Errorf("%w: %w", lost, err))
		}
		return err
	}
	over = true
	return fail("commit", "", tx.commit(ctx))
}

// Retries is how often Broker.Retry runs a transaction at most.
const Retries = 10

// Retry is InTx for functions that may run several times. It runs f up to Retries times, with
// growing pauses, as long as the error IsRetryable. Then the transaction lost a conflict with
// another one, or could not begin, and nothing of it remains. The error may come from f's own
// statements. Effects of f outside the transaction happen as often as f runs. Retry returns any
// other error at once, and the last error when the tries or ctx are over. A commit whose connection
// broke may have happened, so Retry returns its ErrConnection too.
func (b *Broker) Retry(ctx context.Context, f func(tx *Tx) error) error {
	return b.retry(ctx, func() error { return b.InTx(ctx, f) }, func(err error) bool { return IsRetryable(err) || consumer.Is(b.caps, err, ErrSerialization) })
}

// aloneFor is how long a verb by itself begins again. After a wait for a lock that the store has given up, it does not.
const aloneFor = 5 * time.Second

// alone is InTx for a single verb instead of a function of the application. So it can begin again
// when its transaction has lost a conflict with another one.
func (b *Broker) alone(ctx context.Context, verb func(tx *Tx) error) error {
	begun := time.Now()
	return b.retry(ctx, func() error { return b.inTx(ctx, backend.Alone(ctx), verb) },
		func(err error) bool { return errors.Is(err, ErrSerialization) && time.Since(begun) < aloneFor })
}

func (b *Broker) retry(ctx context.Context, f func() error, again func(error) bool) error {
	pause := 2 * time.Millisecond
	for try := 1; ; try++ {
		err := f()
		if err == nil || !again(err) || try == Retries || wait.Sleep(ctx, wait.Jitter(pause)) != nil {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// Join lets Parley work in a transaction that the caller began and will end: a *sql.Tx, or a
// *sql.Conn on which one is open, which costs a statement that asks the server. The verbs of
// anything else fail with ErrNoTx. Close the rows of your queries before a verb: a driver may break
// the connection otherwise, and with it the transaction. Receivers in this process and others are
// woken once the transaction has committed. Set savepoints by Tx.Savepoint. After a rollback to a
// savepoint that was set by SQL, receivers in other processes may find later messages only by polling.
func (b *Broker) Join(sqlTx Execer) *Tx {
	tx := &Tx{b: b, joined: true}
	j := b.caps.Joiner
	switch {
	case b.check() != nil:
		tx.broken = ErrClosed
	case j == nil:
		tx.broken = ErrNotJoinable
	case sqlTx == nil:
		tx.broken = ErrTxDone
	default:
		tx.be, tx.broken = j.Join(context.Background(), sqlTx)
	}
	return tx
}

// Begin begins a transaction that the caller must end. InTx is simpler.
func (b *Broker) Begin(ctx context.Context) (*OwnTx, error) {
	tx, err := b.begin(ctx)
	if err != nil {
		return nil, fail("begin", "", err)
	}
	return &OwnTx{tx}, nil
}

func (b *Broker) begin(ctx context.Context) (*Tx, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return b.beginAlways(ctx)
}

// beginAlways is begin while the Broker is being closed, too.
func (b *Broker) beginAlways(ctx context.Context) (*Tx, error) {
	be, err := b.be.Begin(ctx)
	if err != nil {
		if errors.Is(err, ErrPool) {
			b.admitted.Starved()
		}
		return nil, err
	}
	return &Tx{b: b, be: be}, nil
}

// Info describes the store: engine, version, settings that matter.
func (b *Broker) Info(ctx context.Context) (backend.Info, error) {
	if err := b.check(); err != nil {
		return backend.Info{}, fail("info", "", err)
	}
	info, err := b.be.Info(ctx)
	if b.admitted.Starving() {
		info.Warnings = append(info.Warnings, backend.Warning{Code: backend.WarnPool, Object: "pool",
			Text: "this process had no connection free in time: its workers hold by lease what they would hold in transactions",
			Hint: "raise the pool's limit, or have fewer readers"})
	}
	return info, fail("info", "", err)
}

// Unavailable reports whether an error means that the store accepts no writes at present, because
// it is full, read-only or cannot be reached. A broken connection does not mean that; failing to
// open the next one does. The error may come from one of the application's own statements.
func (b *Broker) Unavailable(err error) bool { return consumer.Unavailable(b.caps, err) }
