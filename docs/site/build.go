package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/yuin/goldmark"
	highlighting "github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is a page of the site.
type page struct {
	Title    string // in the table of contents
	File     string // in the repository
	Section  string
	Body     template.HTML
	Headings []heading
	Prev     *page
	Next     *page

	source   []byte
	tree     ast.Node
	pictures map[string][]byte // by where they are on the site
	ids      map[string]bool
}

// heading is a heading of a page, with the text below it, for the search.
type heading struct {
	Level    int
	ID, Text string
	Below    string
}

// URL is where the page is, from the site's root.
func (p *page) URL() string { return urlOf(p.File) }

func urlOf(file string) string {
	if file == "README.md" {
		return "index.html"
	}
	url := strings.TrimPrefix(strings.TrimSuffix(file, ".md"), "docs/")
	if path.Base(url) == "README" {
		url = path.Join(path.Dir(url), "index")
	}
	return strings.ToLower(url) + ".html"
}

// Root is the way from the page to the site's root.
func (p *page) Root() string { return strings.Repeat("../", strings.Count(p.URL(), "/")) }

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM, highlighting.NewHighlighting(
		highlighting.WithFormatOptions(html.WithClasses(true)))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// build reads all pages and checks their links.
func build(root string) ([]*page, error) {
	var pages []*page
	for _, s := range contents {
		for _, e := range s.pages {
			pages = append(pages, &page{Title: e.title, File: e.file, Section: s.title})
		}
	}
	decisions, err := filepath.Glob(filepath.Join(root, "docs/decisions/0*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range decisions { // they are found by the search and from their list
		file = path.Join("docs/decisions", filepath.Base(file))
		pages = append(pages, &page{File: file, Section: "Decisions"})
	}
	byFile := map[string]*page{}
	for i, p := range pages {
		byFile[p.File] = p
		if i > 0 {
			p.Prev, pages[i-1].Next = pages[i-1], p
		}
		if p.source, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(p.File))); err != nil {
			return nil, err
		}
		p.source = block.ReplaceAllFunc(p.source, dedent)
		p.parse()
	}
	var dead []error
	for _, p := range pages {
		dead = append(dead, p.link(root, byFile))
		var b bytes.Buffer
		if err := markdown.Renderer().Render(&b, p.source, p.tree); err != nil {
			return nil, err
		}
		p.Body = template.HTML(b.String())
	}
	return pages, errors.Join(dead...)
}

var block = regexp.MustCompile("(?ms)^```go\n.*?^```$")

// dedent moves code to the left that stands in a function.
func dedent(code []byte) []byte {
	lines := strings.SplitAfter(string(code), "\n")
	for _, line := range lines[1 : len(lines)-1] {
		if strings.TrimSpace(line) != "" && strings.TrimSpace(line) != "…" && line[0] != '\t' {
			return code
		}
	}
	return []byte(strings.ReplaceAll(string(code), "\n\t", "\n"))
}

// parse reads a page's headings and the text below each.
func (p *page) parse() {
	ctx := parser.NewContext(parser.WithIDs(&ids{used: map[string]bool{}}))
	p.tree = markdown.Parser().Parse(text.NewReader(p.source), parser.WithContext(ctx))
	p.ids = map[string]bool{}
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		words := textOf(n, p.source)
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			name := string(id.([]byte))
			p.ids[name] = true
			p.Headings = append(p.Headings, heading{Level: h.Level, ID: name, Text: words})
		} else if len(p.Headings) > 0 {
			last := &p.Headings[len(p.Headings)-1]
			last.Below += words + " "
		}
	}
	if p.Title == "" && len(p.Headings) > 0 {
		p.Title = p.Headings[0].Text
	}
}

// textOf is the text of a node without its markup.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch x := n.(type) {
		case *ast.Text:
			b.Write(x.Segment.Value(source))
			if x.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				b.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// ids gives headings the ids that GitHub gives them, so that links work there and here.
type ids struct{ used map[string]bool }

func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(string(value)) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
			b.WriteRune(r)
		}
	}
	id := b.String()
	for n := 1; i.used[id]; n++ {
		id = fmt.Sprintf("%s-%d", b.String(), n)
	}
	i.used[id] = true
	return []byte(id)
}

func (i *ids) Put(value []byte) { i.used[string(value)] = true }

// picture takes a picture of the repository to the site.
func (p *page) picture(root string, x *ast.Image) error {
	file := path.Join(path.Dir(p.File), string(x.Destination))
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return fmt.Errorf("%s shows %s: %w", p.File, x.Destination, err)
	}
	if p.pictures == nil {
		p.pictures = make(map[string][]byte)
	}
	to := strings.TrimPrefix(file, "docs/")
	p.pictures[to], x.Destination = text, []byte(p.Root()+to)
	return nil
}

// link has links lead to pages of the site where there are such, and to the repository elsewhere. A link to nothing is
// an error.
func (p *page) link(root string, byFile map[string]*page) error {
	var dead []error
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if x, ok := n.(*ast.Image); ok && entering && !strings.Contains(string(x.Destination), ":") {
			return ast.WalkContinue, p.picture(root, x)
		}
		x, ok := n.(*ast.Link)
		if !ok || !entering || strings.Contains(string(x.Destination), ":") {
			return ast.WalkContinue, nil
		}
		target, anchor, _ := strings.Cut(string(x.Destination), "#")
		file := p.File
		if target != "" {
			file = path.Join(path.Dir(p.File), target)
		}
		to := byFile[file]
		if to == nil {
			to = byFile[path.Join(file, "README.md")]
		}
		if to == nil {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				dead = append(dead, fmt.Errorf("%s links to %s: %w", p.File, x.Destination, err))
			}
			x.Destination = []byte(repository + file)
			return ast.WalkContinue, nil
		}
		if anchor != "" && !to.ids[anchor] {
			dead = append(dead, fmt.Errorf("%s links to %s: there is no such heading", p.File, x.Destination))
		}
		url := p.Root() + to.URL()
		if anchor != "" {
			url += "#" + anchor
		}
		x.Destination = []byte(url)
		if textOf(x, p.source) == path.Base(file) { // the name of a file says less than its title
			x.RemoveChildren(x)
			x.AppendChild(x, ast.NewString([]byte(to.Title)))
		}
		return ast.WalkContinue, nil
	})
	return errors.Join(append(dead, err)...)
}
