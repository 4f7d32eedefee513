package postgres_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// outsideSuite runs the suite on the copy, by the driver of pgx.
const outsideSuite = `package outside_test

import (
	"context"
	"database/sql"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"example.org/outside"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	open := func(conns int) *sql.DB {
		db, err := sql.Open("pgx", os.Getenv("OUTSIDE_DB"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(16)
		return db
	}
	on := func(db *sql.DB) (backend.Backend, error) {
		return outside.New(db, &outside.Options{Schema: os.Getenv("OUTSIDE_SCHEMA")}), nil
	}
	shared := open(0)
	conformance.Run(t, conformance.Store{
		Process:    "outside",
		Disposable: true,
		Open:       func(context.Context) (backend.Backend, error) { return on(shared) },
		Limit:      func(_ context.Context, conns int) (backend.Backend, error) { return on(open(conns)) },
	})
}
`

// TestConformanceOutside: a dialect for package sqlstore can live in another module. The test
// copies this package under another name. The copy compiles against the public API, and passes the
// suite by another driver than this package's.
func TestConformanceOutside(t *testing.T) {
	t.Parallel()
	dsn := server(t)
	name := schema(t, connect(t, "postgres", dsn))
	dir := t.TempDir()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "pgxstore"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, path), 0o755)
		case strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			// Its names for Open would be taken already: the suite knows this package as well.
			text = []byte(strings.NewReplacer("package postgres\n", "package outside\n", `"postgres", "postgresql")`, `"outside")`).Replace(string(text)))
			err = os.WriteFile(filepath.Join(dir, path), text, 0o644)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Replace(string(mod), "module github.com/parleymq/parley", "module example.org/outside", 1) +
		"\nrequire github.com/parleymq/parley v0.0.0\n\nreplace github.com/parleymq/parley => " + root + "\n"
	for file, text := range map[string]string{"go.mod": module, "go.sum": string(sum), "suite_test.go": outsideSuite} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-mod=mod", "-count=1", "-timeout", "20m", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OUTSIDE_DB="+dsn, "OUTSIDE_SCHEMA="+name, "GOFLAGS=-mod=mod", "PARLEY_CONFORMANCE_STORE=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
}
