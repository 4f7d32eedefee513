package auditlog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/examples/recycling/auditlog"
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
	// Run fails if an entry comes out of order, and waits until all have come and
	// no dialog is left.
	if err := auditlog.Run(ctx, b, auditlog.Options{Users: 3, Actions: 60, Age: 30 * time.Millisecond, Pause: 2 * time.Millisecond}, &out); err != nil {
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
