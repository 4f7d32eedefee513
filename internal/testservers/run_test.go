package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sampleTests are packages with tests that go in different ways. An expired bound looks like those of
// package slow.
var sampleTests = map[string]string{
	"go.mod": "module example.com/sample\n\ngo 1.26\n",
	"good/good_test.go": `package good
import "testing"
func TestGood(t *testing.T) { t.Run("part", func(t *testing.T) { t.Log("well") }) }`,
	"wrong/wrong_test.go": `package wrong
import ("fmt"; "testing")
func TestWrong(t *testing.T) { t.Run("a b", func(t *testing.T) { fmt.Println("a log"); t.Error("is 1, want 2") }) }`,
	"panics/panics_test.go": `package panics
import "testing"
func TestPanics(t *testing.T) { panic("at the disco") }`,
	"unbuilt/unbuilt_test.go": `package unbuilt
import "testing"
func TestUnbuilt(t *testing.T) { missing() }`,
	"hangs/hangs_test.go": `package hangs
import ("testing"; "time")
func TestHangs(t *testing.T) { time.Sleep(time.Hour) }`,
	"late/late_test.go": `package late
import ("os"; "testing")
func TestLate(t *testing.T) {
	if os.Mkdir("seen", 0o755) == nil { t.Error("expired: news: not after 15s") }
}`,
	"never/never_test.go": `package never
import "testing"
func TestNever(t *testing.T) { t.Error("expired: news: not after 15s") }`,
	"both/both_test.go": `package both
import "testing"
func TestBoth(t *testing.T) { t.Error("is 1, want 2"); t.Error("news: not after 15s") }`,
}

// runSample runs tests of the sample as a part with a chain for each package.
func runSample(t *testing.T, limit time.Duration, packages ...string) (ok bool, out, flaky string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it runs go test")
	}
	dir := t.TempDir()
	for name, text := range sampleTests {
		file := filepath.Join(dir, "sample", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := part{name: "sample", servers: []string{"sqlite"}, limit: limit}
	for _, name := range packages {
		p.chains = append(p.chains, []step{{name: name, folder: filepath.Join(dir, "sample"), tests: []string{"./" + name}}})
	}
	logs := filepath.Join(dir, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	ok, err := runPart(t.Context(), environment{get: func(string) string { return "" }, log: &page}, p, logs, &page)
	if err != nil {
		t.Fatal(err)
	}
	list, _ := os.ReadFile(filepath.Join(logs, "flaky.log"))
	return ok, page.String(), string(list)
}

func TestRunPasses(t *testing.T) {
	t.Parallel()
	ok, out, flaky := runSample(t, time.Minute, "good")
	if !ok || flaky != "" || !strings.Contains(out, "sample passed") || !strings.Contains(out, "2 tests") {
		t.Errorf("passed %t, flaky %q\n%s", ok, flaky, out)
	}
}

// TestRunExplains: the last lines of a run that fails have what the test has said.
func TestRunExplains(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"wrong":   {"FAILED: example.com/sample/wrong TestWrong/a_b", "wrong_test.go:3: is 1, want 2", "-run '^TestWrong$/^a_b$'"},
		"panics":  {"TestPanics", "panic: at the disco"},
		"unbuilt": {"example.com/sample/unbuilt", "undefined: missing"},
		"never":   {"TestNever", "expired: news"},
		"both":    {"TestBoth", "is 1, want 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ok, out, flaky := runSample(t, time.Minute, name)
			if ok || flaky != "" {
				t.Errorf("passed %t, flaky %q\n%s", ok, flaky, out)
			}
			_, end, _ := strings.Cut(out, "sample FAILED")
			for _, text := range want {
				if !strings.Contains(end, text) {
					t.Errorf("the end does not say %q:\n%s", text, out)
				}
			}
			if n := strings.Count(end, "\n"); n > mostLines {
				t.Errorf("the end has %d lines:\n%s", n, end)
			}
		})
	}
}

// TestRunStopsAtOnce: a wrong value stops the chains beside it, and a limit everything.
func TestRunStopsAtOnce(t *testing.T) {
	t.Parallel()
	ok, out, _ := runSample(t, 30*time.Minute, "hangs", "wrong")
	if ok || !strings.Contains(out, "FAILED: example.com/sample/wrong TestWrong/a_b") {
		t.Errorf("passed %t\n%s", ok, out)
	}
	ok, out, _ = runSample(t, 10*time.Second, "hangs")
	if ok || !strings.Contains(out, "under way: example.com/sample/hangs") || !strings.Contains(out, "TestHangs") {
		t.Errorf("passed %t\n%s", ok, out)
	}
}

// TestRunTriesAgain: a test that has only timed out is tried once more, and named.
func TestRunTriesAgain(t *testing.T) {
	t.Parallel()
	ok, out, flaky := runSample(t, time.Minute, "late", "good")
	const line = "FLAKY example.com/sample/late TestLate: late_test.go:4: expired: news"
	if !ok || !strings.Contains(out, line) || !strings.Contains(flaky, line) {
		t.Errorf("passed %t, flaky %q\n%s", ok, flaky, out)
	}
}
