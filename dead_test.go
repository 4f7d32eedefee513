package parley_test

import (
	"context"
	"errors"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
	"github.com/parleymq/parley/internal/sure"
)

// TestRequeueSummary: a dead letter that was listed without its body is not posted again without it.
func TestRequeueSummary(t *testing.T) {
	ctx := t.Context()
	b, err := parley.Open(ctx, "memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(b.Migrate(ctx))
	check(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))
	_, err = b.Post(ctx, "mail", parley.Payload{Body: []byte("hello")})
	check(err)
	dies := parley.HandlerFunc(func(context.Context, *parley.Message) error { return parley.DeadLetter(errors.New("no")) })
	check(sure.Of(b.NewWorker("mail", dies, nil)).Drain(ctx))

	brief, err := b.Admin().DeadSummaries(ctx, "mail", parley.Place{}, 10)
	check(err)
	if len(brief) != 1 || brief[0].Bytes != 5 || brief[0].Message.Body != nil || brief[0].Reason == "" {
		t.Fatalf("summaries %+v", brief)
	}
	if _, err := b.Admin().RequeueDead(ctx, brief[0]); !errors.Is(err, parley.ErrInvalidOption) {
		t.Errorf("a summary is requeued: %v", err)
	}
	whole, err := b.Admin().DeadLetters(ctx, "mail", parley.Place{}, 10)
	check(err)
	if len(whole) != 1 || string(whole[0].Message.Body) != "hello" {
		t.Fatalf("dead letters %+v", whole)
	}
	_, err = b.Admin().RequeueDead(ctx, whole[0])
	check(err)
}
