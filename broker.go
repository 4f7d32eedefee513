// Package parley gives a program SQL Server Service Broker's way of working on
// the database that it already runs: conversations between services, groups of
// conversations that one receiver holds at a time, delivery exactly once and in
// order, priorities and promotion, contracts and timers.
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
// What a store must do is the interface [backend.Backend]; its prose is the
// contract, and package conformance checks it. Backends are in backend/postgres
// and backend/sqlite; docs/writing-a-backend.md tells how to write another.
package parley

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
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
	// Logger gets what operators should know; never a body. Default: discard.
	Logger *slog.Logger

	// Owner is shown to operators as the holder of what this process holds.
	// Default: host name and process id.
	Owner string

	// Lease is for how long a delivery held by lease stays ours without a
	// heartbeat; heartbeats are sent three times as often. Default 30 s, at
	// least 100 ms.
	Lease time.Duration

	// Poll is how often a waiting receiver looks again when nothing wakes it.
	// Default 1 s, give or take a fifth.
	Poll time.Duration

	// GroupWait is for how long End, Move, GetGroup and a related Begin wait for
	// a group that another receiver holds, before ErrGroupBusy. Default 5 s.
	GroupWait time.Duration

	// KeepClosed is for how long a conversation stays visible after both sides
	// have ended. Default 0: it is removed at once.
	KeepClosed time.Duration

	// KeepOnce is for how long at least the keys of Tx.Once are kept: longer than
	// any message may come up again. Default 30 days.
	KeepOnce time.Duration

	// MaxBody limits the size of a body. Default 64 MiB.
	MaxBody int

	// NoDuties leaves timers, lifetimes, delayed posts, the dialogs of Senders and
	// clean-up to other processes, except for what a Receive of this one finds due. It
	// is for programs whose role may only send, and for tools; of the others at least
	// one has to do these duties.
	NoDuties bool
}

func (o *Options) withDefaults() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Logger == nil {
		v.Logger = slog.New(slog.DiscardHandler)
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
	if v.MaxBody == 0 {
		v.MaxBody = 64 << 20
	}
	if v.MaxBody < 0 {
		return v, &Error{Op: "options", Object: "MaxBody", Err: ErrInvalidOption, Hint: "want a number above zero"}
	}
	return v, nil
}

// Broker is a process's access to the conversations of one store. It is safe
// for use by many goroutines. Close it when done.
type Broker struct {
	be       backend.Backend
	opt      Options
	log      *slog.Logger
	catalog  atomic.Pointer[catalogView]
	reading  chan struct{} // has room for one who reads a newer one
	facts    factCache
	hub      *hub
	duties   *caretaker
	listener *listening
	recycler *recycler
	admitted *admission

	mu         sync.Mutex
	validators map[string]func([]byte) error
	closed     bool
	open       map[*Delivery]struct{}
	claims     int           // under way
	idle       chan struct{} // closed when closed is set and no claim is under way
	workers    map[*Worker]struct{}
	stop       context.CancelFunc
	life       context.Context // ends with Close
	done       sync.WaitGroup
}

// New makes a Broker on a backend, which it closes with itself. The database
// need not be migrated yet.
func New(ctx context.Context, be Backend, o *Options) (*Broker, error) {
	opt, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if be == nil {
		return nil, &Error{Op: "new", Err: ErrInvalidOption, Hint: "the backend is nil"}
	}
	b := &Broker{
		reading:    make(chan struct{}, 1),
		be:         be,
		opt:        opt,
		log:        opt.Logger,
		hub:        newHub(),
		validators: make(map[string]func([]byte) error),
		open:       make(map[*Delivery]struct{}),
		idle:       make(chan struct{}),
		workers:    make(map[*Worker]struct{}),
	}
	if l, ok := be.(backend.Logging); ok {
		l.LogTo(b.log)
	}
	b.admitted = newAdmission(be, func(held int) {
		b.log.Warn("parley: the pool of connections is short: workers hold by lease what they would hold in transactions",
			"event", "pool.short", "held", held)
	})
	b.recycler = &recycler{b: b, poke: make(chan struct{}, 1)}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.stop, b.life = cancel, background
	b.listener = b.startListening(background)
	b.duties = b.startDuties(background)
	b.recycler.start(background)
	return b, nil
}

// Open makes a Broker on the database that the name tells: "sqlite:app.db",
// "postgres://user@host/db". The backend's package must be imported.
func Open(ctx context.Context, dsn string, o *Options) (*Broker, error) {
	be, err := backend.Open(ctx, dsn)
	if err != nil {
		return nil, fail("open", "", err)
	}
	b, err := New(ctx, be, o)
	if err != nil {
		be.Close()
		return nil, err
	}
	return b, nil
}

// Backend returns the backend, for tools.
func (b *Broker) Backend() Backend { return b.be }

// Migrate creates or updates Parley's tables. It is idempotent, and safe when
// many processes start at once. Programs of the version before this one work on;
// docs/deploying.md tells how older ones are made to stop.
func (b *Broker) Migrate(ctx context.Context) error {
	if err := b.check(); err != nil {
		return fail("migrate", "", err)
	}
	var err error
	if m, ok := b.be.(backend.Migrator); ok {
		err = m.MigrateWith(ctx, backend.MigrateOptions{Report: func(text string) {
			b.log.Info("parley: migration", "event", "store.migration", "step", text)
		}})
	} else {
		err = b.be.Migrate(ctx)
	}
	if err != nil {
		return fail("migrate", "", err)
	}
	b.duties.kick()
	b.listener.kick()
	return nil
}

// Close stops workers and the background work, gives back what is still held, and
// closes the backend. Handlers that still work see the end of Delivery.Context, and
// what they do after it fails. Close is idempotent.
func (b *Broker) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	var held []*Delivery
	for d := range b.open {
		held = append(held, d)
	}
	if b.claims == 0 {
		close(b.idle)
	}
	var workers []*Worker
	for w := range b.workers {
		workers = append(workers, w)
	}
	b.mu.Unlock()

	for _, w := range workers {
		w.shut()
	}
	b.stop()
	b.hub.close()
	for _, d := range held {
		d.abandon()
	}
	// A claim under way gives back what it gets. One that waits for a transaction
	// of this Broker, which ends below, gets nothing.
	select {
	case <-b.idle:
	case <-time.After(closeWait):
	}
	b.done.Wait()
	return b.be.Close()
}

// closeWait is for how long Close waits for what is under way.
const closeWait = 2 * time.Second

// beginClaim is called before a claim, and endClaim after it, so that Close does
// not take the store away from a claim that has just got something.
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

// Context ends when the Broker is closed.
func (b *Broker) Context() context.Context { return b.life }

// Logger returns the logger of Options, or one that discards everything.
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
// error, or a panic, rolls it back. It never runs f twice: whether to try again
// after an error that IsRetryable is the caller's choice.
func (b *Broker) InTx(ctx context.Context, f func(tx *Tx) error) error {
	tx, err := b.begin(ctx)
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
		return err
	}
	over = true
	return fail("commit", "", tx.commit(ctx))
}

// Join lets Parley work in a transaction that the caller began and will end.
// Receivers in this process and others are told of what was sent once it has
// committed. Set savepoints by Tx.Savepoint: after a rollback to one that was set in
// SQL, receivers in other processes may find what is sent next only by polling.
func (b *Broker) Join(sqlTx Execer) *Tx {
	tx := &Tx{b: b, joined: true}
	j, ok := b.be.(backend.Joiner)
	switch {
	case b.check() != nil:
		tx.broken = ErrClosed
	case !ok:
		tx.broken = ErrNotJoinable
	case sqlTx == nil:
		tx.broken = ErrTxDone
	default:
		tx.be, tx.broken = j.Join(context.Background(), sqlTx)
	}
	return tx
}

func (b *Broker) begin(ctx context.Context) (*Tx, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	be, err := b.be.Begin(ctx)
	if err != nil {
		if errors.Is(err, ErrNotBegun) {
			b.admitted.starved()
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
	if b.admitted.starving() {
		info.Warnings = append(info.Warnings, backend.Warning{Code: backend.WarnPool, Object: "pool",
			Text: "this process had no connection free in time: its workers hold by lease what they would hold in transactions",
			Hint: "raise the pool's limit, or have fewer readers"})
	}
	return info, fail("info", "", err)
}

// cleanup is for what must be done though ctx is cancelled.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

// gone reports whether the store cannot be worked with at present, which the
// background work waits out.
func gone(err error) bool {
	return errors.Is(err, ErrNotMigrated) || tooOld(err) || errors.Is(err, ErrConnection) || errors.Is(err, ErrReadOnly) ||
		errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReplaced)
}

// tooOld reports whether the store is not one for this program any more, whatever it
// does.
func tooOld(err error) bool {
	return errors.Is(err, ErrNewerSchema) || errors.Is(err, ErrUnknownSchema)
}
