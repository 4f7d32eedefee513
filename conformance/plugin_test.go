package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The parts of another author's module: a backend that extends another one as a plugin would, and a
// program and a test that check it.
const (
	pluginBackend = `// Package plugin is a backend from outside.
package plugin

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/conformance"
)

// Store counts its transactions. What it can do besides is what the store below can.
type Store struct {
	backend.Backend
	Begun atomic.Int64
}

var _ backend.Backend = (*Store)(nil)

func (s *Store) Begin(ctx context.Context) (backend.Tx, error) {
	s.Begun.Add(1)
	return s.Backend.Begin(ctx)
}

func Open(ctx context.Context, dsn string) (*Store, error) {
	be, err := sqlite.Open(ctx, dsn, nil)
	if err != nil {
		return nil, err
	}
	return &Store{Backend: be}, nil
}

// Checked is what the suite gets.
func Checked() conformance.Store {
	dsn := os.Getenv(conformance.StoreEnv)
	if dsn == "" {
		dir, err := os.MkdirTemp(os.Getenv("PLUGIN_DIR"), "")
		if err != nil {
			panic(err)
		}
		dsn = "sqlite:" + filepath.Join(dir, "plugin.db")
	}
	return conformance.Store{
		Process: dsn,
		Open:    func(ctx context.Context) (backend.Backend, error) { return Open(ctx, dsn) },
	}
}
`
	pluginTest = `package plugin

import (
	"context"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	conformance.RunMatching(t, Checked(), regexp.MustCompile("^(D01|T04)/"))
}

func TestCounts(t *testing.T) {
	s, err := Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "counts.db"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := parley.New(context.Background(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := b.Define(context.Background(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	if s.Begun.Load() == 0 {
		t.Error("the broker did not use the plugin's Begin")
	}
}
`
	pluginMain = `// Command check checks the backend.
package main

import (
	"example.com/plugin"

	"github.com/parleymq/parley/conformance"
)

func main() { conformance.Main("plugin", plugin.Checked()) }
`
)

// TestPlugin proves that a backend can be written and checked from outside,
// with the public packages alone.
func TestPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("this builds another module")
	}
	repo, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(repo, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	version := regexp.MustCompile(`(?m)^go .*$`).FindString(read("go.mod"))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/plugin\n\n" + version + "\n\nrequire github.com/parleymq/parley v0.0.0\n\n" +
			"replace github.com/parleymq/parley => " + repo + "\n",
		"go.sum":         read("go.sum"),
		"plugin.go":      pluginBackend,
		"plugin_test.go": pluginTest,
		"check/main.go":  pluginMain,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		// What it needs, this module has already.
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off", "PLUGIN_DIR="+dir)
		return cmd
	}
	if out, err := command("go", "vet", "./...").CombinedOutput(); err != nil {
		t.Fatalf("go vet: %v\n%s", err, out)
	}
	out, err := command("go", "test", "-count=1", "-v", "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestCounts", "--- PASS: TestConformance/T04/a_timer_fires_after_its_process_was_killed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("go test did not print %q:\n%s", want, out)
		}
	}

	exe := filepath.Join(dir, "check.exe")
	if out, err := command("go", "build", "-o", exe, "./check").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err = command(exe, "-run", "^(D01|T04|N05)/").CombinedOutput()
	if err != nil {
		t.Errorf("the program: %v\n%s", err, out)
	}
	for _, want := range []string{"sqlite 3.", "ok   T04/a timer fires after its process was killed", " passed, 0 failed, 0 skipped\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the program did not print %q:\n%s", want, out)
		}
	}
	err = command(exe, "-run", "(").Run()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
		t.Errorf("the program with a bad expression: %v, want exit code 2", err)
	}
}
