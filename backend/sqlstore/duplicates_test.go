package sqlstore_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// block is how many equal lines of two backends are too many.
const block = 10

// line is a line of a file without the white space around it.
type line struct {
	file string
	n    int
	text string
}

func (l line) String() string { return fmt.Sprintf("%s:%d", l.file, l.n) }

// linesOf returns the lines of the Go and SQL files of a backend, tests included,
// by file. Blank lines do not count; all others do, comments as well. What tests have
// generated, in folders testdata, is no code.
func linesOf(t *testing.T, dir fs.FS) (files [][]line) {
	t.Helper()
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || path.Ext(name) != ".go" && path.Ext(name) != ".sql" {
			return err
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		var lines []line
		for i, l := range strings.Split(string(text), "\n") {
			if l = strings.TrimSpace(l); l != "" {
				lines = append(lines, line{name, i + 1, l})
			}
		}
		files = append(files, lines)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// shared returns where two backends have the same block of consecutive lines, or
// more, by the places of the first of them.
func shared(a, b [][]line) (found []string) {
	text := func(block []line) string {
		var s strings.Builder
		for _, l := range block {
			s.WriteString(l.text + "\n")
		}
		return s.String()
	}
	seen := make(map[string]line)
	for _, lines := range a {
		for i := range len(lines) - block + 1 {
			seen[text(lines[i:i+block])] = lines[i]
		}
	}
	for _, lines := range b {
		again := false // the block begins a line after a block that was found
		for i := range len(lines) - block + 1 {
			there, ok := seen[text(lines[i:i+block])]
			if ok && !again {
				found = append(found, fmt.Sprintf("%v and %v", there, lines[i]))
			}
			again = ok
		}
	}
	return found
}

// TestNoDuplicates holds that what two backends have in common is here.
func TestNoDuplicates(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	backends := make(map[string][][]line)
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "internal" || e.Name() == "sqlstore" {
			continue
		}
		if files := linesOf(t, os.DirFS(path.Join("..", e.Name()))); len(files) > 0 {
			backends[e.Name()] = files
		}
	}
	names := slices.Sorted(maps.Keys(backends))
	if len(names) < 4 {
		t.Fatalf("backends %q: this test looks in the wrong place", names)
	}
	for i, one := range names {
		for _, other := range names[i+1:] {
			for _, where := range shared(backends[one], backends[other]) {
				t.Errorf("%s and %s have %d equal lines or more from %s on: move them into package sqlstore, or backendtest",
					one, other, block, where)
			}
		}
	}
}

// TestDuplicatesAreFound makes up a pair: nine equal lines are let pass, ten are
// not, whatever the white space and blank lines in and between them.
func TestDuplicatesAreFound(t *testing.T) {
	equal := func(n int, format string) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, format, i)
		}
		return s.String()
	}
	one := linesOf(t, fstest.MapFS{
		"one.go":           {Data: []byte("package one\n" + equal(9, "\tx%d()\n") + "\ty()\n")},
		"schema/first.sql": {Data: []byte("-- one\n" + equal(12, "SELECT %d,\n") + "1;\n")},
		"notes.md":         {Data: []byte(equal(20, "%d\n"))},
	})
	for text, want := range map[string]string{
		"package two\n" + equal(9, "\tx%d()\n") + "\tz()\n": "[]",
		"package two\n\n" + equal(10, "  SELECT %d,\n\n"):   "[schema/first.sql:2 and two.go:3]",
		"package two\n\n" + equal(12, "  SELECT %d,\n\n"):   "[schema/first.sql:2 and two.go:3]",
		equal(20, "%d\n"): "[]",
	} {
		two := linesOf(t, fstest.MapFS{"two.go": {Data: []byte(text)}})
		if got := fmt.Sprint(shared(one, two)); got != want {
			t.Errorf("found %s, want %s, in\n%s", got, want, text)
		}
	}
}

// TestLinesAreDocumented holds the numbers of docs/backends.md to a tenth.
func TestLinesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `backend/(\\w+)` \\| (\\d+) \\| (\\d+) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 4 {
		t.Fatalf("docs/backends.md has the lines of %d backends", len(rows))
	}
	for _, row := range rows {
		count := map[string]int{}
		for _, lines := range linesOf(t, os.DirFS(path.Join("..", row[1]))) {
			if len(lines) > 0 && !strings.HasSuffix(lines[0].file, "_test.go") {
				count[path.Ext(lines[0].file)] += len(lines)
			}
		}
		for i, ext := range []string{".go", ".sql"} {
			said, err := strconv.Atoi(row[2+i])
			if err != nil {
				t.Fatal(err)
			}
			if n := count[ext]; n*10 < said*9 || n*10 > said*11 {
				t.Errorf("docs/backends.md says that backend/%s has %d lines of %s, and it has %d", row[1], said, ext[1:], n)
			}
		}
	}
}
