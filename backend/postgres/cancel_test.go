package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres"
)

// TestCancelBesideMaintenance cancels a post that another transaction has locked for a moment,
// as a maintenance job does, and a post that stays locked.
func TestCancelBesideMaintenance(t *testing.T) {
	ctx := t.Context()
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	b, err := parley.New(ctx, open(t, db, postgres.Options{Schema: name}), &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	id, err := b.Post(ctx, "q", parley.Payload{}, parley.After(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	cancel := func() error {
		return b.InTx(ctx, func(tx *parley.Tx) error { return tx.CancelPost(ctx, "q", id) })
	}
	job, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Rollback()
	if _, err := job.Exec("SELECT 1 FROM " + name + ".parley_delayed FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if err := cancel(); !errors.Is(err, parley.ErrNotPending) {
		t.Errorf("cancelled while it was locked: %v", err)
	}
	time.AfterFunc(60*time.Millisecond, func() { job.Rollback() })
	if err := cancel(); err != nil {
		t.Errorf("not cancelled, though it was locked for a moment only: %v", err)
	}
}

// fuse is a context that is cancelled when it has been looked at often enough.
type fuse struct {
	context.Context
	left atomic.Int64
	done chan struct{}
}

func (f *fuse) Done() <-chan struct{} {
	if f.left.Add(-1) == 0 {
		close(f.done)
	}
	return f.done
}

func (f *fuse) Err() error {
	select {
	case <-f.Done():
		return context.Canceled
	default:
		return nil
	}
}

// TestCancelledBeforeCommit cancels Receive around its last statement, which succeeds at times. In that case
// lib/pq closes the connection, and the commit is never sent. Its outcome must not be reported as unknown.
func TestCancelledBeforeCommit(t *testing.T) {
	db := connect(t, "postgres", server(t))
	b, err := parley.New(t.Context(), open(t, db, postgres.Options{Schema: schema(t, db), Pooler: postgres.PoolerAlways}), &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	catalog := parley.Catalog{Queues: []parley.Queue{{Name: "q"}}, Services: []parley.Service{{Name: "S", Queue: "q", Contracts: []string{parley.DefaultContract}}}}
	if err := b.Define(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := b.InTx(t.Context(), func(tx *parley.Tx) error {
			c, err := tx.Begin(t.Context(), "S", "S", nil)
			if err != nil {
				return err
			}
			return c.Send(t.Context(), parley.DefaultType, nil)
		}); err != nil {
			t.Fatal(err)
		}
		for looks, cut := int64(1), true; cut; looks++ {
			ctx := &fuse{Context: t.Context(), done: make(chan struct{})}
			ctx.left.Store(looks)
			d, err := b.Receive(ctx, "q", &parley.ReceiveOptions{Release: parley.BeforeWork})
			if cut = err != nil; !cut {
				err = d.Close()
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled at look %d: %v", looks, err)
			}
		}
	}
}
