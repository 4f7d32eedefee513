package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/parleymq/parley"
)

func init() {
	add(
		Check{ID: "A20", Name: "handlers that write on the side", Run: checkSideWrites},
	)
}

// checkSideWrites has handlers post outside their transaction, before they ask for
// it and after that, with messages of one group and of several in a batch.
func checkSideWrites(e *Env) {
	for _, hold := range e.Holds() {
		w := e.another()
		bodies := numbered("%02d", 12)
		w.posts([]string{"a", "b"}, bodies...)
		var mu sync.Mutex
		after := make(map[error]int)
		side := func(ctx context.Context, body string) error {
			_, err := w.B.Post(ctx, w.CQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key(body))
			return err
		}
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 2, Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
			if err := side(ctx, "before "+string(m.Body)); err != nil {
				return err
			}
			if err := w.effect(ctx, m); err != nil {
				return err
			}
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			nested := w.B.InTx(derived, func(tx *parley.Tx) error {
				_, err := tx.Post(w.Ctx, w.CQ, parley.Payload{Type: w.Any, Body: m.Body}, parley.Key("nested"))
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			after[wouldDeadlock(e, side(derived, "after "+string(m.Body)))]++
			after[wouldDeadlock(e, nested)]++
			return nil
		})
		each := 4 // before, the effect, nested and after
		if !e.HoldsInTransaction() {
			each = 2
		}
		got := w.effects(each * len(bodies))
		r.Stop()
		for _, body := range bodies {
			if n := len(got["before "+body]); n != 1 {
				e.Errorf("hold %v: message %s was handled %d times", hold, body, n)
			}
		}
		if effects := slices.Concat(got["a"], got["b"]); len(effects) != len(bodies) {
			e.Errorf("hold %v: the effects are %q", hold, effects)
		}
		if refused := after[parley.ErrWouldDeadlock]; (refused > 0) == e.HoldsInTransaction() || len(after) != 1 {
			e.Errorf("hold %v: of the verbs after Message.Tx %d were refused and %d carried out", hold, refused, after[nil])
		}
	}
}

// wouldDeadlock returns nil or ErrWouldDeadlock, and fails the check for any other
// error.
func wouldDeadlock(e *Env, err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, parley.ErrWouldDeadlock):
		e.Errorf("a verb with the context of a handler: %v", err)
	}
	return parley.ErrWouldDeadlock
}
