package conformance

import (
	"context"
	"regexp"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance/internal/reference"
)

// referenceStore is the backend in memory, with or without a fault.
func referenceStore(fault reference.Fault) Store {
	s := reference.NewStore(reference.Options{Fault: fault})
	return Store{
		Open:  func(context.Context) (backend.Backend, error) { return s.Open(), nil },
		Limit: func(_ context.Context, conns int) (backend.Backend, error) { return s.Limit(conns), nil },
		Fresh: func(context.Context) (backend.Backend, error) {
			return reference.NewStore(reference.Options{Fault: fault}).Open(), nil
		},
		Versions: func(ctx context.Context) (*Versioned, error) {
			s := reference.NewStore(reference.Options{Fault: fault})
			return &Versioned{
				Open: func(context.Context) (backend.Backend, error) { return s.Open(), nil },
				Set:  func(_ context.Context, schema, min int) error { s.SetVersion(schema, min); return nil },
			}, s.Open().Migrate(ctx)
		},
	}
}

// TestReference proves that the checks ask for nothing that cannot be kept.
func TestReference(t *testing.T) {
	t.Parallel()
	Run(t, referenceStore(""))
}

// TestPlainBackend proves that they ask for no optional interface either: here
// deliveries are held by lease alone, and nobody listens.
func TestPlainBackend(t *testing.T) {
	t.Parallel()
	s := reference.NewStore(reference.Options{})
	RunMatching(t, Store{Open: func(context.Context) (backend.Backend, error) {
		return struct{ backend.Backend }{s.Open()}, nil
	}}, regexp.MustCompile("^(I1|O|T02|Q|N|L|F)"))
}
