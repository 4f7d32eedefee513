package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestClusterMySQL moves programs to another member of a replication group of MySQL.
func TestClusterMySQL(t *testing.T) { testCluster(t, "mysql-group") }

// TestClusterPatroni moves programs to another server under Patroni.
func TestClusterPatroni(t *testing.T) { testCluster(t, "postgres-patroni") }

// testCluster has a primary give way once, and kills one.
func testCluster(t *testing.T, server string) {
	if os.Getenv("PARLEY_TEST_REQUIRE") == "" {
		t.Skip("it fetches three servers and starts them: make verify-group and make verify-patroni run it")
	}
	tool := filepath.Join(t.TempDir(), "testservers")
	if out, err := exec.Command("go", "build", "-o", tool, "../testservers").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Setenv("PARLEY_TEST_REQUIRE", "")
	v, err := run(t.Context(), options{server: server, tool: tool, only: "failover,switchover",
		operations: 1000, faults: 2, programs: 2, limit: 15 * time.Minute, drain: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations, %v, faults %v: %s", v.Operations, v.Load, v.Faults, v)
	if v.bad() {
		t.Errorf("want zeros\n%q", v.Problems)
	}
	for _, name := range moves {
		if len(v.Pauses[name]) != 1 {
			t.Errorf("no handler committed after the %s", name)
		}
	}
}
