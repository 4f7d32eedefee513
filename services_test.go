package parley_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/memory"
)

// TestUndefinedTarget: a conversation with a service that is not defined is begun, and the log says so once; with
// StrictServices it is refused. A service that another program has defined meanwhile is neither.
func TestUndefinedTarget(t *testing.T) {
	ctx := t.Context()
	var log bytes.Buffer
	open := func(o parley.Options) *parley.Broker {
		t.Helper()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		b, err := parley.Open(ctx, "memory:"+t.Name(), &o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	define := func(b *parley.Broker, service string) {
		t.Helper()
		err := b.Define(ctx, parley.Catalog{
			Queues: []parley.Queue{{Name: "shop"}}, Services: []parley.Service{{Name: service, Queue: "shop"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := func(b *parley.Broker, to string) error {
		return b.InTx(ctx, func(tx *parley.Tx) error {
			_, err := tx.Begin(ctx, "Shop", to, nil)
			return err
		})
	}
	other := open(parley.Options{})
	if err := other.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	define(other, "Shop")
	lenient, strict := open(parley.Options{}), open(parley.Options{StrictServices: true})
	for _, b := range []*parley.Broker{lenient, strict} { // both know the catalog from now on
		if err := begin(b, "Shop"); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := begin(lenient, "Biling"); err != nil {
			t.Errorf("without StrictServices: %v", err)
		}
		if err := begin(strict, "Biling"); !errors.Is(err, parley.ErrUnknownService) || !strings.Contains(err.Error(), `"Biling"`) {
			t.Errorf("with StrictServices: %v, want that the service is not defined", err)
		}
	}
	define(other, "Billing")
	for _, b := range []*parley.Broker{lenient, strict} {
		if err := begin(b, "Billing"); err != nil {
			t.Errorf("a service that another program has defined: %v", err)
		}
	}
	if n := strings.Count(log.String(), "service.unknown"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, log.String())
	}
}
