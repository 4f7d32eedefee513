package parley_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
	"github.com/parleymq/parley/internal/sure"
)

// outgoingBroker has two services, from and to.
func outgoingBroker(t *testing.T, f func(context.Context, *parley.Outgoing) error) *parley.Broker {
	t.Helper()
	b, err := parley.Open(t.Context(), "memory:", &parley.Options{NoMaintenance: true, Outgoing: f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	err = errors.Join(b.Migrate(t.Context()), b.Define(t.Context(), parley.Catalog{
		Types:     []parley.MessageType{{Name: "m"}},
		Contracts: []parley.Contract{{Name: "c", Messages: []parley.ContractEntry{{Type: "m", SentBy: parley.ByInitiator}}}},
		Queues:    []parley.Queue{{Name: "in"}, {Name: "out"}},
		Services: []parley.Service{
			{Name: "from", Queue: "out", Recycles: []parley.Recycle{{Contract: "c"}}},
			{Name: "to", Queue: "in", Contracts: []string{"c"}},
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOutgoing: each message passes the function once, in its order, whichever verb sends it, and leaves with the
// headers that the function leaves. What the program gave is not changed.
func TestOutgoing(t *testing.T) {
	ctx := t.Context()
	var seen []string
	errNo := errors.New("no")
	b := outgoingBroker(t, func(_ context.Context, o *parley.Outgoing) error {
		if string(o.Body) == "never" {
			return errNo
		}
		if string(o.Body) == "reserved" {
			o.Headers["parley-x"] = "1"
		}
		o.Headers["trace"] = "t"
		seen = append(seen, fmt.Sprintln(o.Queue, o.Service, o.FarService, o.Type, string(o.Body), o.Headers))
		return nil
	})
	sender, err := b.NewSender(ctx, &parley.SenderOptions{From: "from", To: "to", Contract: "c", MaxMessages: 1})
	must(err)
	given := map[string]string{"mine": "1"}
	p := func(body string) parley.Payload {
		return parley.Payload{Type: "m", Body: []byte(body), Headers: given}
	}
	send := func(body string) error {
		return b.InTx(ctx, func(tx *parley.Tx) error {
			c, err := tx.Begin(ctx, "from", "to", &parley.DialogOptions{Contract: "c"})
			if err != nil {
				return err
			}
			return tx.SendBatch(ctx, []parley.Sending{{To: c, Payload: p("sent")}, {To: c, Payload: p(body)}})
		})
	}
	recycle := func(body string) error {
		return b.InTx(ctx, func(tx *parley.Tx) error { return sender.SendBatch(ctx, tx, []parley.Payload{p("recycled"), p(body)}) })
	}
	post := func(body string) error {
		return b.InTx(ctx, func(tx *parley.Tx) error {
			_, err := tx.PostBatch(ctx, "in", []parley.Posting{{Payload: p("posted")}, {Payload: p(body)}})
			return err
		})
	}
	for _, f := range []func(string) error{send, recycle, post} {
		for body, want := range map[string]error{"never": errNo, "reserved": parley.ErrInvalidName} {
			if err := f(body); !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", body, err, want)
			}
		}
	}
	seen = nil
	must(send("sent too"))
	must(recycle("recycled too"))
	must(post("posted too"))
	left := map[string]string{"mine": "1", "trace": "t"}
	want := []string{
		" from to m sent", " from to m sent too", " from to m recycled", " from to m recycled too", "in   m posted", "in   m posted too",
	}
	for i := range want {
		want[i] = fmt.Sprintln(want[i], left)
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen: %q", seen)
	}
	if !maps.Equal(given, map[string]string{"mine": "1"}) {
		t.Errorf("the program's own headers became %v", given)
	}
	for n := 0; n < len(want); {
		d, err := b.Receive(ctx, "in", nil)
		must(err)
		for _, m := range d.Messages {
			if m.Type == parley.EndOfStream {
				continue // it is Parley's own, and passes nothing
			}
			if n++; !maps.Equal(m.Headers, left) {
				t.Errorf("%q arrived with the headers %v", m.Body, m.Headers)
			}
		}
		must(d.Ack(ctx))
	}
}

// TestRequeueKeepsHeaders: a dead letter that is put back passes no function again.
func TestRequeueKeepsHeaders(t *testing.T) {
	ctx := t.Context()
	calls := 0
	b := outgoingBroker(t, func(_ context.Context, o *parley.Outgoing) error {
		calls++
		o.Headers["call"] = string(rune('0' + calls))
		return nil
	})
	if _, err := b.Post(ctx, "in", parley.Payload{}); err != nil {
		t.Fatal(err)
	}
	observer := new(heard)
	h := parley.HandlerFunc(func(context.Context, *parley.Message) error { return parley.DeadLetter(errors.New("broken")) })
	if err := sure.Of(b.NewWorker("in", h, &parley.WorkerOptions{Observer: observer})).Drain(ctx); err != nil {
		t.Fatal(err)
	}
	e := observer.calls[0]
	if !maps.Equal(e.Headers, map[string]string{"call": "1"}) || !slices.Equal(e.IDs, []parley.ID{e.ID}) {
		t.Errorf("the observer heard %+v", e)
	}
	list, err := b.Admin().DeadLetters(ctx, "in", parley.Place{}, 1)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d dead letters, %v", len(list), err)
	}
	if _, err := b.Admin().RequeueDead(ctx, list[0]); err != nil {
		t.Fatal(err)
	}
	d, err := b.Receive(ctx, "in", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := d.Messages[0].Headers; !maps.Equal(got, map[string]string{"call": "1"}) || calls != 1 {
		t.Errorf("after %d calls it came back with %v", calls, got)
	}
}
