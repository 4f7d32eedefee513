package conformance

import (
	"context"
	"regexp"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/memstore"
)

// memoryStore is the backend in memory, with or without a fault.
func memoryStore(fault memstore.Fault) Store {
	s := memstore.NewStore(memstore.Options{Fault: fault})
	return Store{
		Lose:  rolledBack,
		Open:  func(context.Context) (backend.Backend, error) { return s.Open(), nil },
		Limit: func(_ context.Context, conns int) (backend.Backend, error) { return s.Limit(conns), nil },
		Fresh: func(context.Context) (backend.Backend, error) {
			return memstore.NewStore(memstore.Options{Fault: fault}).Open(), nil
		},
		Versions: func(ctx context.Context) (*Versioned, error) {
			s := memstore.NewStore(memstore.Options{Fault: fault})
			return &Versioned{
				Open: func(context.Context) (backend.Backend, error) { return s.Open(), nil },
				Set:  func(_ context.Context, schema, min int) error { s.SetVersion(schema, min); return nil },
			}, s.Open().Migrate(ctx)
		},
	}
}

// rolledBack is the loss of a transaction in memory.
var rolledBack = []func(context.Context, backend.Tx){func(ctx context.Context, tx backend.Tx) { tx.Rollback(ctx) }}

// divided is a number of stores among which Run divides the checks, most of which wait. With -short there are
// twice as many: then the race detector and the servers leave the processors to them.
func divided(n int, store func() Store) Store {
	if testing.Short() {
		n *= 2
	}
	s := store()
	for range n - 1 {
		s.Beside = append(s.Beside, store())
	}
	return s
}

// TestMemory proves that the checks ask for nothing that cannot be kept. Most checks wait, so with many stores the
// suite takes less than ten seconds on two processors.
func TestMemory(t *testing.T) {
	t.Parallel()
	Run(t, divided(24, func() Store { return memoryStore("") }))
}

// TestPlainBackend proves that they ask for no capability either: here deliveries are
// held by lease alone, and receivers poll.
func TestPlainBackend(t *testing.T) {
	t.Parallel()
	RunMatching(t, divided(12, func() Store {
		s := memstore.NewStore(memstore.Options{})
		return Store{Open: func(context.Context) (backend.Backend, error) { return plain{s.Open()}, nil }}
	}), regexp.MustCompile("^(I|O|T02|Q|N|L|F|K)"))
}

type plain struct{ backend.Backend }

func (plain) Capabilities() backend.Capabilities { return backend.Capabilities{} }
