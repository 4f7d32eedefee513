package frail_test

import (
	"context"
	"errors"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/frail"
	"github.com/parleymq/parley/internal/memstore"
)

type classifier struct{ backend.Backend }

func (c classifier) Capabilities() backend.Capabilities {
	can := c.Backend.Capabilities()
	can.Classify = func(err error) error { return errors.Join(err, backend.ErrSerialization) }
	return can
}

// TestClassify: what errors of the application's statements mean is the wrapped store's to say.
func TestClassify(t *testing.T) {
	be := memstore.NewStore(memstore.Options{}).Open()
	if got := frail.New(classifier{be}).Capabilities().Classify(errors.New("busy")); !errors.Is(got, backend.ErrSerialization) {
		t.Errorf("%v", got)
	}
	if frail.New(be).Capabilities().Classify != nil {
		t.Errorf("a store that cannot tell says that it can")
	}
}

// TestEnds: a transaction that was cut off, and each one of a process that has died, says why, and has done nothing.
func TestEnds(t *testing.T) {
	ctx := context.Background()
	f := frail.New(memstore.NewStore(memstore.Options{}).Open())
	if err := f.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	begin := func() backend.Tx {
		t.Helper()
		tx, err := f.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	tx, why := begin(), errors.New("cut")
	if fresh, err := tx.Once(ctx, "key", 1); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	f.Cut(why)
	if err := tx.Commit(ctx); err != why || tx.Rollback(ctx) != nil {
		t.Errorf("the commit of a transaction that was cut off: %v", err)
	}
	tx = begin()
	if fresh, err := tx.Once(ctx, "key", 1); !fresh || err != nil {
		t.Errorf("what it had done is there: %v, %v", fresh, err)
	}
	f.Die()
	if err := tx.Commit(ctx); !errors.Is(err, backend.ErrConnection) {
		t.Errorf("the commit of a dead process: %v", err)
	}
	if _, err := f.Begin(ctx); !errors.Is(err, backend.ErrConnection) {
		t.Errorf("a dead process begins: %v", err)
	}
}
