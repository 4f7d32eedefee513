// Package code has the code of the documentation. Each block of Go in a page is part of a file that is compiled
// and run, here or among the Examples.
package code

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocs: what a page shows as Go stands, line for line, in a Go file of a test or an example. A line that is only
// "…" stands for any lines.
func TestDocs(t *testing.T) {
	var sources [][]string
	var pages []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			pages = append(pages, path)
		case strings.HasSuffix(path, "_test.go") || filepath.Ext(path) == ".go" && strings.Contains(filepath.ToSlash(path), "/examples/"):
			sources = append(sources, lines(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, page := range pages {
		for _, block := range blocksOf(lines(t, page)) {
			blocks++
			if !stands(block, sources) {
				t.Errorf("%s: no test and no example has this code:\n%s", page, strings.Join(block, "\n"))
			}
		}
	}
	if blocks < 20 {
		t.Errorf("only %d blocks of code found", blocks)
	}
}

// lines returns the lines of a file without indentation, and without those that are empty.
func lines(t *testing.T, path string) (all []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func blocksOf(page []string) (blocks [][]string) {
	for i := 0; i < len(page); i++ {
		if page[i] != "```go" {
			continue
		}
		from := i + 1
		for i = from; i < len(page) && page[i] != "```"; i++ {
		}
		blocks = append(blocks, page[from:i])
	}
	return blocks
}

func stands(block []string, sources [][]string) bool {
	for _, source := range sources {
		for i := range source {
			if follows(block, source[i:]) {
				return true
			}
		}
	}
	return false
}

// follows reports whether a block begins at the first line.
func follows(block, source []string) bool {
	for i, line := range block {
		if line == "…" {
			for skip := range source {
				if follows(block[i+1:], source[skip:]) {
					return true
				}
			}
			return i == len(block)-1
		}
		if len(source) == 0 || source[0] != line {
			return false
		}
		source = source[1:]
	}
	return true
}

// TestTestDocs: code that stands nowhere is found.
func TestTestDocs(t *testing.T) {
	source := [][]string{{"a := 1", "b := 2", "c := 3", "d := 4"}}
	for _, x := range []struct {
		block string
		want  bool
	}{{"b := 2|c := 3", true}, {"a := 1|…|d := 4", true}, {"a := 1|…", true}, {"a := 1|c := 3", false}, {"d := 4|e := 5", false}, {"a := 1|…|e := 5", false}} {
		if got := stands(strings.Split(x.block, "|"), source); got != x.want {
			t.Errorf("%q: %v", x.block, got)
		}
	}
}
