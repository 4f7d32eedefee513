package memstore

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaults checks the table: each fault is made at one place, and each is
// described once.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := make(map[string]int)
	defined := make(map[string]Fault)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(Fault\w+)\s+Fault = "(.*)"`).FindAllStringSubmatch(string(text), -1) {
			defined[m[1]] = Fault(m[2])
		}
		for _, m := range regexp.MustCompile(`\.fault [!=]= (Fault\w+)`).FindAllStringSubmatch(string(text), -1) {
			made[m[1]]++
		}
	}

	described := make(map[Fault]int)
	rule := regexp.MustCompile(`^(I[1-6]|R[ABC]|[ADOGPTERQXLFJKNBCMHV][012][0-9])$`)
	for _, f := range Faults {
		described[f.Fault]++
		if !rule.MatchString(f.Breaks) {
			t.Errorf("%s breaks %q, which is no rule", f.Fault, f.Breaks)
		}
		if f.Says == "" || strings.HasSuffix(f.Says, ".") {
			t.Errorf("%s says %q", f.Fault, f.Says)
		}
	}
	for name, f := range defined {
		if made[name] != 1 {
			t.Errorf("%s is made at %d places", name, made[name])
		}
		if described[f] != 1 {
			t.Errorf("%s is described %d times", f, described[f])
		}
	}
	if len(Faults) != len(defined) {
		t.Errorf("%d faults, %d in the table", len(defined), len(Faults))
	}
	t.Logf("%d faults", len(Faults))
}
