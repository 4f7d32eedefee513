package parley_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReasons: every code of a finding is explained, and none that there is not.
func TestReasons(t *testing.T) {
	text, err := os.ReadFile("docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, m := range regexp.MustCompile("`([a-z.]+)`").FindAllStringSubmatch(cells[1], -1) {
				explained[m[1]] = true
			}
		}
	}
	for _, file := range []string{"reasons.go", "backend/info.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		codes := regexp.MustCompile(`(?m)^\t(?:reason|Warn)\w+ += "([a-z.]+)"`).FindAllStringSubmatch(string(src), -1)
		if len(codes) < 10 {
			t.Errorf("%s has %d codes", file, len(codes))
		}
		for _, m := range codes {
			if !explained[m[1]] {
				t.Errorf("docs/doctor.md does not explain %s", m[1])
			}
			delete(explained, m[1])
		}
	}
	for code := range explained {
		t.Errorf("docs/doctor.md explains %s, which there is not", code)
	}
}
