package workertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// silent is a store whose server does not say that it ends transactions, as a proxy
// does not that cuts connections.
type silent struct{ backend.Backend }

func (s silent) Capabilities() backend.Capabilities {
	c := s.Backend.Capabilities()
	c.TransactionLimiter = nil
	return c
}

// CutShort has workers handle messages where the server ends transactions that are idle
// for less time than a handler takes. Each has to be handled and gone, or be charged.
func CutShort(t *testing.T, setting string, takes time.Duration, open func(*testing.T) backend.Backend) {
	t.Run("told", func(t *testing.T) {
		t.Parallel()
		b := limited(t, open(t))
		if n := b.drain(t, nil, sleeps(takes)); n != jobs {
			t.Errorf("%d messages were handled %d times", jobs, n)
		}
		b.doctor(t, setting)
		b.explicit(t)
	})
	t.Run("untold", func(t *testing.T) {
		t.Parallel()
		b := limited(t, silent{open(t)})
		if n := b.drain(t, nil, sleeps(takes)); n > 5*jobs {
			t.Errorf("%d messages were handled %d times", jobs, n)
		}
	})
	t.Run("in its transaction", func(t *testing.T) {
		t.Parallel()
		b := limited(t, open(t))
		handler := func(ctx context.Context, m *parley.Message) error {
			if _, err := m.Tx(ctx); err != nil {
				return err
			}
			return sleeps(takes)(ctx, m)
		}
		b.post(t)
		n := b.work(t, &parley.WorkerOptions{MaxAttempts: 1, Lease: 3 * time.Second}, handler, func(q parley.QueueStatus) bool { return q.Parked == jobs })
		if n < 2*jobs || n > 12*jobs {
			t.Errorf("%d messages are parked after %d calls: ten failures should count as one attempt", jobs, n)
		}
	})
}

const jobs = 2

type limitedBroker struct{ *parley.Broker }

func limited(t *testing.T, be backend.Backend) limitedBroker {
	b, err := parley.New(t.Context(), be, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	for range 5 { // the server may end a step that takes too long, and the next call goes on behind the others
		if err = b.Migrate(t.Context()); !errors.Is(err, parley.ErrConnection) {
			break
		}
	}
	if err == nil {
		err = b.Define(t.Context(), parley.Catalog{Types: []parley.MessageType{{Name: "job"}}, Queues: []parley.Queue{{Name: "jobs"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return limitedBroker{b}
}

func sleeps(d time.Duration) parley.HandlerFunc {
	return func(ctx context.Context, _ *parley.Message) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b limitedBroker) post(t *testing.T) {
	for range jobs {
		if _, err := b.Post(t.Context(), "jobs", parley.Payload{Type: "job"}); err != nil {
			t.Fatal(err)
		}
	}
}

// work runs a worker until the queue is done, and returns how often the handler was
// called.
func (b limitedBroker) work(t *testing.T, o *parley.WorkerOptions, h parley.HandlerFunc, done func(parley.QueueStatus) bool) int {
	t.Helper()
	var calls atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- sure.Of(b.NewWorker("jobs", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			calls.Add(1)
			return h(ctx, m)
		}), o)).Run(ctx)
	}()
	defer func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}()
	slow.Eventually(t, 2*time.Minute, "the queue is done", func() (any, bool) {
		q, err := b.Admin().Queues(t.Context(), "jobs")
		return func() any {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			return fmt.Sprintf("%+v, %v, after %d calls; goroutines:\n%s", q, err, calls.Load(), stacks)
		}, err == nil && done(q[0])
	})
	return int(calls.Load())
}

func (b limitedBroker) drain(t *testing.T, o *parley.WorkerOptions, h parley.HandlerFunc) int {
	t.Helper()
	b.post(t)
	return b.work(t, o, h, func(q parley.QueueStatus) bool { return q.Depth == 0 })
}

// doctor names the setting. The server may end a look as well, while the machine is busy; it is made again then.
func (b limitedBroker) doctor(t *testing.T, setting string) {
	t.Helper()
	list, err := doctor.Diagnose(t.Context(), b.Broker, "")
	for try := 1; errors.Is(err, parley.ErrConnection) && try < 20; try++ {
		list, err = doctor.Diagnose(t.Context(), b.Broker, "")
	}
	if err != nil {
		t.Error(err)
	}
	for _, f := range list {
		if f.Code == backend.WarnTimeout && len(f.Text) > len(setting) && f.Text[:len(setting)] == setting {
			return
		}
	}
	t.Errorf("doctor does not name %s: %v", setting, list)
}

// explicit: who insists on a hold in a transaction is told that there is none, and who
// does not gets a lease.
func (b limitedBroker) explicit(t *testing.T) {
	t.Helper()
	b.post(t)
	w := sure.Of(b.NewWorker("jobs", sleeps(0), &parley.WorkerOptions{Hold: parley.HoldTransaction}))
	if err := w.Drain(t.Context()); !errors.Is(err, parley.ErrTransactionLimit) {
		t.Errorf("a worker that insists on transactions: %v", err)
	}
	_, err := b.Receive(t.Context(), "jobs", &parley.ReceiveOptions{Hold: parley.HoldTransaction})
	if !errors.Is(err, parley.ErrTransactionLimit) {
		t.Errorf("a delivery that insists on a transaction: %v", err)
	}
	d, err := b.Receive(t.Context(), "jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	time.Sleep(1500 * time.Millisecond)
	if err := d.Ack(t.Context()); err != nil {
		t.Errorf("a delivery that is idle for longer than a transaction may be: %v", err)
	}
}
