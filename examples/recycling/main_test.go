package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
)

func TestAuditLog(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := parley.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "a.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	// audit fails if an entry comes out of order, and waits until all have come and
	// no dialog is left.
	if err := audit(ctx, b, options{users: 3, actions: 60, age: 30 * time.Millisecond, pause: 2 * time.Millisecond}, &out); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		user := fmt.Sprintf("user-%d: 60 entries in order on ", i+1)
		_, rest, found := strings.Cut(out.String(), user)
		var dialogs int
		if _, err := fmt.Sscan(rest, &dialogs); !found || err != nil || dialogs < 2 {
			t.Errorf("the example prints\n%s\nwant %q and several dialogs", out.String(), user)
		}
	}
}
