package parley_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	renamedTo    = regexp.MustCompile("`[^`]*`")
	exportedName = regexp.MustCompile(`\b[A-Z]\w*`)
)

// TestRenames: the new names in docs/renames.md are exported.
func TestRenames(t *testing.T) {
	text, err := os.ReadFile("docs/renames.md")
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("testdata/api/*.txt") // the pattern is ours
	var api strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		api.Write(b)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, code := range renamedTo.FindAllString(cells[2], -1) {
			code, _, _ = strings.Cut(code, "(ctx")
			if strings.Contains(code, "parley ") || strings.Contains(code, "…") {
				continue // of the command
			}
			for _, name := range exportedName.FindAllString(code, -1) {
				if seen++; !regexp.MustCompile(`\b` + name + `\b`).MatchString(api.String()) {
					t.Errorf("nothing is called %s, which is in %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d new names", seen)
	}
}
