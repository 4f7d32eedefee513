package consumer

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// TestWarnOfIdle: a program is told once that its pool closes the connections that a worker
// needs again, and not of a few.
func TestWarnOfIdle(t *testing.T) {
	var out strings.Builder
	closed := int64(1000) // before the worker began
	c := New(t.Context(), Config{
		Shared: Shared{Can: backend.Capabilities{IdleClosed: func() int64 { return closed }}, Log: slog.New(slog.NewTextHandler(&out, nil))},
		Queues: []backend.Queue{{Name: "mail"}}, Readers: 10,
	})
	last := c.idleClosed()
	for _, x := range []struct {
		more  int64
		lines int
	}{{0, 0}, {manyClosed - 1, 0}, {1, 0}, {manyClosed, 1}, {manyClosed, 1}} {
		closed += x.more
		last = c.warnOfIdle(last)
		if n := strings.Count(out.String(), "pool.idle"); n != x.lines {
			t.Errorf("%d more were closed: %d warnings, want %d", x.more, n, x.lines)
		}
	}
}
