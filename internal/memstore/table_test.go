package memstore

import (
	"cmp"
	"maps"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// TestVisibility checks who sees which version of a row, and what an undo
// leaves of it.
func TestVisibility(t *testing.T) {
	b := newBench(t, "")
	rows := &table[string, int]{compare: cmp.Compare[string]}
	see := func(who string, tx *Tx, want map[string]int) {
		t.Helper()
		if got := maps.Collect(rows.from(tx, "")); !maps.Equal(got, want) {
			t.Errorf("%s sees %v, want %v", who, got, want)
		}
		for k, v := range want {
			if got, ok := rows.get(tx, k); !ok || got != v {
				t.Errorf("%s gets %d, %v for %s, want %d", who, got, ok, k, v)
			}
		}
	}
	one, two := b.begin(), b.begin()
	rows.put(one, "a", 1)
	rows.put(one, "b", 1)
	see("the writer", one, map[string]int{"a": 1, "b": 1})
	see("another", two, map[string]int{})
	see("an onlooker", nil, map[string]int{})
	if !rows.busy(two, "a") || rows.busy(one, "a") {
		t.Error("a row that is being made is busy for all but its maker")
	}
	b.must(one.Commit(ctx))
	see("another, after the commit", two, map[string]int{"a": 1, "b": 1})

	// Savepoints: the inner changes go, the outer stay.
	one = b.begin()
	rows.put(one, "a", 2)
	b.must(one.Savepoint(ctx, "s"))
	rows.put(one, "a", 3)
	rows.delete(one, "b")
	rows.put(one, "c", 3)
	see("the writer", one, map[string]int{"a": 3, "c": 3})
	see("another", two, map[string]int{"a": 1, "b": 1})
	b.must(one.RollbackTo(ctx, "s"))
	see("the writer, rolled back to s", one, map[string]int{"a": 2, "b": 1})
	rows.put(one, "c", 4)
	b.must(one.RollbackTo(ctx, "s")) // it is still there
	see("the writer, again", one, map[string]int{"a": 2, "b": 1})
	b.must(one.Release(ctx, "s"))
	if one.RollbackTo(ctx, "s") == nil {
		t.Error("a released savepoint is gone")
	}

	// A delete and a rollback.
	b.must(one.Rollback(ctx))
	see("all, after the rollback", nil, map[string]int{"a": 1, "b": 1})
	one = b.begin()
	if !rows.delete(one, "a") || rows.delete(one, "a") {
		t.Error("a row can be deleted once")
	}
	if rows.delete(two, "a") {
		t.Error("what another is deleting counts as gone")
	}
	if !rows.removedBy(one, "a") || rows.removedBy(two, "a") {
		t.Error("who deleted a row knows")
	}
	see("another", two, map[string]int{"a": 1, "b": 1})
	b.must(one.Commit(ctx))
	see("another, after the commit", two, map[string]int{"b": 1})

	// Two writers of one row: the last to commit wins, and one version is left.
	one = b.begin()
	rows.put(one, "b", 10)
	rows.put(two, "b", 20)
	b.must(two.Commit(ctx))
	b.must(one.Commit(ctx))
	see("all", nil, map[string]int{"b": 10})
	if len(rows.versions) != 1 {
		t.Errorf("%d versions are left", len(rows.versions))
	}
}

func TestTransactionIsOver(t *testing.T) {
	b := newBench(t, "")
	tx := b.begin()
	b.must(tx.Commit(ctx))
	b.must(tx.Rollback(ctx))
	b.want(tx.Commit(ctx), backend.ErrTxDone)
	_, err := tx.Once(ctx, "k", time.Hour)
	b.want(err, backend.ErrTxDone)

	// Closing one handle ends its transactions and no other handle's.
	other := b.store.Open()
	open, err := other.Begin(ctx)
	b.must(err)
	mine := b.begin()
	b.must(other.Close())
	b.must(other.Close())
	_, err = open.Once(ctx, "k", time.Hour)
	b.want(err, backend.ErrTxDone)
	_, err = other.Begin(ctx)
	b.want(err, backend.ErrClosed)
	fresh, err := mine.Once(ctx, "k", time.Hour)
	b.must(err)
	if !fresh {
		t.Error("the key of the rolled back transaction is still there")
	}
	b.must(mine.Rollback(ctx))

	dead := b.store.Open()
	open, err = dead.Begin(ctx)
	b.must(err)
	dead.Crash()
	b.want(open.Commit(ctx), backend.ErrConnection)
	b.must(open.Rollback(ctx))
}

func TestSchema(t *testing.T) {
	store := NewStore(Options{})
	h := store.Open()
	b := &bench{T: t}
	b.want(h.Check(ctx), backend.ErrNotMigrated)
	_, err := h.Begin(ctx)
	b.want(err, backend.ErrNotMigrated)
	b.must(h.Migrate(ctx))
	b.must(h.Migrate(ctx))
	b.must(h.Check(ctx))
	store.schema = schemaVersion + 1
	b.must(h.Migrate(ctx))
	b.must(h.Check(ctx))
	store.schema = -1
	b.want(h.Migrate(ctx), backend.ErrUnknownSchema)
	store.schema = schemaVersion + 2
	b.want(h.Migrate(ctx), backend.ErrNewerSchema)
	b.want(h.Check(ctx), backend.ErrNewerSchema)
	b.must(h.Uninstall(ctx))
	b.want(h.Check(ctx), backend.ErrNotMigrated)
}
