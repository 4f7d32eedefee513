package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"os"
	"path/filepath"

	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/styles"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// found is what the search knows: a heading, and where it is.
type found struct {
	URL   string `json:"u"`
	Page  string `json:"p"`
	Title string `json:"t"`
	Text  string `json:"x"`
}

// write writes the site.
func write(pages []*page, out string) error {
	index := []found{}
	for _, p := range pages {
		for _, h := range p.Headings {
			index = append(index, found{p.URL() + "#" + h.ID, p.Title, h.Text, h.Below})
		}
		var b bytes.Buffer
		if err := layout.Execute(&b, map[string]any{"Page": p, "Contents": nav(pages)}); err != nil {
			return err
		}
		if err := put(out, p.URL(), b.Bytes()); err != nil {
			return err
		}
		for file, text := range p.pictures {
			if err := put(out, file, text); err != nil {
				return err
			}
		}
	}
	list, err := json.Marshal(index)
	if err != nil {
		return err
	}
	// A script, and no JSON: pages that are opened as files may not fetch.
	if err := put(out, "index.js", append(append([]byte("window.parleyIndex="), list...), ';')); err != nil {
		return err
	}
	style, err := stylesheet()
	if err != nil {
		return err
	}
	script, err := assets.ReadFile("assets/site.js")
	if err != nil {
		return err
	}
	if err := put(out, "site.js", script); err != nil {
		return err
	}
	return put(out, "site.css", style)
}

// stylesheet is that of the pages with that of code, light and dark.
func stylesheet() ([]byte, error) {
	text, err := assets.ReadFile("assets/site.css")
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(text)
	f := html.New(html.WithClasses(true))
	for _, s := range []struct{ before, style, after string }{
		{":root:not([data-theme=dark]) {\n", "github", "}\n"},
		{":root[data-theme=dark] {\n", "github-dark", "}\n"},
	} {
		b.WriteString(s.before)
		if err := f.WriteCSS(b, styles.Get(s.style)); err != nil {
			return nil, err
		}
		b.WriteString(s.after)
	}
	return b.Bytes(), nil
}

// navSection is a section of the table of contents with its pages.
type navSection struct {
	Title string
	Pages []*page
}

func nav(pages []*page) (list []navSection) {
	for _, p := range pages {
		if p.Section == "Decisions" {
			continue
		}
		if len(list) == 0 || list[len(list)-1].Title != p.Section {
			list = append(list, navSection{Title: p.Section})
		}
		last := &list[len(list)-1]
		last.Pages = append(last.Pages, p)
	}
	return list
}

func put(out, name string, text []byte) error {
	file := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
