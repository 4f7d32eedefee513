package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// TestFaults is the short run on each engine, on separate servers. make verify runs it alone, with
// the race detector, because it takes all of the machine. make faults is the long one.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute")
	}
	tool := filepath.Join(t.TempDir(), "testservers")
	if out, err := exec.Command("go", "build", "-o", tool, "../testservers").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Setenv("PARLEY_TEST_INSTALL", "0") // a server that is not there yet is left out
	required := strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ",")
	t.Setenv("PARLEY_TEST_REQUIRE", "") // these are started one by one
	for _, o := range []options{
		{server: "sqlite", operations: 10_000},
		{server: "postgres", operations: 10_000},
		{server: "mariadb", operations: 10_000},
		{server: "mysql", operations: 10_000},
	} {
		t.Run(o.server, func(t *testing.T) {
			t.Parallel() // they wait, for servers that start and programs that stand still
			o.tool, o.faults, o.programs, o.limit = tool, 20, 2, 8*time.Minute
			o.drain = 2 * time.Minute
			if os.Geteuid() == 0 && o.server == "sqlite" {
				o.diskSize = "256M"
			}
			v, err := run(t.Context(), o)
			if errors.Is(err, errMissing) && !slices.Contains(required, o.server) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d operations, %v, faults %v: %s", v.Operations, v.Load, v.Faults, v)
			if v.bad() {
				t.Errorf("want zeros\n%q", v.Problems)
			}
			for _, name := range []string{"key", "post", "side", "aside", "dialog", "diary", "entry", "shared", "common", "brief",
				"ranked", "task", "promoting", "parked", "unparking", "moving", "locked", "looks for stranded", "looks for waits"} {
				if v.Load[name] == 0 && (name != "looks for waits" || o.server != "sqlite") { // a single writer waits for its turn
					t.Errorf("no %s in the load", name)
				}
			}
			if v.Operations < o.operations || sum(v.Faults) < o.faults {
				t.Errorf("want %d operations and %d faults", o.operations, o.faults)
			}
		})
	}
}
