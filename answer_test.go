package parley_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// ordered begins conversations with an order each, and returns the handles of their beginners.
func ordered(ctx context.Context, b *parley.Broker, n int) (handles []parley.ID) {
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		for i := range n {
			c, err := tx.Begin(ctx, "Shop", "Billing", &parley.DialogOptions{Contract: "Orders"})
			if err != nil {
				return err
			}
			handles = append(handles, c.Handle())
			if err := c.Send(ctx, "Order", fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	}))
	return handles
}

// confirmed takes what has come to the shop, and returns the bodies in their order.
func confirmed(ctx context.Context, b *parley.Broker) (bodies []string) {
	for {
		d, err := b.Receive(ctx, "shop", nil)
		if err != nil {
			return bodies
		}
		for _, m := range d.Messages {
			bodies = append(bodies, string(m.Body))
		}
		must(d.Ack(ctx))
	}
}

// TestManyReplies: a handler may reply more often than a batch notes, and writes in between. Everything arrives in
// its order, and Options.Outgoing has seen each reply once.
func TestManyReplies(t *testing.T) {
	ctx := t.Context()
	first, cleanup := shop()
	defer cleanup()
	var shown atomic.Int64
	b, err := parley.Open(ctx, "sqlite:"+databaseOf(t, first), &parley.Options{Outgoing: func(_ context.Context, o *parley.Outgoing) error {
		if o.Type == "Confirmation" {
			shown.Add(1)
			o.Headers["number"] = fmt.Sprint(shown.Load())
		}
		return nil
	}})
	must(err)
	defer b.Close()
	ordered(ctx, b, 3)
	const each = 2500
	w := sure.Of(b.NewWorker("billing", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		for i := range each {
			body := fmt.Appendf(nil, "%s %04d", m.Body, i)
			if err := m.Reply(ctx, "Confirmation", body); err != nil {
				return err
			}
			clear(body) // it is the handler's
		}
		return m.End(ctx)
	}), &parley.WorkerOptions{MaxReaders: 1}))
	must(w.Drain(ctx))
	got := confirmed(ctx, b)
	got = slices.DeleteFunc(got, func(s string) bool { return s == "" }) // the ends
	if len(got) != 3*each || shown.Load() != 3*each {
		t.Errorf("%d replies came, and %d were shown, want %d", len(got), shown.Load(), 3*each)
	}
	slices.SortStableFunc(got, func(a, b string) int { return int(a[0]) - int(b[0]) })
	for i, body := range got {
		if want := fmt.Sprintf("%d %04d", i/each, i%each); body != want {
			t.Fatalf("reply %d is %q, want %q", i, body, want)
		}
	}
}

// TestReplyBeforeSlowHandler: a reply does not wait for a slow handler behind it in the batch. By then batches have
// grown, so that both are in one.
func TestReplyBeforeSlowHandler(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	const orders = 50
	ordered(ctx, b, orders)
	came := make(chan struct{})
	slow := fmt.Sprint(orders - 1)
	w := sure.Of(b.NewWorker("billing", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		if string(m.Body) == slow {
			select {
			case <-came:
			case <-time.After(20 * time.Second):
				t.Error("the replies before a slow handler did not come within 20 s")
			}
		}
		return m.Reply(ctx, "Confirmation", m.Body)
	}), &parley.WorkerOptions{MaxReaders: 1, BatchTime: 20 * time.Millisecond}))
	go func() {
		defer close(came)
		for range orders - 1 {
			d, err := b.Receive(ctx, "shop", &parley.ReceiveOptions{Wait: 20 * time.Second})
			if err == nil {
				err = d.Ack(ctx)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	must(w.Drain(ctx))
	if rest := confirmed(ctx, b); !slices.Equal(rest, []string{slow}) {
		t.Errorf("then %q came, want the reply of the slow handler", rest)
	}
}

// TestReplyOfFailedBatch: the reply to a message that is not acknowledged is not sent, and that of the next attempt is:
// whether its lease was lost, or the acknowledgement failed and the message was given back.
func TestReplyOfFailedBatch(t *testing.T) {
	for _, fails := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		store, b := fenced(t)
		store.fails.Store(fails)
		ordered(ctx, b, 3)
		heard := settled{events: make(chan parley.SettleEvent, 1000)}
		var calls atomic.Int64
		w := sure.Of(b.NewWorker("billing", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			calls.Add(1)
			return m.Reply(ctx, "Confirmation", m.Body)
		}), &parley.WorkerOptions{Observer: heard}))
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		for lost := 0; lost < 3; {
			e := <-heard.events
			lost += e.Lost
			if e.Err != nil {
				lost++
			}
		}
		if got := confirmed(ctx, b); len(got) != 0 {
			t.Errorf("fails is %v: %q came, though no message was acknowledged", fails, got)
		}
		store.over.Store(true)
		for done := 0; done < 3; {
			e := <-heard.events
			done += e.Done
		}
		stop()
		must(<-ended)
		got := confirmed(t.Context(), b)
		if slices.Sort(got); !slices.Equal(got, []string{"0", "1", "2"}) || calls.Load() < 6 {
			t.Errorf("fails is %v: %q came after %d calls, want each once after six at least", fails, got, calls.Load())
		}
	}
}

// TestRefusedReply: the rest of a batch is not handled again if the replies of some of its groups are refused.
func TestRefusedReply(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	const orders = 30
	want := make(map[string]int)
	for i, handle := range ordered(ctx, b, orders) {
		want[fmt.Sprint(i)] = 1
		if i%5 == 0 {
			want[fmt.Sprint(i)] = 2
			must(b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).End(ctx) }))
		}
	}
	calls := make(map[string]int)
	var refused int
	w := sure.Of(b.NewWorker("billing", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		if m.Type == parley.EndDialog {
			return m.End(ctx)
		}
		calls[string(m.Body)]++
		err := m.Reply(ctx, "Confirmation", m.Body)
		if errors.Is(err, parley.ErrFarEnded) {
			refused++
			return nil
		}
		return err
	}), &parley.WorkerOptions{MaxReaders: 1, MaxAttempts: 1}))
	must(w.Drain(ctx))
	if got := confirmed(ctx, b); len(got) != orders*4/5 || refused != orders/5 {
		t.Errorf("%d orders were confirmed, and %d replies were refused, want %d and %d", len(got), refused, orders*4/5, orders/5)
	}
	if !maps.Equal(calls, want) {
		t.Errorf("the handler was called %v times, want %v", calls, want)
	}
}

// TestRefusedReplyBeforeTx: a handler that asks for its transaction behind a reply that is refused is called again, and
// gets the error of the reply. No attempt is charged.
func TestRefusedReplyBeforeTx(t *testing.T) {
	for _, n := range []int{1, 20} {
		ctx := t.Context()
		b, cleanup := shop()
		defer cleanup()
		for i, handle := range ordered(ctx, b, n) {
			if i%3 == 0 {
				must(b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).End(ctx) }))
			}
		}
		var refused, calls int
		w := sure.Of(b.NewWorker("billing", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			if m.Type == parley.EndDialog {
				return m.End(ctx)
			}
			if m.Attempt != 1 {
				t.Errorf("attempt %d", m.Attempt)
			}
			calls++
			if err := m.Reply(ctx, "Confirmation", m.Body); err != nil {
				refused++
			}
			tx, err := m.Tx(ctx)
			if err == nil {
				_, err = tx.Post(ctx, "mail", parley.Payload{Body: m.Body})
			}
			return err
		}), &parley.WorkerOptions{MaxReaders: 1, MaxAttempts: 1}))
		must(w.Drain(ctx))
		ended := (n + 2) / 3
		if got := confirmed(ctx, b); len(got) != n-ended || refused != ended {
			t.Errorf("of %d orders %d were confirmed, and %d replies were refused in %d calls, want %d and %d", n, len(got), refused, calls, n-ended, ended)
		}
		q, err := b.Admin().Queues(ctx)
		must(err)
		for _, s := range q {
			if s.Parked != 0 || s.Name == "mail" && s.Depth != n {
				t.Errorf("%+v, want %d letters", s, n)
			}
		}
	}
}

// TestReplyAtOnce: where messages are handled one by one, Reply returns the error itself, and the handler is not
// called again.
func TestReplyAtOnce(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	for _, handle := range ordered(ctx, b, 3) {
		must(b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(handle).End(ctx) }))
	}
	var refused, calls int
	w := sure.Of(b.NewWorker("billing", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		if m.Type == parley.EndDialog {
			return m.End(ctx)
		}
		calls++
		if err := m.Reply(ctx, "Confirmation", m.Body); err != nil {
			refused++
		}
		return nil
	}), &parley.WorkerOptions{MaxReaders: 1, MaxBatch: 1}))
	must(w.Drain(ctx))
	if refused != 3 || calls != 3 {
		t.Errorf("%d replies were refused in %d calls, want 3 in 3", refused, calls)
	}
}
