package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestConformancePage: docs/conformance.md is what the files of the rows make it.
func TestConformancePage(t *testing.T) {
	const docs = "../../docs"
	page := filepath.Join(docs, "conformance.md")
	want, err := conformancePage(docs)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): run UPDATE=1 go test -run TestConformancePage ./internal/testservers", page, err)
	}
	files, err := filepath.Glob(filepath.Join(docs, "conformance", "*.json"))
	if err != nil || len(files) == 0 {
		t.Errorf("%d files of rows, %v", len(files), err)
	}
	for _, f := range files { // the page would not have it
		row := strings.TrimSuffix(filepath.Base(f), ".json")
		if !slices.ContainsFunc(matrix, func(r matrixRow) bool { return r.server == row }) {
			t.Errorf("%s is of no row of the matrix", f)
		}
	}
}

// TestSuites: what go test prints of the suite's checks is counted by section, with reasons.
func TestSuites(t *testing.T) {
	sections, titles, err := readSections("../../docs")
	if err != nil || sections["RA"] != "Rules" || sections["A05"] != "Progress" || titles[0] != "Invariants" {
		t.Fatalf("the sections are %v, %v", titles, err)
	}
	const pkg = `"Package":"github.com/parleymq/parley/backend/mysql"`
	r := readTests(strings.NewReader(strings.ReplaceAll(`
{"Action":"pass",PKG,"Test":"TestOther/D01/a_check_of_nobody's"}
{"Action":"output",PKG,"Test":"TestConformance/mysql/A05/two_words","Output":"    conformance.go:1: there is no pool\n"}
{"Action":"output",PKG,"Test":"TestConformance/mysql/A05/two_words","Output":"--- SKIP: two_words\n"}
{"Action":"skip",PKG,"Test":"TestConformance/mysql/A05/two_words"}
{"Action":"pass",PKG,"Test":"TestConformance/mysql/RA/good"}
{"Action":"fail",PKG,"Test":"TestConformance/mysql/RB/bad"}
{"Action":"fail",PKG,"Test":"TestConformance/mysql"}
{"Action":"fail",PKG,"Test":"TestConformance"}
{"Action":"pass",PKG,"Test":"TestConformanceNativeLocks/L01/good"}`, "PKG", pkg)), io.Discard)
	list := r.suites(sections)
	if len(list) != 2 || list[0].Test != "TestConformance" || list[1].Test != "TestConformanceNativeLocks" {
		t.Fatalf("%d suites: %+v", len(list), list)
	}
	s := list[0]
	if want := (counts{passed: 1, failed: 1, skipped: 1}); s.Checks != want {
		t.Errorf("%v, want %v", s.Checks, want)
	}
	want := map[string]counts{"Progress": {skipped: 1}, "Rules": {passed: 1, failed: 1}}
	if !maps.Equal(s.Sections, want) {
		t.Errorf("%v, want %v", s.Sections, want)
	}
	skipped := s.Skipped["there is no pool"]
	if !slices.Equal(skipped, []string{"A05 two words"}) || !slices.Equal(s.Failed, []string{"RB bad"}) {
		t.Errorf("skipped %v, failed %v", s.Skipped, s.Failed)
	}
	if !strings.HasPrefix(s.Driver, "github.com/go-sql-driver/mysql v") {
		t.Errorf("the driver is %q", s.Driver)
	}
	page := exceptions([]rowResult{{Row: "mysql", Suites: list}})
	for _, want := range []string{
		"- mysql, `TestConformance`: RB bad\n", "- there is no pool\n  - mysql, `TestConformance`: A05 two words\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
}
