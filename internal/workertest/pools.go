package workertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/sure"
)

// SmallPool has eight workers with all defaults in one process share the connections
// of a store. Every other handler posts on the side, half of these after it has asked
// for its transaction. All of it has to be done, however few connections there are.
func SmallPool(t *testing.T, be backend.Backend, messages int) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	b, err := parley.New(ctx, be, nil)
	if err == nil {
		err = b.Migrate(ctx)
	}
	if err == nil {
		err = b.Define(ctx, parley.Catalog{
			Types: []parley.MessageType{{Name: "job"}}, Queues: []parley.Queue{{Name: "jobs"}, {Name: "aside"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	posts := make([]parley.Posting, messages)
	for i := range posts {
		posts[i].Payload = parley.Payload{Type: "job", Body: fmt.Append(nil, i)}
	}
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := tx.PostBatch(ctx, "jobs", posts)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	done := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(messages))
	var seen sync.Map
	handler := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		n := calls.Add(1)
		if n%4 == 1 {
			if _, err := m.Tx(ctx); err != nil {
				return err
			}
		}
		time.Sleep(20 * time.Millisecond) // the handler's work
		if n%2 == 1 {
			aside := parley.Payload{Type: "job", Body: m.Body}
			_, err := b.Post(ctx, "aside", aside)
			if errors.Is(err, parley.ErrWouldDeadlock) { // there is one connection, which m.Tx has
				tx, e := m.Tx(ctx)
				if e != nil {
					return e
				}
				_, err = tx.Post(ctx, "aside", aside)
			}
			if err != nil {
				return err
			}
		}
		if _, again := seen.LoadOrStore(m.ID, true); !again && left.Add(-1) == 0 {
			close(done)
		}
		return nil
	})
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			if err := sure.Of(b.NewWorker("jobs", handler, nil)).Run(working); err != nil {
				t.Errorf("a worker ended with %v", err)
			}
		})
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Errorf("in the end %d of %d messages have not been handled, in %d calls", left.Load(), messages, calls.Load())
	}
	stop()
	workers.Wait()
	t.Logf("%d messages in %d calls", messages, calls.Load())
}

// ReadsAtOnce has operators' reads, 16 at once, share a pool of few connections.
func ReadsAtOnce(t *testing.T, be backend.Backend) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := parley.New(ctx, be, nil)
	if err == nil {
		err = b.Migrate(ctx)
	}
	if err == nil {
		err = b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: "job"}}, Queues: []parley.Queue{{Name: "jobs"}}})
	}
	for i := 0; err == nil && i < 20; i++ {
		_, err = b.Post(ctx, "jobs", parley.Payload{Type: "job"})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	first := func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (id parley.ID, ok bool) {
		for g := range groups {
			return g.Group, true
		}
		return id, false
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 10 {
				if _, err := b.Admin().Groups(ctx, "jobs", parley.Place{}, 100); err != nil {
					t.Errorf("groups: %v", err)
				}
				if _, err := doctor.Diagnose(ctx, b, "jobs"); err != nil {
					t.Errorf("diagnose: %v", err)
				}
				d, err := b.Receive(ctx, "jobs", &parley.ReceiveOptions{Choose: first})
				if err == nil {
					err = d.Rollback(ctx)
				} else if errors.Is(err, parley.ErrNoMessage) {
					err = nil
				}
				if err != nil {
					t.Errorf("receive: %v", err)
				}
				err = b.InTx(ctx, func(tx *parley.Tx) error {
					_, err := tx.Receive(ctx, "jobs", &parley.ReceiveOptions{Choose: first})
					return err
				})
				if err != nil && !errors.Is(err, parley.ErrNoMessage) {
					t.Errorf("receive in a transaction: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// SmallPools runs SmallPool on each of the stores, by the number of their connections. On a
// single one every fourth handler waits half a second, until its post on the side is refused.
func SmallPools(t *testing.T, stores map[string]func(*testing.T) backend.Backend) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			messages := 400
			if testing.Short() || name == "1" {
				messages = 100
			}
			SmallPool(t, open(t), messages)
		})
	}
}
