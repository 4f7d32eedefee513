package parley

import (
	"context"
	"testing"
)

// TestReadersTooMany: of readers that come to their end together, and are more
// than there may be, as many stay as there may be.
func TestReadersTooMany(t *testing.T) {
	w := &Worker{max: 1, readers: 6, stop: context.Background()}
	stay := 0
	for range 6 { // none of them has gone yet
		if ok, surplus := w.stay(); ok {
			stay++
		} else if !surplus {
			t.Error("a reader goes that was not counted off")
		}
	}
	if stay != 1 || w.readers != 1 {
		t.Errorf("%d readers stay and %d are counted, want 1", stay, w.readers)
	}
}
