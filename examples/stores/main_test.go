package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

const (
	spread = "store 1: 20 orders of 4 customers, those of each in their order\n" +
		"store 2: 20 orders of 4 customers, those of each in their order\n"
	handed = "40 invoices in store 2, one for each order, though 8 orders were handled twice\n"
)

func check(t *testing.T, dbs ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, strings.Join(dbs, ","), &out); err != nil {
		t.Fatal(err)
	}
	if want := spread + handed; out.String() != want {
		t.Errorf("the example prints\n%s\nwant\n%s", out.String(), want)
	}
}

func TestStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check(t, "sqlite:"+filepath.Join(dir, "1.db"), "sqlite:"+filepath.Join(dir, "2.db"))
}

// TestVitessStores has the stores in two keyspaces.
func TestVitessStores(t *testing.T) {
	addresses := os.Getenv("PARLEY_TEST_VITESS")
	if addresses == "" {
		t.Skip("PARLEY_TEST_VITESS is not set: make verify-vitess starts Vitess")
	}
	var dbs []string
	for _, keyspace := range strings.Split(addresses, ",")[:2] {
		id := parley.NewID().String()
		db := keyspace + "?parley_prefix=s" + id[24:] + "_"
		t.Cleanup(func() {
			b, err := backend.Open(context.Background(), db)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if err := b.Uninstall(context.Background()); err != nil {
				t.Error(err)
			}
		})
		dbs = append(dbs, db)
	}
	check(t, dbs...)
}
