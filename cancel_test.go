package parley_test

import (
	"context"
	"errors"
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

// cancelling is a store that counts tries to cancel posts.
type cancelling struct {
	backend.Backend
	tries int
}

func (c *cancelling) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := c.Backend.Begin(ctx)
	return &cancellingTx{tx, c}, err
}

type cancellingTx struct {
	backend.Tx
	c *cancelling
}

func (tx *cancellingTx) Cancel(ctx context.Context, queue int64, id backend.ID) error {
	tx.c.tries++
	return tx.Tx.Cancel(ctx, queue, id)
}

// TestCancelKeepsNoTurn: on a single writer CancelPost does not wait for a receiver, as all other writers would wait for it.
func TestCancelKeepsNoTurn(t *testing.T) {
	ctx := t.Context()
	first, cleanup := shop()
	defer cleanup()
	store := &cancelling{Backend: first.Backend()}
	b, err := parley.New(ctx, store, nil)
	must(err)
	defer b.Close()
	id, err := b.Post(ctx, "mail", parley.Payload{Body: []byte("x")})
	must(err)
	d, err := b.Receive(ctx, "mail", nil)
	must(err)
	defer d.Close()
	if err := b.CancelPost(ctx, "mail", id); !errors.Is(err, parley.ErrNotPending) || store.tries != 1 {
		t.Errorf("a post in hand: %v after %d tries, want ErrNotPending after one", err, store.tries)
	}
}
