// Package smallest is the first step of a backend: a store in memory in which a program can define
// its catalog, and nothing more. The guide docs/writing-a-backend.md begins with it.
package smallest

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// Store is the database. One transaction at a time has its state: it is in the channel.
type Store struct{ state chan state }

type state struct {
	schema  int
	catalog backend.Catalog
}

func NewStore() *Store {
	s := &Store{make(chan state, 1)}
	s.state <- state{}
	return s
}

// Handle is what a process has. All that comes later is Unimplemented.
type Handle struct {
	backend.Unimplemented
	store *Store
}

func (s *Store) Open() *Handle { return &Handle{store: s} }

func (h *Handle) Capabilities() backend.Capabilities { return backend.Capabilities{SingleWriter: true} }

// in changes the state at once, outside of transactions.
func (h *Handle) in(ctx context.Context, do func(*state) error) error {
	select {
	case st := <-h.store.state:
		err := do(&st)
		h.store.state <- st
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Handle) Info(ctx context.Context) (info backend.Info, err error) {
	err = h.in(ctx, func(st *state) error {
		info = backend.Info{Engine: "smallest", Version: "1", Schema: st.schema, Program: 1}
		return nil
	})
	return info, err
}

func (h *Handle) Migrate(ctx context.Context) error {
	return h.in(ctx, func(st *state) error { st.schema = 1; return nil })
}

func (h *Handle) Uninstall(ctx context.Context) error {
	return h.in(ctx, func(st *state) error { *st = state{}; return nil })
}

func (h *Handle) Check(ctx context.Context) error {
	return h.in(ctx, func(st *state) error {
		if st.schema == 0 {
			return backend.ErrNotMigrated
		}
		return nil
	})
}

func (h *Handle) Begin(ctx context.Context) (backend.Tx, error) {
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	return &Tx{store: h.store}, nil
}

// Tx is a transaction. It takes the state with its first verb and works on a copy.
type Tx struct {
	backend.UnimplementedTx
	store      *Store
	begun      bool
	over       bool
	before, st state
}

func (tx *Tx) verb(ctx context.Context) error {
	if tx.over {
		return backend.ErrTxDone
	}
	if tx.begun {
		return ctx.Err()
	}
	select {
	case tx.before = <-tx.store.state:
		tx.begun, tx.st = true, tx.before
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (tx *Tx) end(st state) {
	if tx.begun && !tx.over {
		tx.store.state <- st
	}
	tx.over = true
}

func (tx *Tx) Commit(ctx context.Context) error {
	if err := tx.verb(ctx); err != nil {
		return err
	}
	tx.end(tx.st)
	return nil
}

func (tx *Tx) Rollback(context.Context) error { tx.end(tx.before); return nil }

func (tx *Tx) Catalog(ctx context.Context, lock bool) (*backend.Catalog, error) {
	if err := tx.verb(ctx); err != nil {
		return nil, err
	}
	c := tx.st.catalog.Clone()
	if !lock {
		c.History = nil
	}
	return c, nil
}

func (tx *Tx) PutCatalog(ctx context.Context, change *backend.Catalog) (int64, error) {
	if err := tx.verb(ctx); err != nil {
		return 0, err
	}
	c := tx.st.catalog.With(change)
	for i := range c.Queues { // none is removed, so that each keeps its place and its ID
		c.Queues[i].ID = int64(i + 1)
	}
	tx.st.catalog = *c
	return c.Version, nil
}
