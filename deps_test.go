package parley_test

import (
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/parleymq/parley"

// deps lists what a package of this module needs, without the standard library.
func deps(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}

// TestDependencies keeps drivers where they belong: whoever imports Parley gets
// the driver of the backend that he imports, and no other.
func TestDependencies(t *testing.T) {
	core := []string{module, module + "/backend"}
	for pkg, allowed := range map[string][]string{
		module + "/backend/sqlstore": {module + "/backend", module + "/backend/sqlstore"},

		module:                  core,
		module + "/backend":     {module + "/backend"},
		module + "/doctor":      append(core, module+"/doctor"),
		module + "/applock":     append(core, module+"/applock"),
		module + "/conformance": append(core, module+"/doctor", module+"/applock", module+"/conformance"),
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
