package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"testing"
)

// TestReads: a statement that is interrupted by the end of its transaction fails with the error of
// a transaction that is over. If its own context ends, it fails with the context's error.
func TestReads(t *testing.T) {
	caller, cancel := context.WithCancel(t.Context())
	var r Reads
	own, doneOwn := r.Context(caller)
	long, doneLong := r.Context(t.Context())
	derived, stop := context.WithCancel(long) // as rows have it
	defer stop()
	cancel()
	<-own.Done()
	doneOwn()
	if err := own.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("a statement whose context has ended: %v", err)
	}
	if long.Err() != nil || r.Left() {
		t.Errorf("another statement ends with %v, and rows are open: %t", long.Err(), r.Left())
	}
	doneLong()
	if !r.Left() {
		t.Error("rows that are read after their statement are not open")
	}
	r.Close()
	<-derived.Done()
	late, doneLate := r.Context(t.Context())
	doneLate()
	for what, ctx := range map[string]context.Context{"under way": long, "of rows": derived, "that comes later": late} {
		if err := ctx.Err(); !errors.Is(err, sql.ErrTxDone) || errors.Is(err, context.Canceled) {
			t.Errorf("the end of a transaction ends the context %s with %v", what, err)
		}
	}
	if r.Left() {
		t.Error("rows are open after the end of their transaction")
	}
}
