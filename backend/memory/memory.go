// Package memory keeps a store in the memory of the process. It is for tests of programs that
// use Parley. Nothing has to be installed, and each test can have its own store. A test can set
// the store's clock and kill its processes.
//
//	import _ "github.com/parleymq/parley/backend/memory"
//
//	b, err := parley.Open(ctx, "memory:", nil)
//
// The store passes the conformance suite. It has limits. It ends with the process, and only one
// process can use it. It has no SQL (Tx.SQL is nil), and cannot join the application's
// transactions. A handler that writes to the application's tables is tested on SQLite.
package memory

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/memstore"
	"github.com/parleymq/parley/internal/testclock"
)

// Options are the options of a store. The zero value has all defaults.
type Options struct {
	// Now is the store's clock, by which leases, delays and timers end. Nil means time.Now.
	// After a jump forward Parley finds what is due within a second. Many goroutines call it.
	Now func() time.Time

	// LeaseOnly makes workers hold messages by lease, as they do on SQLite. By default they may
	// hold messages in open transactions, as on servers.
	LeaseOnly bool
}

// Store is what a database is for other backends: it stays while handles come and go.
type Store struct {
	store *memstore.Store
	opt   Options
}

// New makes an empty store. Handles on it migrate it, as on any other backend.
func New(o *Options) *Store {
	s := new(Store)
	if o != nil {
		s.opt = *o
	}
	s.store = memstore.NewStore(memstore.Options{Now: s.opt.Now})
	return s
}

// Open opens a handle on the store. Each handle stands for a process: give each broker its own.
func (s *Store) Open() *Handle {
	h := s.store.Open()
	return &Handle{Backend: h, kill: h.Crash, leaseOnly: s.opt.LeaseOnly}
}

// Handle is a process's way to a store. Close rolls back its open transactions and ends its
// sessions.
type Handle struct {
	backend.Backend
	kill      func()
	leaseOnly bool
	closed    func() // for a store that a name shares
	once      sync.Once
}

// Capabilities implements backend.Backend.
func (h *Handle) Capabilities() backend.Capabilities {
	c := h.Backend.Capabilities()
	c.HoldsInTransaction = c.HoldsInTransaction && !h.leaseOnly
	return c
}

// Kill ends the handle as SIGKILL ends a process. The store rolls back its open transactions, as
// a database does when a connection breaks. Leases and sessions stay until they run out.
func (h *Handle) Kill() { h.kill(); h.release() }

// Close implements backend.Backend.
func (h *Handle) Close() error { err := h.Backend.Close(); h.release(); return err }

func (h *Handle) release() {
	if h.closed != nil {
		h.once.Do(h.closed)
	}
}

func init() {
	backend.Register(backend.Version,
		func(ctx context.Context, dsn string) (backend.Backend, error) { return open(ctx, dsn) }, "memory")
}

// shared are the stores with a name, and how many handles each has.
var shared = struct {
	sync.Mutex
	stores map[string]*sharedStore
}{stores: make(map[string]*sharedStore)}

type sharedStore struct {
	*Store
	handles int
}

// newStore makes a store by the clock of a test, if ctx has one.
func newStore(ctx context.Context) *Store {
	if c := testclock.Take(ctx); c != nil {
		return New(&Options{Now: c.Now})
	}
	return New(nil)
}

// open opens the store of a name. memory: is a private store. All handles of memory:name
// share one store until the last of them closes.
func open(ctx context.Context, dsn string) (*Handle, error) {
	name := strings.TrimPrefix(dsn, "memory:")
	if strings.ContainsAny(name, "?/") {
		return nil, fmt.Errorf("parley: memory: %q: want memory: or memory:name, without parameters", dsn)
	}
	if name == "" {
		return newStore(ctx).Open(), nil
	}
	shared.Lock()
	defer shared.Unlock()
	s := shared.stores[name]
	if s == nil {
		s = &sharedStore{Store: newStore(ctx)}
		shared.stores[name] = s
	}
	s.handles++
	h := s.Open()
	h.closed = func() {
		shared.Lock()
		defer shared.Unlock()
		if s.handles--; s.handles == 0 {
			delete(shared.stores, name)
		}
	}
	return h, nil
}
