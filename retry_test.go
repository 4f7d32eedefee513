package parley_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/frail"
)

// TestRetry: a transaction runs again after errors that say that nothing of it remains, and
// after no others, and not without end.
func TestRetry(t *testing.T) {
	t.Parallel()
	b, cleanup := shop()
	defer cleanup()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for err, want := range map[error]int{
		nil:                     1,
		errors.New("no"):        1,
		parley.ErrConnection:    1, // what was cut off may have happened
		parley.ErrFenced:        1,
		parley.ErrSerialization: parley.Retries,
		fmt.Errorf("mine: %w", parley.ErrSerialization): parley.Retries,
		parley.ErrNotBegun: parley.Retries,
	} {
		runs := 0
		got := b.Retry(ctx, func(tx *parley.Tx) error {
			runs++
			_, e := tx.Post(ctx, "mail", parley.Payload{})
			must(e)
			return err
		})
		if runs != want || !errors.Is(got, err) {
			t.Errorf("%v: %d runs, want %d, and %v", err, runs, want, got)
		}
	}
	queues, err := b.Admin().Queues(ctx, "mail")
	must(err)
	if queues[0].Depth != 1 {
		t.Errorf("%d messages were posted, want the one of the transaction that succeeded", queues[0].Depth)
	}
	runs := 0
	err = b.Retry(ctx, func(*parley.Tx) error { runs++; cancel(); return parley.ErrSerialization })
	if runs != 1 || !errors.Is(err, parley.ErrSerialization) {
		t.Errorf("%d runs after the context has ended, and %v", runs, err)
	}
}

// TestPostAgain: a post by itself begins again when its transaction loses against another one, and after no
// other error.
func TestPostAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	be, err := backend.Open(ctx, "memory:")
	must(err)
	store := frail.New(be)
	b, err := parley.New(ctx, store, &parley.Options{NoMaintenance: true})
	must(err)
	defer b.Close()
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))
	for lost, want := range map[error]int{parley.ErrSerialization: 3, parley.ErrConnection: 1, errors.New("no"): 1} {
		for name, post := range map[string]func() error{
			"Post": func() error { _, err := b.Post(ctx, "mail", parley.Payload{}); return err },
			"PostBatch": func() error {
				_, err := b.PostBatch(ctx, "mail", []parley.Posting{{Options: []parley.PostOption{parley.Key("k")}}})
				return err
			},
		} {
			commits := 0
			store.OnCommit = func() error {
				if commits++; commits < 3 {
					return lost
				}
				return nil
			}
			before, err := b.Admin().Queues(ctx, "mail")
			must(err)
			err = post()
			after, e := b.Admin().Queues(ctx, "mail")
			must(e)
			stored := 0
			if err == nil {
				stored = 1
			}
			if commits != want || (err == nil) != (want == 3) || err != nil && !errors.Is(err, lost) || after[0].Depth-before[0].Depth != stored {
				t.Errorf("%s, after %v: %d commits, want %d; %d posts more; %v", name, lost, commits, want, after[0].Depth-before[0].Depth, err)
			}
		}
	}
}
