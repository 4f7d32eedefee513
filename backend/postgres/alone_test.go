package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func TestAlone(t *testing.T) {
	for name, verb := range map[string]func(*testing.T, string, func(*testing.T, string) backend.Backend, func(*testing.T, string) func()){
		"posts": backendtest.Alone, "batches": backendtest.AloneBatches, "sends": backendtest.AloneSends,
	} {
		for _, driver := range []string{"postgres", "pgx"} {
			t.Run(name+" by "+driver, func(t *testing.T) {
				direct := connect(t, "postgres", server(t))
				own := schema(t, direct)
				verb(t, server(t), func(t *testing.T, through string) backend.Backend {
					return open(t, connect(t, driver, through), postgres.Options{Schema: own})
				}, func(t *testing.T, table string) func() {
					tx, err := direct.BeginTx(t.Context(), nil)
					if err == nil {
						_, err = tx.Exec("LOCK TABLE " + own + "." + table + " IN EXCLUSIVE MODE")
					}
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { tx.Rollback() })
					return func() { tx.Rollback() }
				})
			})
		}
	}
}

// TestAloneStrictly sends on a conversation, and posts with a key, that others use all the time, in sessions above READ
// COMMITTED. There a statement by itself that has waited for another transaction must lose.
func TestAloneStrictly(t *testing.T) {
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) { aloneStrictly(t, driver) })
	}
}

func aloneStrictly(t *testing.T, driver string) {
	ctx := t.Context()
	db := connect(t, driver, with(t, server(t), "default_transaction_isolation", "serializable"))
	b, err := parley.New(ctx, open(t, db, postgres.Options{}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	err = b.Define(ctx, parley.Catalog{
		Contracts: []parley.Contract{{Name: "Talk", Messages: []parley.ContractEntry{{Type: parley.DefaultType, SentBy: parley.ByAny}}}},
		Queues:    []parley.Queue{{Name: "own"}, {Name: "q"}},
		Services:  []parley.Service{{Name: "Sender", Queue: "own"}, {Name: "Receiver", Queue: "q", Contracts: []string{"Talk"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var handle parley.ID
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Sender", "Receiver", &parley.DialogOptions{Contract: "Talk"})
		if err == nil {
			handle, err = c.Handle(), c.Send(ctx, parley.DefaultType, nil)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	payload := parley.Payload{Type: parley.DefaultType}
	for name, verbs := range map[string]struct {
		alone  func() error
		within func(tx *parley.Tx) error
	}{
		"send": {
			func() error { return b.Send(ctx, handle, payload) },
			func(tx *parley.Tx) error { return tx.Conversation(handle).SendPayload(ctx, payload) }},
		"post": {
			func() error { _, err := b.Post(ctx, "q", payload, parley.Key("k")); return err },
			func(tx *parley.Tx) error { _, err := tx.Post(ctx, "q", payload, parley.Key("k")); return err }},
	} {
		var others sync.WaitGroup
		var over atomic.Bool
		for range 2 { // there is always one to wait for
			others.Go(func() {
				for !over.Load() {
					err := b.InTx(ctx, func(tx *parley.Tx) error {
						err := verbs.within(tx)
						time.Sleep(10 * time.Millisecond)
						return err
					})
					if err != nil {
						t.Errorf("%s in a transaction: %v", name, err)
						return
					}
				}
			})
		}
		for range 20 {
			if err := verbs.alone(); err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
		over.Store(true)
		others.Wait()
	}
}
