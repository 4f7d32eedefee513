package postgres_test

import (
	"errors"
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
