package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The test's program is that of its children as well.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestFaults is the short run on SQLite. Servers are left out: the run would end the
// connections of other tests; make faults gives it servers of its own.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute")
	}
	o := options{db: "sqlite:" + filepath.Join(t.TempDir(), "faults.db"), operations: 10_000, faults: 20, programs: 3, limit: 90 * time.Second}
	v, err := run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations, %v, faults %v: %s", v.Operations, v.Load, v.Faults, v)
	if v.bad() {
		t.Errorf("want zeros\n%q", v.Problems)
	}
	for _, name := range []string{"key", "post", "side", "aside", "dialog", "diary", "entry", "ranked", "task",
		"promoting", "parked", "unparking", "locked"} {
		if v.Load[name] == 0 {
			t.Errorf("no %s in the load", name)
		}
	}
	if v.Operations < o.operations || sum(v.Faults) < o.faults {
		t.Errorf("want %d operations and %d faults", o.operations, o.faults)
	}
}
