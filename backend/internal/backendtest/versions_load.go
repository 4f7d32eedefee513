package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/sure"
)

// testRolling has programs of two versions work on one store at once. It migrates the store under
// them twice: the first step adds, and the second stops the older program.
func testRolling(t *testing.T, s Site) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := &Fixture{T: t, Ctx: ctx}
	// Like each step of the real schema, it locks one table that is in use. With several tables it could
	// deadlock with transactions that use them in another order. No program of this test uses parley_once.
	s.expand = "ALTER TABLE parley_message ADD COLUMN later INTEGER NOT NULL DEFAULT 0;\n" +
		"ALTER TABLE parley_once ADD COLUMN later INTEGER NOT NULL DEFAULT 0;\n"
	old := s.Open(t)
	f.OK(old.Migrate(ctx))
	r := &rolling{t: t, ctx: ctx, seen: make(map[string][]int), sent: make(map[string]int)}
	before := r.broker(old)
	f.OK(before.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}, Types: []parley.MessageType{{Name: "m"}}}))
	oldWorker, oldSender := r.work(before), r.send(before, "old")
	r.handled(100)

	next := s.program(t, 2)
	f.OK(s.program(t, 1).Migrate(ctx)) // adds
	after := r.broker(s.program(t, 1))
	newWorker, newSender := r.work(after), r.send(after, "new")
	r.handled(300) // by both

	f.OK(next.MigrateWith(ctx, backend.MigrateOptions{Wait: time.Minute})) // takes away
	f.Is(<-oldWorker, parley.ErrNewerSchema)
	f.Is(<-oldSender, parley.ErrNewerSchema)
	r.handled(600)
	r.enough()
	f.OK(<-newSender)
	for len(r.missing()) > 0 && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	f.OK(<-newWorker)
	r.check()
}

type rolling struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	over bool
	sent map[string]int   // by key: how many were committed
	seen map[string][]int // by key: what was handled, in order
}

func (r *rolling) broker(b backend.Backend) *parley.Broker {
	r.t.Helper()
	x, err := parley.New(r.ctx, b, &parley.Options{Poll: 50 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { x.Close() })
	return x
}

// send posts to three keys until the store refuses it or it is enough.
func (r *rolling) send(b *parley.Broker, name string) chan error {
	done := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			key := fmt.Sprintf("%s %d", name, n%3)
			r.mu.Lock()
			over, number := r.over, r.sent[key]
			r.mu.Unlock()
			if over {
				done <- nil
				return
			}
			_, err := b.Post(r.ctx, "q", parley.Payload{Type: "m", Body: fmt.Appendf(nil, "%s/%d", key, number)}, parley.Key(key))
			switch {
			case parley.IsRetryable(err):
				continue // nothing was posted
			case err != nil:
				done <- err
				return
			}
			r.mu.Lock()
			r.sent[key]++
			r.mu.Unlock()
		}
	}()
	return done
}

func (r *rolling) work(b *parley.Broker) chan error {
	done := make(chan error, 1)
	w := sure.Of(b.NewWorker("q", parley.HandlerFunc(r.handle), &parley.WorkerOptions{MaxReaders: 3}))
	go func() { done <- w.Run(r.ctx) }()
	return done
}

// handle counts a message with the commit of its acknowledgement.
func (r *rolling) handle(ctx context.Context, m *parley.Message) error {
	tx, err := m.Tx(ctx)
	if err != nil {
		return err
	}
	fresh, err := tx.Once(ctx, string(m.Body))
	if err != nil {
		return err
	}
	if !fresh {
		r.t.Errorf("%s was handled twice", m.Body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var name string
	var sender, number int
	fmt.Sscanf(string(m.Body), "%s %d/%d", &name, &sender, &number)
	key := fmt.Sprintf("%s %d", name, sender)
	if !slices.Contains(r.seen[key], number) { // else its transaction was rolled back after us
		r.seen[key] = append(r.seen[key], number)
	}
	return nil
}

// handled waits until that many messages have been handled.
func (r *rolling) handled(n int) {
	r.t.Helper()
	for r.count() < n {
		if r.ctx.Err() != nil {
			r.t.Fatalf("%d of %d messages were handled", r.count(), n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *rolling) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.seen {
		n += len(list)
	}
	return n
}

func (r *rolling) enough() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
}

func (r *rolling) missing() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, n := range r.sent {
		if len(r.seen[key]) != n {
			list = append(list, fmt.Sprintf("%s: %d of %d", key, len(r.seen[key]), n))
		}
	}
	return list
}

// check looks at the order of each key.
func (r *rolling) check() {
	if list := r.missing(); len(list) > 0 {
		r.t.Errorf("not handled: %v", list)
	}
	for key, list := range r.seen {
		if !slices.IsSorted(list) {
			r.t.Errorf("%s was handled in the order %v", key, list)
		}
	}
	if errors.Is(r.ctx.Err(), context.DeadlineExceeded) {
		r.t.Error("it took too long")
	}
}
