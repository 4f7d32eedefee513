package parley_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/memory"
)

// TestValidatorsOfManySenders: a validator runs in the goroutine of its caller, which it may end, however many call at once.
func TestValidatorsOfManySenders(t *testing.T) {
	ctx := t.Context()
	b, err := parley.Open(ctx, "memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.RegisterValidator("strict", func(body []byte) error {
		if strings.HasPrefix(string(body), "end") {
			runtime.Goexit()
		}
		return nil
	})
	if err := b.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	err = b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "jobs"}},
		Types: []parley.MessageType{{Name: "Job", Validation: parley.ValidationFunc, Validator: "strict"}}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var ended, added atomic.Int64
	for i := range 32 {
		all.Go(func() {
			over := false
			defer func() {
				if !over {
					ended.Add(1)
				}
			}()
			for n := range 20 {
				body := fmt.Sprintf("%d: %d", i, n)
				if i%4 == 0 && n == 10 {
					body = "end " + body
				}
				if _, err := b.Post(ctx, "jobs", parley.Payload{Type: "Job", Body: []byte(body)}, parley.Key("k")); err != nil {
					t.Error(err)
				}
				added.Add(1)
			}
			over = true
		})
	}
	all.Wait()
	if ended.Load() != 8 || added.Load() != 24*20+8*10 {
		t.Errorf("%d goroutines ended early, after %d posts of all; want 8, %d", ended.Load(), added.Load(), 24*20+8*10)
	}
}

// oddCommits is a store whose commit of what goes together succeeds, and then reports an error that says nothing of that.
type oddCommits struct {
	backend.Backend
	odd *atomic.Int64
}

func (b oddCommits) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := b.Backend.Begin(ctx)
	if err == nil && backend.IsNoWait(ctx) {
		tx = oddCommit{tx, b.odd}
	}
	return tx, err
}

type oddCommit struct {
	backend.Tx
	odd *atomic.Int64
}

func (tx oddCommit) Commit(ctx context.Context) error {
	tx.odd.Add(1)
	return errors.Join(tx.Tx.Commit(ctx), errors.New("odd"))
}

// TestOddCommits: verbs that may have been committed together are not carried out again.
func TestOddCommits(t *testing.T) {
	ctx := t.Context()
	var odd atomic.Int64
	b, err := parley.New(ctx, oddCommits{memory.New(nil).Open(), &odd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := errors.Join(b.Migrate(ctx), b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "jobs"}}})); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for odd.Load() < 10 {
		var all sync.WaitGroup
		for range 64 {
			calls++
			all.Go(func() { b.Post(ctx, "jobs", parley.Payload{}, parley.Key("k")) })
		}
		all.Wait()
	}
	got := 0
	for got <= calls {
		d, err := b.Receive(ctx, "jobs", &parley.ReceiveOptions{MaxMessages: 1000})
		if errors.Is(err, parley.ErrNoMessage) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += len(d.Messages)
		if err := d.Ack(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got != calls {
		t.Errorf("%d posts became %d messages", calls, got)
	}
}
