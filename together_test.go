package parley_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
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
