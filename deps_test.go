package parley_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/parleymq/parley"

// deps lists what a package of this module needs, without the standard library, but with package testing: no program
// shall get that by importing Parley.
func deps(t *testing.T, pkg string) []string {
	t.Helper()
	all, err := allDeps()
	if err != nil {
		t.Fatal(err)
	}
	list, ok := all[pkg]
	if !ok {
		t.Fatalf("there is no package %s", pkg)
	}
	return list
}

// allDeps asks once for all packages, since each start of the go command takes a second.
var allDeps = sync.OnceValues(func() (map[string][]string, error) {
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Deps \" \"}}", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		list := strings.Fields(line) // the package itself and what it needs
		all[list[0]] = slices.DeleteFunc(list, func(pkg string) bool {
			host, _, _ := strings.Cut(pkg, "/")
			return !strings.Contains(host, ".") && pkg != "testing" // of the standard library
		})
	}
	return all, nil
})

// TestDependencies keeps drivers where they belong: a program that imports Parley gets
// the driver of the backend that it imports, and no other.
func TestDependencies(t *testing.T) {
	helpers := []string{module + "/backend", module + "/internal/guard", module + "/internal/failures", module + "/internal/lease",
		module + "/internal/wait", module + "/internal/wake"}
	const cronParser = "github.com/netresearch/go-cron"
	core := append([]string{module, module + "/internal/consumer", module + "/internal/crowd"}, helpers...)
	for pkg, allowed := range map[string][]string{
		module + "/backend/sqlstore": {module + "/backend", module + "/backend/sqlstore"},

		module + "/internal/consumer": append(helpers, module+"/internal/consumer"),

		module:                core,
		module + "/backend":   {module + "/backend"},
		module + "/doctor":    append(core, module+"/doctor"),
		module + "/applock":   append(core, module+"/applock"),
		module + "/phases":    append(core, module+"/phases"),
		module + "/recurring": append(core, module+"/recurring", cronParser),
		module + "/console":   append(core, module+"/doctor", module+"/applock", module+"/phases", module+"/recurring", cronParser, module+"/console"),
		module + "/parleytest": append(core, module+"/recurring", cronParser, module+"/backend/memory", module+"/internal/memstore",
			module+"/internal/frail", module+"/internal/testclock", "testing", module+"/parleytest"),
		module + "/conformance": append(core, module+"/doctor", module+"/applock", module+"/phases", module+"/recurring", cronParser, module+"/internal/frail", module+"/internal/slow", module+"/internal/sure", "testing", module+"/conformance"),
	} {
		for _, d := range deps(t, pkg) {
			ok := false
			for _, a := range allowed {
				ok = ok || d == a
			}
			if !ok {
				t.Errorf("%s needs %s, want only the standard library and %s", pkg, d, strings.Join(allowed, ", "))
			}
		}
	}

	drivers := map[string]string{ // backend -> the modules that are its own
		"postgres": "github.com/jackc/ github.com/lib/pq",
		"mysql":    "github.com/go-sql-driver/",
		"sqlite":   "modernc.org/sqlite github.com/mattn/go-sqlite3",
		"memory":   "",
		"mssql":    "github.com/microsoft/go-mssqldb github.com/denisenkom/",
	}
	backends, err := os.ReadDir("backend")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range backends {
		name := dir.Name()
		if !dir.IsDir() || name == "internal" || name == "sqlstore" || !hasGo(t, path.Join("backend", name)) {
			continue
		}
		if _, ok := drivers[name]; !ok {
			t.Errorf("backend/%s is not known here: add its driver", name)
		}
		pkg := module + "/backend/" + name
		for _, d := range deps(t, pkg) {
			if d == module || strings.HasPrefix(d, module+"/conformance") {
				t.Errorf("%s needs %s: a backend needs package backend alone", pkg, d)
			}
			if name == "postgres" && strings.HasPrefix(d, module+"/internal/") {
				t.Errorf("%s needs %s: it stands outside the module in a test, as the backends of others do", pkg, d)
			}
			for other, prefixes := range drivers {
				if other == name {
					continue
				}
				if d == module+"/backend/"+other {
					t.Errorf("%s needs another backend, %s", pkg, d)
				}
				for _, p := range strings.Fields(prefixes) {
					if strings.HasPrefix(d, p) {
						t.Errorf("%s needs %s, a driver of backend/%s", pkg, d, other)
					}
				}
			}
		}
	}
}

func hasGo(t *testing.T, dir string) bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			return true
		}
	}
	return false
}

// TestCapabilitiesAreStated: Parley asks a store for what it can do by Capabilities. A type assertion would not see
// what is behind a wrapper.
func TestCapabilitiesAreStated(t *testing.T) {
	for _, dir := range []string{".", "applock", "cmd/parley", "console", "doctor", "internal/consumer", "internal/frail",
		"internal/wake", "parleytest", "phases", "recurring"} {
		names, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(names) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		files := token.NewFileSet()
		for _, name := range names {
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if x, ok := n.(*ast.TypeAssertExpr); ok && capability(x.Type) && !strings.HasSuffix(name, "_test.go") {
					t.Errorf("%s: a type assertion to an optional interface", files.Position(x.Pos()))
				}
				return true
			})
		}
	}
}

// capability reports whether a type is an interface of package backend, or one with further methods, that code
// asserts of a possible wrapper. Errors have methods to unwrap them.
func capability(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.SelectorExpr:
		pkg, ok := x.X.(*ast.Ident)
		return ok && pkg.Name == "backend" && x.Sel.Name != "Tx" && x.Sel.Name != "ID"
	case *ast.InterfaceType:
		return len(x.Methods.List) > 0 && x.Methods.List[0].Names[0].Name != "Unwrap"
	}
	return false
}
