package backendtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
)

// Alone posts by Broker.Post, which has no transaction around its statement, while connections break and callers
// give up. open opens a migrated store through a proxy, and lock keeps others from writing to the table of posts.
func Alone(t *testing.T, server string, open func(t *testing.T, through string) backend.Backend, lock func(t *testing.T) (unlock func())) {
	p, through := Through(t, server)
	ctx := t.Context()
	broker := func() *parley.Broker {
		b, err := parley.New(ctx, open(t, through), &parley.Options{NoMaintenance: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	b, other := broker(), broker()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	post := func(ctx context.Context, body string) error {
		_, err := b.Post(ctx, "q", parley.Payload{Body: []byte(body)})
		return err
	}
	// are receives what has been stored.
	are := func(want ...string) {
		t.Helper()
		var got []string
		for {
			d, err := b.Receive(ctx, "q", nil)
			if errors.Is(err, parley.ErrNoMessage) {
				break
			}
			must(err)
			for _, m := range d.Messages {
				got = append(got, string(m.Body))
			}
			must(d.Ack(ctx))
		}
		if !slices.Equal(got, want) {
			t.Errorf("stored are %q, want %q", got, want)
		}
	}
	const insert = "PARLEY_POST (POST_ID"

	must(post(ctx, "first"))
	must(post(ctx, "second"))
	are("first", "second")

	must(post(ctx, "warm"))
	p.CutAt(false, insert)
	if err := post(ctx, "unsent"); !errors.Is(err, parley.ErrConnection) {
		t.Errorf("cut before the server had it: %v, want ErrConnection", err)
	}
	must(post(ctx, "afterwards"))
	are("warm", "afterwards")

	must(post(ctx, "warm"))
	p.CutAt(true, insert)
	if err := post(ctx, "sent"); !errors.Is(err, parley.ErrConnection) || errors.Is(err, parley.ErrNotBegun) || parley.IsRetryable(err) {
		t.Errorf("cut when the server had it: %v, want ErrConnection, which is not retried", err)
	}
	must(post(ctx, "afterwards"))
	are("warm", "sent", "afterwards") // it was its own commit

	must(other.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "another"}}}))
	must(post(ctx, "with a stale catalog"))
	must(other.Admin().DisableQueue(ctx, "q"))
	if err := post(ctx, "to a queue that is off"); !errors.Is(err, parley.ErrQueueDisabled) {
		t.Errorf("to a queue that is off: %v", err)
	}
	must(other.Admin().EnableQueue(ctx, "q"))
	are("with a stale catalog")

	for _, body := range []string{"0", "1", "2"} { // the first one makes the key
		_, err := b.Post(ctx, "q", parley.Payload{Body: []byte(body)}, parley.Key("k"))
		must(err)
	}
	are("0", "1", "2")

	must(post(ctx, "warm"))
	unlock := lock(t)
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := post(brief, "blocked"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up while it was blocked: %v", err)
	}
	if d := time.Since(begun); d > slow.By(10*time.Second) {
		t.Errorf("giving up took %v", d)
	}
	unlock()
	must(post(ctx, "last"))
	are("warm", "last")
}
