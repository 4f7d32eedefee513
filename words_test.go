package parley_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unnamed are words for an actor without a name, and phrases that need a second look.
var unnamed = regexp.MustCompile(`(?i)\b(somebody|someone|nobody|whoever|anybody|lest|for how long|so long as|(were|was) had)\b`)

// gone are words that had a meaning of their own here: maintenance, claimLimiter, keyInsertLimiter, clear,
// deaths and decision are the words now. Names in code, such as columns that keep theirs, are left alone.
var gone = regexp.MustCompile(`(?i)\b(caretakers?|duty|duties|turnstiles?|keygates?|sift(s|ed|ing)?|acquit(s|ted|tal)?|suspicions?|rulings?|exhum(e|es|ed))\b`)

var code = regexp.MustCompile("`[^`]*`")

// TestWords: comments and documents name who does what.
func TestWords(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata") {
			return fs.SkipDir
		}
		text := ""
		switch filepath.Ext(path) {
		case ".md":
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		case ".go":
			if text, err = comments(path); err != nil {
				return err
			}
		}
		if path == "words_test.go" {
			return nil
		}
		for line := range strings.Lines(text) {
			w := unnamed.FindString(line)
			if w == "" {
				w = gone.FindString(code.ReplaceAllString(line, ""))
			}
			if w != "" {
				t.Errorf("%s says %q: %s", path, w, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// comments returns the comments of a Go file.
func comments(path string) (string, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(path, files.Base(), len(src)), src, nil, scanner.ScanComments)
	var b strings.Builder
	for {
		_, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return b.String(), nil
		case token.COMMENT:
			b.WriteString(lit + "\n")
		}
	}
}

// TestIdentifiers: no identifier has a word that is gone. Columns keep theirs, in SQL.
func TestIdentifiers(t *testing.T) {
	avoided := map[string]bool{
		"duty": true, "duties": true, "tend": true, "suspicion": true, "verdict": true, "lull": true, "slump": true,
		"lane": true, "turnstile": true, "strike": true, "strikes": true, "caretaker": true, "exhume": true, "acquit": true,
	}
	word := regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || path == "words_test.go" {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var s scanner.Scanner
		files := token.NewFileSet()
		file := files.AddFile(path, files.Base(), len(src))
		s.Init(file, src, nil, 0)
		for {
			pos, tok, name := s.Scan()
			if tok == token.EOF {
				return nil
			}
			if tok != token.IDENT {
				continue
			}
			for _, w := range word.FindAllString(name, -1) {
				if avoided[strings.ToLower(w)] {
					t.Errorf("%s is called %s", file.Position(pos), name)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
