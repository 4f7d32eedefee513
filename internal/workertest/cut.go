package workertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/proxy"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// Cut runs workers, one after the other, whose connections are cut again and again, from their
// start on. direct and through are on one database. A message may be tried once, and none is to blame.
func Cut(t *testing.T, p *proxy.Proxy, direct, through backend.Backend) {
	const messages, cuts = 60, 8 // ten failures that are not a message's fault count as one attempt
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	observer, err := parley.New(ctx, direct, nil)
	must(err)
	defer observer.Close()
	must(observer.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "cut"}, {Name: "effects"}}}))
	for i := range messages {
		_, err := observer.Post(ctx, "cut", parley.Payload{Body: fmt.Append(nil, i)})
		must(err)
	}
	b, err := parley.New(ctx, through, nil)
	must(err)
	defer b.Close()
	var mu sync.Mutex
	worst := 0
	w := sure.Of(b.NewWorker("cut", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		mu.Lock()
		worst = max(worst, m.Attempt)
		mu.Unlock()
		tx, err := m.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Post(ctx, "effects", parley.Payload{Body: m.Body})
		time.Sleep(5 * time.Millisecond)
		return err
	}), &parley.WorkerOptions{MaxReaders: 4, MaxAttempts: 1}))
	run, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	p.Cut() // what New has opened is broken when the worker begins
	go func() { over <- w.Run(run) }()
	for range cuts {
		time.Sleep(20 * time.Millisecond)
		p.Cut()
	}
	status := func(queue string) parley.QueueStatus {
		t.Helper()
		q, err := observer.Admin().Queues(ctx, queue)
		must(err)
		return q[0]
	}
	slow.Eventually(t, 30*time.Second, "all messages are handled, or the worker has ended", func() (any, bool) {
		n := status("effects").Depth
		return fmt.Sprintf("%d of %d, in the queue %+v", n, messages, status("cut")), n >= messages || len(over) > 0 || status("cut").Parked > 0
	})
	stop()
	must(<-over)
	if n, q := status("effects").Depth, status("cut"); n != messages || q.Depth+q.Parked > 0 || worst > 1 {
		t.Errorf("%d effects of %d messages, at attempt %d at most; left: %+v", n, messages, worst, q)
	}
}
