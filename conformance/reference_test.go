package conformance

import (
	"context"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance/internal/reference"
)

// referenceStore is the backend in memory, with or without a fault.
func referenceStore(fault reference.Fault) Store {
	s := reference.NewStore(reference.Options{Fault: fault})
	return Store{
		Open: func(context.Context) (backend.Backend, error) { return s.Open(), nil },
		Fresh: func(context.Context) (backend.Backend, error) {
			return reference.NewStore(reference.Options{Fault: fault}).Open(), nil
		},
	}
}

// TestReference proves that the checks ask for nothing that cannot be kept.
func TestReference(t *testing.T) {
	Run(t, referenceStore(""))
}
