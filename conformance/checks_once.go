package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "X10", Name: "one of many is told that a key is new", Run: checkOnceRaced},
		check{ID: "X10", Name: "a key is forgotten after its time, and not before", Run: checkOnceForgotten},
	)
}

// onceOf asks about a key in a new transaction, and ends it. If the transaction loses
// against another one, it runs again.
func onceOf(e *env, b *parley.Broker, key string, end error) bool {
	var fresh bool
	try := func() error {
		return b.InTx(e.Ctx, func(tx *parley.Tx) (err error) {
			if fresh, err = tx.Once(e.Ctx, key); err != nil {
				return err
			}
			time.Sleep(2 * time.Millisecond) // in which others ask
			return end
		})
	}
	err := try()
	for err != nil && parley.IsRetryable(err) {
		err = try()
	}
	if !errors.Is(err, end) {
		e.Fatalf("once %s: %v", key, err)
	}
	return fresh
}

func checkOnceRaced(e *env) {
	brokers := []*parley.Broker{e.Broker(nil), e.Broker(nil)}
	undone := e.Name("undone")
	if !onceOf(e, brokers[0], undone, errUndo) {
		e.Errorf("the first is told that the key is known")
	}
	for round := range 10 {
		key := e.Name(fmt.Sprint("key ", round))
		var fresh atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				// Every other one rolls back. Until it has, who asks meanwhile waits.
				if i%2 == 0 {
					onceOf(e, brokers[i/2%2], key, errUndo)
				} else if onceOf(e, brokers[i/2%2], key, nil) {
					fresh.Add(1)
				}
			})
		}
		all.Wait()
		if n := fresh.Load(); n != 1 {
			e.Errorf("round %d: %d transactions that were committed were told that the key is new, want 1", round, n)
		}
		if onceOf(e, brokers[0], key, nil) {
			e.Errorf("round %d: the key is new afterwards", round)
		}
	}
	if !onceOf(e, brokers[1], undone, nil) {
		e.Errorf("a key whose transaction was rolled back is known")
	}
}

func checkOnceForgotten(e *env) {
	// The handle beside the Broker does the maintenance job by hand; every other one may too.
	be := e.Handle()
	key, short := e.Name("kept"), e.Name("short")
	b := e.Broker(nil)
	if !onceOf(e, b, key, nil) || !onceOf(e, e.Broker(&parley.Options{KeepOnce: 10 * time.Millisecond}), short, nil) {
		e.Fatalf("a key is known before it was recorded")
	}
	if !e.Soon(10*time.Second, func() bool {
		_, err := be.Maintain(e.Ctx, backend.JobOnce, 100)
		e.Must(err)
		return onceOf(e, b, short, errUndo)
	}) {
		e.Errorf("a key is still known long after its time")
	}
	if onceOf(e, b, key, nil) {
		e.Errorf("a key is new again before its time is over")
	}
}
