package sqlstore

import (
	"database/sql"
	"testing"
)

// TestAloneOver: nothing begins a transaction that has ended before it began, and it has committed nothing.
func TestAloneOver(t *testing.T) {
	var a Alone
	a.PutOff()
	for range 2 {
		if !a.Over() {
			t.Error("it was begun")
		}
	}
	if err := a.Enter(func() error { t.Error("it begins"); return nil }); err != sql.ErrTxDone {
		t.Errorf("after the end: %v", err)
	}
	if a.Committed() {
		t.Error("it has committed")
	}
	var begun Alone
	begun.PutOff()
	if err := begun.Enter(func() error { return nil }); err != nil || begun.Over() {
		t.Errorf("%v, or there is nothing to end", err)
	}
}
