package parley_test

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// publicPackages are those whose exported names programs and plugins rely on.
var publicPackages = []string{".", "applock", "doctor", "phases", "recurring", "console", "parleytest", "backend", "backend/sqlstore", "backend/postgres",
	"backend/memory", "backend/mysql", "backend/sqlite", "backend/mssql", "conformance"}

var blank = regexp.MustCompile(`\n\s*\n`)

// TestPublicAPI: what packages export is what testdata/api says, so that each change of it
// is seen in a diff. UPDATE=1 go test -run TestPublicAPI . writes it again.
func TestPublicAPI(t *testing.T) {
	for _, folder := range publicPackages {
		got := exported(t, folder)
		name := strings.ReplaceAll(folder, "/", "-")
		if folder == "." {
			name = "parley"
		}
		golden := filepath.Join("testdata", "api", name+".txt")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got == string(want) {
			continue
		}
		was, is := strings.Split(string(want), "\n"), strings.Split(got, "\n")
		t.Errorf("%s exports something else than %s says", folder, golden)
		for _, line := range was {
			if !slices.Contains(is, line) {
				t.Logf("- %s", line)
			}
		}
		for _, line := range is {
			if !slices.Contains(was, line) {
				t.Logf("+ %s", line)
			}
		}
	}
}

// exported returns the declarations of what a package exports, without comments and bodies.
func exported(t *testing.T, folder string) string {
	t.Helper()
	files := token.NewFileSet()
	var list []string
	entries, err := fs.Glob(os.DirFS(folder), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range entries {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.FileExports(f) {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
					continue
				}
				d.Body = nil
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
			}
			ast.Inspect(d, func(n ast.Node) bool { // the contents of variables are no API
				if c, ok := n.(*ast.CompositeLit); ok {
					c.Elts = nil
				}
				return true
			})
			var b bytes.Buffer
			if err := format.Node(&b, files, d); err != nil {
				t.Fatal(err)
			}
			list = append(list, blank.ReplaceAllString(b.String(), "\n")) // where comments were
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n\n") + "\n"
}

// receiver returns the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
