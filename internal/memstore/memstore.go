// Package memstore is a backend that keeps everything in memory. It is the worked example for
// authors of backends, and the conformance suite tests itself with it.
//
// It has what a database has and nothing more: tables of row versions, an undo log, and
// locks that a transaction holds until it ends. A transaction sees what is committed
// plus its own changes. So each file reads like its counterpart of a SQL backend, with
// lookups where that has statements:
//
//	table.go     row versions and who sees them
//	tx.go        commit, rollback, savepoints
//	locks.go     locks of transactions, waiting, deadlocks
//	catalog.go   what has been defined
//	dialog.go    begin, accept, end
//	send.go      sending, and withholding what cannot be sent
//	post.go      one-way messages
//	marker.go    the ready order
//	claim.go     taking groups and reading their messages
//	settle.go    acknowledging, giving back, finishing
//	move.go      groups: lock, move, unpark
//	promote.go   promotions
//	keep.go      a transaction's hold becomes a lease
//	workers.go   records of readers
//	maintenance jobs.go    background work
//	read.go      what operators see
//	applocks.go  application locks
//	tasks.go     schedules
//	recurring.go recurring jobs
//	cancel.go    requests to cancel what is in hand
//	listen.go    wake-ups
//	conns.go     connections of a process
//	fault.go     deliberate mistakes
//
// One mutex guards the whole store. That makes every call a single instant, which a
// database does not promise. So the locks that the contract asks for are taken all the
// same: they matter between the calls of a transaction.
//
// A [Store] stands for the database and outlives the processes that use it. A
// [Handle] stands for one process; several handles on a store are several
// processes.
package memstore

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// schemaVersion is what Migrate brings a store to.
const schemaVersion = 1

// Options of a store. The zero value is a correct store on the system's clock.
type Options struct {
	// Now is the store's clock. Default time.Now.
	Now func() time.Time
	// Fault makes the store do one thing wrong. Default none.
	Fault Fault
}

// Store is the database: it stays when handles come and go.
type Store struct {
	now   func() time.Time
	fault Fault

	mu      sync.Mutex
	changed chan struct{} // closed whenever something was released; see sleep
	schema  int           // 0: not migrated
	minimum int           // programs of a lower version are refused

	// Counters are never rolled back, like the sequences of a database.
	fence    int64 // of leases, application locks and tasks
	arrivals int64 // of messages: the order in which they were written
	queues   int64 // ids of queues
	serial   int64 // everything else that needs a place in an order

	turns int // of schedules

	locks     map[lock]*Tx
	resources map[string]*resource // application locks
	listeners map[*listener]struct{}
	spent     map[backend.ID]int64 // for faults

	*tables
}

// tables is what Uninstall throws away.
type tables struct {
	catalog    table[int, backend.Catalog] // one row, at 0
	endpoints  table[backend.ID, endpoint]
	members    table[pair, struct{}] // (group, handle)
	closings   table[backend.ID, closing]
	troubles   table[backend.ID, trouble] // what the broker says of an endpoint
	timers     table[backend.ID, time.Time]
	retained   table[numbered, backend.RetainedMessage] // (handle, number)
	streams    table[backend.ID, stream]
	notices    table[pair, struct{}]     // (handle that reads, stream)
	messages   table[numbered, message]  // (stream, seq)
	withheld   table[numbered, message]  // (stream, seq)
	markers    table[backend.ID, marker] // by stream
	order      table[rank, struct{}]     // the same markers, best first
	groups     table[backend.ID, group]
	promotions table[backend.ID, promotion] // by group
	failures   table[backend.ID, failure]   // by message
	posts      table[backend.ID, post]
	uniques    table[unique, backend.ID]
	dead       table[int64, deadLetter]
	once       table[string, time.Time]
	readers    table[backend.ID, readerRecord] // of readers
	fences     table[string, int64]            // the highest that passed
	recurring  table[string, backend.RecurringJob]
	requests   table[pair, cancelRequest] // (post or task, request)
	plans
}

// plans are the tables of tasks in phases.
type plans struct {
	schedules table[string, schedule]
	tasks     table[taskKey, task]
}

// NewStore makes an empty store, which is not migrated yet.
func NewStore(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{
		now:       o.Now,
		fault:     o.Fault,
		changed:   make(chan struct{}),
		locks:     make(map[lock]*Tx),
		resources: make(map[string]*resource),
		listeners: make(map[*listener]struct{}),
		spent:     make(map[backend.ID]int64),
		tables:    newTables(),
	}
}

// Open makes a handle: another process that uses the store.
func (s *Store) Open() *Handle { return s.Limit(0) }

// Limit is Open for a process with so many connections. Each open transaction has
// one, and so has each other call while it lasts. Zero: there is no limit.
func (s *Store) Limit(conns int) *Handle {
	h := &Handle{store: s, open: make(map[*Tx]struct{}), sessions: make(map[*session]struct{})}
	if conns > 0 {
		h.conns = make(chan struct{}, conns)
	}
	return h
}

// Handle is a [backend.Backend].
type Handle struct {
	store    *Store
	closed   bool
	open     map[*Tx]struct{}
	sessions map[*session]struct{}
	conns    chan struct{} // has those that are in use; nil: there is no limit
	admitted bool          // the schema was once found to be right
	timers   []backend.ID  // for faults: those that it set
}

var (
	_ backend.Backend = (*Handle)(nil)
	_ backend.Tx      = (*Tx)(nil)
)

// Capabilities implements [backend.Backend]. An open transaction stops only those who
// need its locks.
func (h *Handle) Capabilities() backend.Capabilities {
	return backend.Capabilities{HoldsInTransaction: true, Listener: h, Pool: h,
		Together: &backend.Together{Room: 2, KeyedPosts: true, Posts: true}}
}

// enter begins a call: it takes a connection and the mutex, which leave gives back.
func (h *Handle) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := h.connect(ctx); err != nil {
		return err
	}
	h.store.mu.Lock()
	if h.closed && h.store.fault != FaultClosedServes {
		h.leave()
		return backend.ErrClosed
	}
	return nil
}

func (h *Handle) leave() {
	h.store.mu.Unlock()
	h.putBack()
}

// enterMigrated is enter for calls that need the schema. The first one looks at its
// version; later that is done when the catalog is read and a lease is taken back.
func (h *Handle) enterMigrated(ctx context.Context) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	var err error
	if !h.admitted || h.store.schema == 0 {
		err = h.store.check()
	}
	if err != nil {
		h.leave()
		return err
	}
	h.admitted = true
	return nil
}

// Info implements [backend.Backend].
func (h *Handle) Info(ctx context.Context) (backend.Info, error) {
	if err := h.enter(ctx); err != nil {
		return backend.Info{}, err
	}
	defer h.leave()
	return backend.Info{
		Engine:   "memory",
		Version:  runtime.Version(),
		Settings: map[string]string{"durability": "none: the store is in memory"},
		Schema:   h.store.schema, Program: schemaVersion, MinProgram: h.store.minimum,
	}, nil
}

// Migrate implements [backend.Backend].
func (h *Handle) Migrate(ctx context.Context) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	if h.store.schema != 0 {
		return h.store.check()
	}
	h.store.schema = schemaVersion
	return nil
}

// Check implements [backend.Backend].
func (h *Handle) Check(ctx context.Context) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	return h.store.check()
}

func (s *Store) check() error {
	switch {
	case s.schema < 0:
		return backend.ErrUnknownSchema
	case s.schema < schemaVersion:
		return backend.ErrNotMigrated
	case s.outgrown():
		return backend.ErrNewerSchema
	case s.minimum > schemaVersion && s.fault != FaultAnnouncementUnheard:
		return backend.ErrNewerSchema
	default:
		return nil
	}
}

// outgrown reports whether the schema is beyond the one after this program's own, in
// which nothing that the program uses is missing yet.
func (s *Store) outgrown() bool {
	return s.schema > schemaVersion+1 && s.fault != FaultNewerAccepted
}

// SetVersion does what the migration of a newer program does.
func (s *Store) SetVersion(schema, minProgram int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schema, s.minimum = schema, minProgram
	tx := (&Handle{store: s, open: make(map[*Tx]struct{})}).begin()
	defined := s.defined(tx)
	s.catalog.put(tx, 0, *defined.With(new(backend.Catalog)))
	tx.commit()
}

// Uninstall implements [backend.Backend]. Transactions that are open lose what
// they have done: their tables are gone.
func (h *Handle) Uninstall(ctx context.Context) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	h.store.schema, h.store.minimum = 0, 0
	h.store.tables = newTables()
	return nil
}

// Close implements [backend.Backend]: open transactions are rolled back and
// sessions end, leases live on.
func (h *Handle) Close() error {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for session := range h.sessions {
		session.end()
	}
	h.disconnect(backend.ErrTxDone)
	return nil
}

// Crash is the death of the process. The store notices that its connections are
// gone and rolls back their transactions, as any database does. What was to
// outlive a connection stays until it expires: leases and sessions.
func (h *Handle) Crash() {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	h.disconnect(backend.ErrConnection)
}

func (h *Handle) disconnect(why error) {
	h.closed = true
	if len(h.timers) > 0 {
		tx := h.begin()
		for _, handle := range h.timers {
			h.store.timers.delete(tx, handle)
		}
		tx.commit()
	}
	for tx := range h.open {
		tx.rollback()
		tx.over = why
	}
	h.store.signal()
}
