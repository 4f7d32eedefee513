package main

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	href   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchor = regexp.MustCompile(`id="([^"]*)"`)
)

// built writes the site and returns its folder.
func built(t *testing.T) string {
	t.Helper()
	pages, err := build("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if err := write(pages, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestLinks follows each link of each page that was written.
func TestLinks(t *testing.T) {
	out := built(t)
	seen := 0
	err := filepath.WalkDir(out, func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range href.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			seen++
			name, id, _ := strings.Cut(m[1], "#")
			to := file
			if name != "" {
				to = filepath.Join(filepath.Dir(file), name)
			}
			there, err := os.ReadFile(to)
			if err == nil {
				id, err = url.PathUnescape(id) // a heading may have other letters than ASCII
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
			} else if id != "" && !strings.Contains(string(there), `id="`+id+`"`) {
				t.Errorf("%s links to %s: there is no such heading", file, m[1])
			}
		}
		ids := map[string]bool{}
		for _, m := range anchor.FindAllStringSubmatch(string(text), -1) {
			if ids[m[1]] {
				t.Errorf("%s has %s twice", file, m[0])
			}
			ids[m[1]] = true
		}
		return nil
	})
	if err != nil || seen < 2000 {
		t.Errorf("%d links, %v", seen, err)
	}
}

// TestAllPages: each page of docs is in the table of contents.
func TestAllPages(t *testing.T) {
	known := map[string]bool{}
	for _, s := range contents {
		for _, e := range s.pages {
			known[e.file] = true
		}
	}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		name := "docs/" + filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))
		if !known[name] && !strings.HasPrefix(name, "docs/decisions/0") {
			t.Errorf("%s is not in the table of contents", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDeadLinks: a link to nothing keeps the site from being built.
func TestDeadLinks(t *testing.T) {
	root := t.TempDir()
	for _, s := range contents {
		for _, e := range s.pages {
			text := "# Title\n\n[there](../README.md), [far](https://example.org)\n"
			if e.file == "docs/workers.md" {
				text += "\n[gone](gone.md) and [nowhere](#nowhere)\n"
			}
			if err := put(root, e.file, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := build(root)
	if err == nil || !strings.Contains(err.Error(), "gone.md") || !strings.Contains(err.Error(), "#nowhere") {
		t.Error(err)
	}
}

// TestBrowser searches in a real browser, where there is one.
func TestBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	out := built(t)
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=5000", "--dump-dom", "file://"+out+"/index.html?q=park")
	dom, err := cmd.Output()
	if err != nil {
		t.Skipf("chromium does not start here: %v", err)
	}
	for _, want := range []string{`<mark>park</mark>`, `href="workers.html#`, `data-theme=`} {
		if !strings.Contains(string(dom), want) {
			t.Errorf("the page in the browser lacks %s", want)
		}
	}
}
