package parley_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The limits of the code, which only fall; testdata/words has those of words. They are the lines and paths of a
// function, the lines of a file that is not a test, and the fields of a struct. Paths are counted as gocyclo does.
// The package parley has limits for its files and lines.
const (
	longestFunc = 80
	mostPaths   = 25
	mostFields  = 25
	longestFile = 600

	rootLines = 9000
	rootFiles = 36
)

// known are files and functions beyond a limit, with what they had when the limit was set. None may grow or join
// them. The test says which lines can go.
var known = map[string]int{
	". dispatch lines":                               113,
	". dispatch paths":                               38,
	"backend/mssql moves paths":                      30,
	"backend/mssql read paths":                       32,
	"backend/mysql TestJoinedLocksNothingElse lines": 99,
	"backend/postgres TestDuePlans lines":            96,
	"backend/postgres TestPlans lines":               176,
	"backend/postgres claim paths":                   28,
	"conformance TestReport paths":                   38,
	"conformance checkCancelledWithin lines":         83,
	"conformance checkConcurrentSenders lines":       98,
	"conformance checkGrpFree lines":                 105,
	"conformance checkPrioChooser lines":             97,
	"conformance checkUnfitHandles lines":            96,
	"conformance settle paths":                       30,
}

// TestLimits holds the tree to the limits.
func TestLimits(t *testing.T) {
	found := make(map[string]int)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		return measure(filepath.ToSlash(path), found)
	})
	if err != nil {
		t.Fatal(err)
	}
	for place, n := range found {
		if n > known[place] {
			t.Errorf("%q: %d,  // above the limit of %d", place, n, limit(place))
		}
	}
	for place, n := range known {
		if found[place] < n {
			t.Logf("%q: %d,  // instead of %d; 0: the line can go", place, found[place], n)
		}
	}
}

func limit(place string) int {
	switch {
	case strings.HasSuffix(place, " lines"):
		return longestFunc
	case strings.HasSuffix(place, " paths"):
		return mostPaths
	case strings.HasSuffix(place, " fields"):
		return mostFields
	}
	return longestFile
}

// measure notes what of a file is beyond a limit.
func measure(path string, found map[string]int) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte("\n")); n > longestFile && !strings.HasSuffix(path, "_test.go") {
		found[path] = n
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(node ast.Node) bool {
		// An engine's dialect and statements are tables, and so are the mistakes that tests plant.
		if spec, ok := node.(*ast.TypeSpec); ok && !strings.HasPrefix(path, "backend/") && !strings.HasSuffix(path, "_test.go") {
			if n := fields(spec.Type); n > mostFields {
				found[filepath.ToSlash(filepath.Dir(path))+" "+spec.Name.Name+" fields"] = n
			}
		}
		return true
	})
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		for _, node := range parts(f) {
			place := filepath.ToSlash(filepath.Dir(path)) + " " + f.Name.Name
			if lines := files.Position(node.End()).Line - files.Position(node.Pos()).Line + 1; lines > longestFunc {
				found[place+" lines"] = max(lines, found[place+" lines"])
			}
			if n := paths(node); n > mostPaths {
				found[place+" paths"] = max(n, found[place+" paths"])
			}
		}
	}
	return nil
}

// fields is how many fields a struct has, embedded ones included.
func fields(x ast.Expr) int {
	s, ok := x.(*ast.StructType)
	if !ok {
		return 0
	}
	return s.Fields.NumFields()
}

// TestRootIsSmall: the package that programs call stays small enough to be read.
func TestRootIsSmall(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, lines := 0, 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files, lines = files+1, lines+bytes.Count(text, []byte("\n"))
	}
	if files == 0 || files > rootFiles || lines > rootLines {
		t.Errorf("package parley has %d lines in %d files, want at most %d in %d", lines, files, rootLines, rootFiles)
	}
}

// parts is the function, or, if it is an init that does nothing but hand over a table, the functions in the table.
func parts(f *ast.FuncDecl) (list []ast.Node) {
	if f.Name.Name != "init" || len(f.Body.List) != 1 {
		return []ast.Node{f}
	}
	ast.Inspect(f.Body, func(node ast.Node) bool {
		if _, ok := node.(*ast.FuncLit); ok {
			list = append(list, node)
			return false
		}
		return true
	})
	return list
}

// paths is the cyclomatic complexity of a function together with those inside it.
func paths(f ast.Node) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// TestPaths counts those of a function that has each kind of branch.
func TestPaths(t *testing.T) {
	const text = `package x
func f(c chan int, a, b bool) {
	if a && b || a {
	}
	for range 3 {
		for a {
		}
	}
	switch {
	case a:
	default:
	}
	select {
	case <-c:
	default:
	}
	func() {
		if a {
		}
	}()
}`
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := paths(file.Decls[0].(*ast.FuncDecl)); n != 9 {
		t.Errorf("%d paths, want 9", n)
	}
}
