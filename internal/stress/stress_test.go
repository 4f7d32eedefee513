package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The test's program is also that of its children.
func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	os.Exit(m.Run())
}

// zeros runs a load that is to end without a failure.
func zeros(t *testing.T, o options) *report {
	t.Helper()
	var log strings.Builder
	r, err := runLoad(context.Background(), o, &lockedWriter{w: &log})
	t.Logf("seed %d\n%s", o.seed, log.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.line())
	if r.failures() > 0 {
		t.Errorf("want zeros\n%s", strings.Join(r.violations.problems, "\n"))
	}
	return r
}

// TestModes runs senders alone, and receivers that work for long.
func TestModes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for name, change := range map[string]func(*options){
		"control": func(o *options) { o.control = true },
		"work":    func(o *options) { o.work = 300 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			o := options{db: "sqlite:" + filepath.Join(t.TempDir(), "stress.db"), length: 3 * time.Second, seed: seed(), senders: 8, receivers: 6, groups: 10, streams: 3, children: 1, pause: 20 * time.Millisecond}
			change(&o)
			r := zeros(t, o)
			if r.sent < 20 || len(r.latencies) == 0 || o.control != (r.violations.received == 0) {
				t.Errorf("%d sent, %d of them timed, %d received", r.sent, len(r.latencies), r.violations.received)
			}
		})
	}
}

// TestRun is a short run on each database that can be had.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for name, db := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "stress.db"),
		"postgres": os.Getenv("PARLEY_TEST_POSTGRES"),
		"mariadb":  os.Getenv("PARLEY_TEST_MARIADB"),
		"mysql":    os.Getenv("PARLEY_TEST_MYSQL"),
	} {
		t.Run(name, func(t *testing.T) {
			if db == "" {
				t.Skip("there is no server for it")
			}
			o := options{db: db, length: 6 * time.Second, seed: seed(), senders: 16, receivers: 12, groups: 40, streams: 3, children: 1, pause: 20 * time.Millisecond}
			r := zeros(t, o)
			if r.sent < 100 || r.violations.received < 100 {
				t.Errorf("%d sent and %d received: that is no load", r.sent, r.violations.received)
			}
		})
	}
}

// seed is what chance begins with: SEED, or another number each time.
func seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().UnixNano())
}
