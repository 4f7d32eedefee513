package parley_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var linked = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

// TestLinks: what a document links to in this repository is there.
func TestLinks(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." && path != ".github":
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], ":") {
				continue // another site
			}
			seen++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Fatalf("%d links, %v", seen, err)
	}
}
