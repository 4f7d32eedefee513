package parley_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestWords: Go files and documents lose avoided words, and gain none. The file testdata/words lists
// each word or phrase, what to write instead, and how often each folder has it. An identifier counts by
// its words. UPDATE=1 lowers the counts; it raises none.
func TestWords(t *testing.T) {
	const file = "testdata/words"
	list, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := textsByFolder()
	if err != nil {
		t.Fatal(err)
	}
	var lowered strings.Builder
	for line := range strings.Lines(string(list)) {
		avoided, rest, ok := strings.Cut(strings.TrimSpace(line), "\t")
		instead, counts, _ := strings.Cut(rest, "\t")
		if !ok {
			lowered.WriteString(line) // what the file is for
			continue
		}
		allowed := make(map[string]int)
		for _, c := range strings.FieldsFunc(counts, func(r rune) bool { return r == ',' }) {
			var folder string
			var n int
			if _, err := fmt.Sscan(c, &folder, &n); err != nil {
				t.Fatalf("%s: %q: %v", file, c, err)
			}
			allowed[folder] = n
		}
		var left []string
		for _, folder := range slices.Sorted(maps.Keys(texts)) {
			n, where := 0, []string(nil)
			for name, text := range texts[folder] {
				if c := strings.Count(text, " "+avoided+" "); c > 0 {
					n, where = n+c, append(where, name)
				}
			}
			if n > allowed[folder] {
				slices.Sort(where)
				t.Errorf("%s has %q %d times, and may have it %d times: write %s. It is in %v", folder, avoided, n, allowed[folder], instead, where)
			}
			if n = min(n, allowed[folder]); n > 0 {
				left = append(left, fmt.Sprintf("%s %d", folder, n))
			}
		}
		lowered.WriteString(strings.TrimSpace(avoided+"\t"+instead+"\t"+strings.Join(left, ", ")) + "\n")
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(lowered.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// textsByFolder returns the words of each Go file and document, with a space around each. Pages that are
// about names of the past are left out.
func textsByFolder() (map[string]map[string]string, error) {
	texts := make(map[string]map[string]string)
	return texts, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md":
			return nil
		case path == "CHANGELOG.md" || path == "docs/renames.md":
			return nil
		}
		text, err := os.ReadFile(path)
		folder, name := filepath.ToSlash(filepath.Dir(path)), filepath.Base(path)
		if texts[folder] == nil {
			texts[folder] = make(map[string]string)
		}
		texts[folder][name] = splitWords(string(text))
		return err
	})
}

// splitWords returns the words of a text in lower case with a space around each. claimLimiter has two words, and so
// has SQLStore.
func splitWords(text string) string {
	var b strings.Builder
	b.WriteByte(' ')
	runes := []rune(text)
	at := func(i int) rune {
		if i < 0 || i >= len(runes) {
			return ' '
		}
		return runes[i]
	}
	for i, r := range runes {
		if !unicode.IsLetter(r) {
			continue
		}
		b.WriteRune(unicode.ToLower(r))
		next := at(i + 1)
		camel := unicode.IsUpper(next) && (unicode.IsLower(r) || unicode.IsLower(at(i+2)))
		if !unicode.IsLetter(next) || camel {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func TestSplitWords(t *testing.T) {
	const text = "func (d *SQLStore) claimLimiter() // one\n\t// TWO Three"
	if got, want := splitWords(text), " func d sql store claim limiter one two three "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
