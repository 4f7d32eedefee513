package parley_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// TestWorkerTimeout: a worker's limit ends the context of each handler, of messages and of
// groups, and what has failed because of it says so.
func TestWorkerTimeout(t *testing.T) {
	ctx := t.Context()
	patient := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, h := range map[string]parley.Handler{
		"messages": parley.HandlerFunc(func(ctx context.Context, _ *parley.Message) error { return patient(ctx) }),
		"groups":   parley.GroupFunc(func(ctx context.Context, _ []*parley.Message) error { return patient(ctx) }),
	} {
		b, cleanup := shop()
		defer cleanup()
		_, err := b.Post(ctx, "mail", parley.Payload{})
		must(err)
		observer := new(heard)
		o := &parley.WorkerOptions{Timeout: 20 * time.Millisecond, MaxAttempts: 1, MaxReaders: 1, Observer: observer}
		must(sure.Of(b.NewWorker("mail", h, o)).Drain(ctx))
		if len(observer.calls) != 1 || !errors.Is(observer.calls[0].Err, parley.ErrHandlerTimeout) {
			t.Errorf("%s: the observer heard %+v", name, observer.calls)
		}
		parked, err := b.Admin().Parked(ctx, "mail", parley.Place{}, 1)
		must(err)
		if len(parked) != 1 {
			t.Errorf("%s: %d messages are parked, want 1", name, len(parked))
		}
	}
	b, cleanup := shop()
	defer cleanup()
	h := parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil })
	for what, o := range map[string]*parley.WorkerOptions{
		"a limit below zero":                     {Timeout: -1},
		"a weight below zero":                    {Weights: map[string]int{"mail": -1}},
		"a weight above 100":                     {Weights: map[string]int{"mail": 101}},
		"a weight of a queue that is not served": {Weights: map[string]int{"Mail": 1}},
	} {
		if w, err := b.NewWorker("mail", h, o); !errors.Is(err, parley.ErrInvalidOption) || w != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
