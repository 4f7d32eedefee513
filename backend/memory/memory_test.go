package memory_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/memory"
)

func broker(t *testing.T, be backend.Backend) *parley.Broker {
	t.Helper()
	b, err := parley.New(t.Context(), be, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	must(t, b.Migrate(t.Context()))
	must(t, b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func named(t *testing.T, dsn string) backend.Backend {
	t.Helper()
	be, err := backend.Open(t.Context(), dsn)
	must(t, err)
	return be
}

func posted(t *testing.T, b *parley.Broker) int {
	t.Helper()
	q, err := b.Admin().Queues(t.Context())
	must(t, err)
	return int(q[0].Depth)
}

// TestNames: handles of one name share a store until the last one closes, and those without a
// name have one each.
func TestNames(t *testing.T) {
	first := broker(t, named(t, "memory:names"))
	second := broker(t, named(t, "memory:names"))
	_, err := first.Post(t.Context(), "q", parley.Payload{Body: []byte("x")})
	must(t, err)
	if n := posted(t, second); n != 1 {
		t.Errorf("a store of the same name has %d messages, want 1", n)
	}
	must(t, first.Close())
	must(t, first.Close())
	if n := posted(t, second); n != 1 {
		t.Errorf("after the first handle closed it has %d messages, want 1", n)
	}
	must(t, second.Close())
	if n := posted(t, broker(t, named(t, "memory:names"))); n != 0 {
		t.Errorf("after the last handle closed the name has %d messages, want none", n)
	}
	for _, own := range []*parley.Broker{broker(t, named(t, "memory:")), broker(t, named(t, "memory:"))} {
		if n := posted(t, own); n != 0 {
			t.Errorf("a store of its own has %d messages, want none", n)
		}
		_, err := own.Post(t.Context(), "q", parley.Payload{})
		must(t, err)
	}
	if _, err := backend.Open(t.Context(), "memory:a?b=c"); err == nil {
		t.Error("parameters are ignored")
	}
}

// TestClock: what is delayed becomes due by the store's clock.
func TestClock(t *testing.T) {
	var ahead atomic.Int64
	b := broker(t, memory.New(&memory.Options{
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	}).Open())
	_, err := b.Post(t.Context(), "q", parley.Payload{}, parley.After(time.Hour))
	must(t, err)
	if _, err := b.Receive(t.Context(), "q", nil); !errors.Is(err, parley.ErrNoMessage) {
		t.Errorf("before its time the post brings %v, want ErrNoMessage", err)
	}
	ahead.Store(int64(time.Hour))
	d, err := b.Receive(t.Context(), "q", &parley.ReceiveOptions{Wait: 10 * time.Second})
	must(t, err)
	must(t, d.Ack(t.Context()))
}

// TestKill: what a killed process held in a transaction is free at once, and what it held by
// lease when that runs out.
func TestKill(t *testing.T) {
	var ahead atomic.Int64
	for _, leaseOnly := range []bool{false, true} {
		ahead.Store(0)
		s := memory.New(&memory.Options{LeaseOnly: leaseOnly,
			Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		victim := s.Open()
		dying, other := broker(t, victim), broker(t, s.Open())
		_, err := other.Post(t.Context(), "q", parley.Payload{})
		must(t, err)
		_, err = dying.Receive(t.Context(), "q", nil)
		must(t, err)
		victim.Kill()
		if _, err := dying.Post(t.Context(), "q", parley.Payload{}); err == nil {
			t.Error("a killed process posts")
		}
		if leaseOnly {
			if _, err := other.Receive(t.Context(), "q", nil); !errors.Is(err, parley.ErrNoMessage) {
				t.Errorf("a leased message brings %v, want ErrNoMessage", err)
			}
			ahead.Store(int64(time.Hour))
		}
		d, err := other.Receive(t.Context(), "q", &parley.ReceiveOptions{Wait: 10 * time.Second})
		must(t, err)
		must(t, d.Ack(t.Context()))
	}
	must(t, broker(t, memory.New(nil).Open()).Close())
}

// TestHolds: a worker may hold in transactions unless the options say otherwise.
func TestHolds(t *testing.T) {
	for leaseOnly, want := range map[bool]error{false: parley.ErrNoMessage, true: parley.ErrInvalidOption} {
		b := broker(t, memory.New(&memory.Options{LeaseOnly: leaseOnly}).Open())
		_, err := b.Receive(t.Context(), "q", &parley.ReceiveOptions{Hold: parley.HoldTransaction})
		if !errors.Is(err, want) {
			t.Errorf("LeaseOnly %v: %v, want %v", leaseOnly, err, want)
		}
	}
}
