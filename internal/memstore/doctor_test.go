package memstore

import (
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/doctortest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := NewStore(Options{})
	be := s.Open()
	t.Cleanup(func() { be.Close() })
	if err := be.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	doctortest.Run(t, func(t *testing.T) backend.Backend { return s.Open() })
}
