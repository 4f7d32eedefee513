package parley_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/memstore"
	"github.com/parleymq/parley/internal/sure"
)

// limiting is a store whose server ends transactions after a time.
type limiting struct {
	backend.Backend
	after time.Duration
}

func (l limiting) Capabilities() backend.Capabilities {
	c := l.Backend.Capabilities()
	c.TransactionLimiter = l
	return c
}

func (l limiting) TransactionLimit(context.Context) (time.Duration, string, error) {
	return l.after, "its_limit", nil
}

// TestLongerThanTransactions: a worker whose handlers may take longer than a transaction says so when it begins.
func TestLongerThanTransactions(t *testing.T) {
	t.Parallel()
	for timeout, warned := range map[time.Duration]bool{0: false, 20 * time.Second: false, 21 * time.Second: true} {
		var log bytes.Buffer
		be := limiting{memstore.NewStore(memstore.Options{}).Open(), 20 * time.Second}
		b, err := parley.New(t.Context(), be, &parley.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(err)
		must(b.Migrate(t.Context()))
		must(b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
		w := sure.Of(b.NewWorker("q", parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil }), &parley.WorkerOptions{Timeout: timeout}))
		must(w.Drain(t.Context()))
		must(b.Close())
		if got := strings.Contains(log.String(), "worker.limit"); got != warned {
			t.Errorf("with a Timeout of %v: %s", timeout, log.String())
		}
	}
}
