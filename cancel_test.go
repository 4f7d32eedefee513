package parley_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// looked is a store that counts the looks for requests to cancel.
type looked struct {
	backend.Backend
	n atomic.Int64
}

func (l *looked) CancelRequests(ctx context.Context) ([]backend.CancelRequest, error) {
	l.n.Add(1)
	return l.Backend.CancelRequests(ctx)
}

// TestNoLooksForCancels: a worker looks for requests to cancel only while it has something in hand for long, and
// about once a second.
func TestNoLooksForCancels(t *testing.T) {
	ctx := t.Context()
	first, cleanup := shop()
	defer cleanup()
	store := &looked{Backend: first.Backend()}
	b, err := parley.New(ctx, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	drain := func(bodies []string, h parley.HandlerFunc) time.Duration {
		for _, body := range bodies {
			if _, err := b.Post(ctx, "mail", parley.Payload{Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		worker, err := b.NewWorker("mail", h, nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := worker.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		return time.Since(begun)
	}
	quick := make([]string, 50)
	took := drain(quick, func(context.Context, *parley.Message) error { return nil })
	if n := store.n.Load(); n > 0 && took < 400*time.Millisecond {
		t.Errorf("%d looks in %v, in which nothing was in hand for long", n, took)
	}
	const looks = 3
	store.n.Store(0)
	took = drain([]string{"slow"}, func(context.Context, *parley.Message) error {
		slow.Eventually(t, 30*time.Second, "three looks", func() (any, bool) { return store.n.Load(), store.n.Load() >= looks })
		return nil
	})
	if took < (looks-1)*800*time.Millisecond {
		t.Errorf("%d looks in %v, want about one a second", looks, took)
	}
}
