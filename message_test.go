package parley_test

import (
	"context"
	"errors"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// heard is what an observer was told of.
type heard struct {
	parley.NopObserver
	calls []parley.HandleEvent
}

func (h *heard) Handled(_ context.Context, e parley.HandleEvent) { h.calls = append(h.calls, e) }

// TestMessageQueue: a message says from which queue it came, in whatever way it was received.
func TestMessageQueue(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "fax"}}}))
	post := func(queue string) (id parley.ID) {
		id, err := b.Post(ctx, queue, parley.Payload{}, parley.Key("k"))
		must(err)
		return id
	}
	says := func(how, want string, m *parley.Message, err error) {
		t.Helper()
		must(err)
		if m.Queue != want {
			t.Errorf("%s: it came from %q, want %q", how, m.Queue, want)
		}
	}
	post("mail")
	post("mail")
	d, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{MaxMessages: 1})
	must(err)
	says("Receive", "mail", d.Messages[0], err)
	more, err := d.More(ctx, 1)
	must(err)
	says("More", "mail", more[0], err)
	must(d.Park(ctx, errors.New("looked at")))
	parked, err := b.Admin().PeekParked(ctx, "mail", d.Group, 1)
	must(err)
	says("PeekParked", "mail", parked[0], err)
	must(b.Admin().Unpark(ctx, d.Group))
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		list, err := tx.Receive(ctx, "mail", nil)
		says("Tx.Receive", "mail", list[0], err)
		return nil
	}))
	want := map[parley.ID]string{post("mail"): "mail", post("fax"): "fax"}
	observer := new(heard)
	handler := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		says("a worker of both", want[m.ID], m, nil)
		return nil
	})
	must(sure.Of(b.NewWorker("mail", handler, &parley.WorkerOptions{Also: []string{"fax"}, MaxReaders: 1, Observer: observer})).Drain(ctx))
	for _, e := range observer.calls {
		if e.Queue != want[e.ID] || e.Queue == "" {
			t.Errorf("the observer heard %+v, want queue %q", e, want[e.ID])
		}
	}
	if len(observer.calls) != 2 {
		t.Errorf("the observer heard %d calls, want 2", len(observer.calls))
	}
}
