package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const record = "testdata/slices.jsonl"

// TestReliabilityPage: the table in docs/reliability.md is what the record of runs makes it.
func TestReliabilityPage(t *testing.T) {
	const page, begin, end = "../../docs/reliability.md", "<!-- slices -->\n", "<!-- /slices -->\n"
	list, err := readSlices(record)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	want := before + begin + table(list) + end + after
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is stale: run UPDATE=1 go test -run TestReliabilityPage ./internal/faults", page)
	}
	for _, s := range list {
		if !slices.ContainsFunc(serverNames, func(x struct{ server, title string }) bool { return x.server == s.Server }) {
			t.Errorf("server %q has no column", s.Server)
		}
		for name := range s.Faults {
			if !slices.ContainsFunc(afflictions, func(a affliction) bool { return a.name == name }) {
				t.Errorf("fault %q has no row", name)
			}
		}
	}
}

// TestRecord: what runs add to the record adds up, and a run that begins anew takes those before it away.
func TestRecord(t *testing.T) {
	o := options{server: "galera", seed: 7, slices: filepath.Join(t.TempDir(), "slices")}
	for i, anew := range []string{"", "", "claims changed", ""} {
		o.anew = anew
		v := &violations{Operations: 1000 + i, Faults: map[string]int{"kill": i}, Lost: i / 3,
			Pauses: pauses{"failover": {float64(i), 7.25}}}
		if err := o.record(v, "10.11.14-MariaDB-log"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := readSlices(o.slices)
	if err != nil || len(list) != 4 {
		t.Fatalf("the record has %+v, %v", list, err)
	}
	if s := list[1]; s.Seed != 7 || s.Version != "10.11.14" || s.Commit == "" || s.Date == "" || s.Operations != 1001 {
		t.Errorf("a run is recorded as %+v", s)
	}
	got := sums(list)["galera"]
	if got.runs != 2 || got.Operations != 2005 || got.Faults["kill"] != 5 || got.Lost != 1 || len(got.commits) != 1 {
		t.Errorf("the sum is %+v", got)
	}
	for _, want := range []string{"| Galera 10.11.14 |", "| operations | 2,005 |", "| kill | 5 |", "broken | 1, 0, 0, 0, 0 |",
		"| seconds without work at a failover: median, longest | 3.0, 7.2 |"} {
		if !strings.Contains(table(list), want) {
			t.Errorf("the table has no %q:\n%s", want, table(list))
		}
	}
}
