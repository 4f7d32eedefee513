package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamplesShowEverything: whatever can be called stands in an Example.
func TestExamplesShowEverything(t *testing.T) {
	var files []string
	for _, folder := range []string{".", "applock", "doctor", "phases", "recurring", "parleytest"} {
		list, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	var exported []string
	shown := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(filepath.Base(name), "example_"):
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					shown[s.Sel.Name] = true
				}
				return true
			})
		case !strings.HasSuffix(name, "_test.go"):
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && public(fn) {
					exported = append(exported, fn.Name.Name)
				}
			}
		}
	}
	if len(exported) < 50 {
		t.Fatalf("only %d exported functions found", len(exported))
	}
	for _, name := range exported {
		if !shown[name] {
			t.Errorf("no Example shows %s", name)
		}
	}
}

// public reports whether users can call a function and may want to. It does something, and it is no
// method of a type that they cannot name.
func public(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported() && !strings.HasPrefix(x.Name, "Nop")
		default:
			return false
		}
	}
}
